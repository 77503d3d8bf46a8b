"""A kernel's source that is edited in a house: kept, tried beside, and told where it conflicts."""

from dataclasses import replace

import pytest

import explorer
from explorer.errors import BadOption
from explorer.process.sandbox import CAN_FORK
from tests.widgets import made_by_hand as hand
from widgets.session import edits, state
from widgets.session.session import Session

MODEL = "tests/data/tiny_resnet18.onnx"
LOOP = "    for task in range(first, last):\n"
CALL = 0


@pytest.fixture
def session() -> Session:
    return Session(explorer.compile(MODEL))


def source_of(session: Session) -> str:
    return str(session.answer("edit", {"call": CALL})["source"])


def tried(session: Session) -> dict[str, object]:
    told = session.answer("try_edit", {"call": CALL})
    job = session.bench.jobs.wait(told["job"], 120)
    assert job["error"] is None
    found: dict[str, object] = job["data"]
    return found


def other_tile(session: Session) -> None:
    knob = next(k for k in session.knobs() if k.name == "tile")
    at = next(i for i in range(len(knob.labels)) if i != knob.now)
    session.answer("turn", {"knob": "tile", "index": at})


def test_an_edit_is_kept_with_the_state_and_comes_back_as_a_text(session: Session) -> None:
    ours = source_of(session)
    told = session.answer("edit", {"call": CALL})
    assert told["changed"] == 0 and told["said"] is None and not told["conflict"]
    mine = ours.replace(LOOP, f"    pass\n{LOOP}")
    assert session.answer("keep_edit", {"call": CALL, "source": mine})["changed"] == 1
    text = session.answer("link", {})["text"]
    other = Session(explorer.compile(MODEL))
    other.answer("restore", {"text": text})
    found = other.answer("edit", {"call": CALL})
    assert found["source"] == mine and found["said"] is None, "shown, and not run"
    assert found["conflict"] == ""


def test_an_edit_that_is_taken_back_can_be_had_again(session: Session) -> None:
    ours, mine = source_of(session), "x = 1\n"
    session.answer("keep_edit", {"call": CALL, "source": mine})
    told = session.answer("drop_edit", {"call": CALL})
    assert told["source"] == ours and told["dropped"]
    assert session.answer("drop_edit", {"call": CALL, "again": True})["source"] == mine


def test_a_link_with_another_edit_loses_none(session: Session) -> None:
    session.answer("keep_edit", {"call": CALL, "source": "x = 1\n"})
    kept = session.state()
    ((name, base, _),) = kept.edits
    session.answer("restore", {"text": state.serialise_state(replace(kept, edits=()))})
    assert source_of(session) == "x = 1\n"
    session.answer(
        "restore", {"text": state.serialise_state(replace(kept, edits=((name, base, "y"),)))}
    )
    assert source_of(session) == "y"
    assert session.answer("drop_edit", {"call": CALL, "again": True})["source"] == "x = 1\n"


@pytest.mark.exhaustive
@pytest.mark.skipif(not CAN_FORK, reason="there is no fork here")
def test_what_came_of_a_trial_is_one_sentence_and_belongs_to_its_text(session: Session) -> None:
    ours = source_of(session)
    found = tried(session)
    assert str(found["text"]).startswith("Right, and ") and not found["bad"]
    assert " to " in str(found["text"]) and "n = " in str(found["text"])
    session.answer(
        "keep_edit", {"call": CALL, "source": ours.replace("for task in", "for task on")}
    )
    assert session.answer("edit", {"call": CALL})["said"] is None
    found = tried(session)
    assert found["bad"] and str(found["text"]).startswith("It does not compile: invalid syntax")
    assert session.answer("edit", {"call": CALL})["said"] == found


@pytest.mark.exhaustive
@pytest.mark.skipif(not CAN_FORK, reason="there is no fork here")
def test_a_knob_that_is_turned_later_is_a_conflict_and_nothing_is_lost(session: Session) -> None:
    session.answer(
        "focus", {"op": next(i for i, o in enumerate(session.house.operators) if o.calls)}
    )
    mine = source_of(session).replace(LOOP, f"    pass\n{LOOP}")
    session.answer("keep_edit", {"call": CALL, "source": mine})
    other_tile(session)
    told = session.answer("edit", {"call": CALL})
    assert told["source"] == mine and "was compiled anew since this edit began" in told["conflict"]
    assert str(tried(session)["text"]).startswith("Right, and "), (
        "in the place of what it began from"
    )
    ((name, _, _),) = session.state().edits
    kept = replace(session.state(), edits=((name, "of another machine", mine),))
    fresh = Session(explorer.compile(MODEL))
    fresh.answer("restore", {"text": state.serialise_state(kept)})
    told = fresh.answer("edit", {"call": CALL})
    assert told["source"] == mine and told["conflict"] == edits.NOT_IN_USE
    with pytest.raises(BadOption, match="is not in use here"):
        fresh.answer("try_edit", {"call": CALL})
    session.answer("undo", {})
    assert session.answer("edit", {"call": CALL})["conflict"] == ""


def test_what_cannot_be_edited_says_so() -> None:
    with pytest.raises(BadOption, match="no code that can be edited and run here"):
        Session(hand.HandMade()).answer("edit", {"call": 0})
    made = Session(explorer.compile("tests/data/tiny_skip.onnx"))
    with pytest.raises(BadOption, match="at most"):
        made.answer("keep_edit", {"call": 0, "source": "x" * (state.LONGEST_SOURCE + 1)})
    with pytest.raises(BadOption, match="there is no call"):
        made.answer("edit", {"call": 99})
