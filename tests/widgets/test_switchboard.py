"""The switchboard: steps turned off and moved, remembered in links, refused by name."""

from __future__ import annotations

import pytest

import explorer
from explorer.errors import BadOption
from tests.widgets import made_by_hand as hand
from widgets.draw.table import sentence_text
from widgets.program import switchboard
from widgets.session.session import Session


@pytest.fixture
def session() -> Session:
    return Session(explorer.compile("zoo:tiny_bert", until="planned"))


def board(session: Session) -> dict[str, dict[str, object]]:
    return {s["name"]: s for s in session.answer("board", {})["steps"]}


def test_a_step_is_turned_off_and_undone(session: Session) -> None:
    before = board(session)["fold layout copies"]
    assert before["on"] and before["in_a"] and before["knob"] == "step fold layout copies"
    said = session.answer("turn", {"knob": before["knob"], "index": before["off"]})["said"]
    assert said.startswith("fold layout copies on → off: predicted")
    assert "fold layout copies" not in [s.name for s in session.now.compiled.snapshots]
    now = board(session)["fold layout copies"]
    assert not now["on"] and now["in_a"]
    session.answer("undo", {})
    assert board(session)["fold layout copies"]["on"]


def test_a_link_restores_what_is_off_and_where_steps_stand(session: Session) -> None:
    session.answer("turn", {"knob": "step put channels last", "index": 0})
    place = next(k for k in session.knobs() if k.name == "place clean up")
    at = place.labels.index("after legalise to kernels")
    session.answer("turn", {"knob": "place clean up", "index": at})
    names = [s.name for s in session.now.compiled.snapshots]
    assert names.index("clean up") == names.index("legalise to kernels") + 1
    link = session.answer("link", {})["text"]
    other = Session(explorer.compile("zoo:tiny_bert", until="planned"))
    other.answer("restore", {"text": link})
    assert [s.name for s in other.now.compiled.snapshots] == names
    assert other.now.compiled.options.steps == session.now.compiled.options.steps


def test_what_may_not_be_is_refused_and_nothing_changes(session: Session) -> None:
    before = session.now
    assert "'schedule (Rammer)' needs tiles" in str(board(session)["tile (Roller)"]["needed"])
    with pytest.raises(BadOption, match=r"cannot be left out: .* needs tiles"):
        session.answer("turn", {"knob": "step tile (Roller)", "index": 0})
    place = next(k for k in session.knobs() if k.name == "place remove dead code")
    with pytest.raises(BadOption, match="cannot stand before 'legalise to kernels': it needs ker"):
        session.answer("turn", {"knob": "place remove dead code", "index": 1})
    assert place.labels[1] == "first of its stage" and session.now is before


def test_weld_is_off_by_the_knob_of_fusion(session: Session) -> None:
    weld = board(session)["fuse (Welder)"]
    assert weld["knob"] == "fusion" and not weld["needed"]
    session.answer("turn", {"knob": "fusion", "index": weld["off"]})
    assert not board(session)["fuse (Welder)"]["on"]
    session.answer("turn", {"knob": "fusion", "index": weld["back"]})
    assert board(session)["fuse (Welder)"]["on"]


def test_two_pipelines_are_beside_each_other_in_numbers(session: Session) -> None:
    session.answer("turn", {"knob": "step put channels last", "index": 0})
    found = switchboard.data(session.now.compiled, session.pinned.compiled)
    numbers = {name: (a, now) for name, a, now in found.numbers}
    assert int(numbers["steps"][0]) == int(numbers["steps"][1]) + 1
    assert {"kernels", "took to compile", "per run, predicted", "memory"} <= set(numbers)
    row = next(s for s in found.steps if s.name == "put channels last")
    assert not row.on and row.in_a
    assert "1 off" in switchboard.caption(found)
    rows = switchboard.table(found).rows
    assert ("put channels last", "LEGALIZED", "off", "on") in {r[:4] for r in rows}


def test_steps_that_did_nothing_are_pale_and_hidden_knobs_are_no_knobs_of_the_row() -> None:
    session = Session(hand.HandMade())
    found = switchboard.data(session.now.compiled, session.pinned.compiled)
    assert all(s.on and s.needed for s in found.steps)
    live = Session(explorer.compile("zoo:tiny_bert", until="planned"))
    assert not any(k["name"].startswith(("step ", "place ")) for k in live.parts()["knobs"])
    idle = [s for s in board(live).values() if s["on"] and not s["did"]]
    assert "inline calls" in {s["name"] for s in idle}


def test_the_sentences_count_what_steps_did() -> None:
    def row(name: str, seconds: float, did: bool, on: bool = True) -> switchboard.SwitchRow:
        return switchboard.SwitchRow(name, "TYPED", on, seconds, 0, did, "", "", "")

    steps = (row("a", 0.1, True), row("b", 0.3, False), row("c", 0.0, False, on=False))
    assert [sentence_text(s) for s in switchboard.see(switchboard.Board(steps, ()))] == [
        "1 of 3 steps did something, 1 did nothing.",
        "b took longest, 0.300 s, 75% of compiling.",
        "1 step is off.",
    ]
    assert switchboard.see(switchboard.Board((), ())) == ()
