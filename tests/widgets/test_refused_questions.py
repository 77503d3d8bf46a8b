"""A question that is refused leaves the session as it was, whatever it was and however far it came;
so do thousands of random ones.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import pytest

from explorer.errors import BadOption, IronworksError, SnapshotError
from tests.widgets import made_by_hand as hand
from widgets.draw.svg import fit, text_width
from widgets.page.shell import House
from widgets.session import state
from widgets.session.session import Session


@pytest.fixture
def session() -> Session:
    return Session(hand.HandMade(), compare=hand.compare)


def all_of(session: Session) -> str:
    """Everything that a page, a link or a later question can see of a session."""
    seen = [session.parts(), asdict(session.state()), asdict(session.saved), session.manual_moves]
    steps = [
        repr(s)
        for s in (*session.steps.past, None, *session.steps.future, None, session.steps.pinned)
    ]
    return json.dumps([seen, steps, session.focus], default=str)


def link(session: Session, **changes: Any) -> str:
    return state.serialise_state(replace(session.state(), **changes))


@pytest.mark.parametrize(
    "connect", [(("None", "L2"),), (("relu_out", "\x1b[31m"),), (("None", "None"),)]
)
def test_a_link_with_a_connection_that_cannot_be_changes_nothing(
    connect: tuple[tuple[str, str], ...], session: Session
) -> None:
    before = all_of(session)
    text = link(session, connect=connect, op="fc", knobs={"threads": "1"}, stage="TYPED")
    with pytest.raises(IronworksError):
        session.answer("restore", {"text": text})
    assert all_of(session) == before
    assert session.state().connect == () == session.saved.connect


def test_a_question_that_fails_half_way_changes_nothing(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.answer("turn", {"knob": "threads", "index": 0})
    before = all_of(session)

    def fails(*_: Any) -> None:
        raise BadOption("no")

    monkeypatch.setattr(session, "run_once", fails)
    with pytest.raises(BadOption):
        session.answer("measure", {})
    assert all_of(session) == before


def test_an_interrupted_question_changes_nothing(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = all_of(session)
    go = session.show_next

    def interrupted(step: Any) -> None:
        go(step)
        raise KeyboardInterrupt

    monkeypatch.setattr(session, "show_next", interrupted)
    with pytest.raises(KeyboardInterrupt):
        session.answer("turn", {"knob": "threads", "index": 0})
    assert all_of(session) == before


def test_a_page_looks_at_nothing_that_is_not_its_own(session: Session) -> None:
    before = asdict(session.saved)
    session.look(
        {"stage": "TYPED", "connect": [["a", "b"]], "digest": "x", "moves": [], "knobs": {}}
    )
    assert asdict(session.saved) == {**before, "stage": "TYPED"}
    with pytest.raises(SnapshotError, match="has no 'shape'"):
        session.look({"shape": "round"})


def test_a_page_that_looks_at_what_is_not_there_is_put_back(session: Session) -> None:
    session.run_once = lambda: None  # type: ignore[method-assign]
    house = House(session)
    before = dict(house.state)
    with pytest.raises(SnapshotError):
        house.state = {**before, "stage": "\x1b[31m"}
    assert dict(house.state) == before and session.saved.stage == before["stage"]


KINDS = [
    "turn", "wall", "move_brick", "focus", "tuning", "judge", "take", "job", "cancel", "hand",
    "move", "join", "unmove", "time_hand", "take_hand", "link", "restore", "undo", "redo", "pin",
    "program", "kernel", "operator", "picture", "profile", "nothing",
]  # fmt: skip
NAMES = [
    "knob", "index", "label", "op", "fields", "value", "level", "device", "text", "room", "rank",
    "step", "call", "language", "wall", "brick", "unit", "at", "everything", "policy", "units",
]  # fmt: skip
ODD: list[Any] = [
    None, True, -1, 0, 1, 7, 1 << 70, 0.5, float("nan"), "", "None", "threads", "tile", "relu_out",
    "L1", "L2", "\x1b[31m", "x" * 16_000, "welder", "rammer", "rolled", "v100", [], [[]], {},
]  # fmt: skip


def test_random_questions_change_the_session_wholly_or_not_at_all(session: Session) -> None:
    """Each is answered or refused with a sentence; a refusal leaves everything as it was."""
    chance = random.Random(11)
    refused = 0
    for _ in range(240):
        args = {chance.choice(NAMES): chance.choice(ODD) for _ in range(chance.randrange(4))}
        kind = chance.choice(KINDS)
        if kind == "restore":
            connect = ((str(chance.choice(ODD))[:300], str(chance.choice(ODD))[:300]),)
            args = {"text": link(session, connect=connect)}
        before = all_of(session)
        try:
            found = session.answer(kind, args)
        except IronworksError as problem:
            assert len(problem.sentence) <= 1000 and problem.sentence.isprintable()
            found = {"refused": problem.sentence}
        if isinstance(found, Mapping) and found.get("refused"):
            refused += 1
            assert all_of(session) == before, (kind, args)
    assert refused > 120


# Labels.


@pytest.mark.parametrize("text", ["abc" * 40, "W" * 90, "i" * 400, "größe…" * 30])
@pytest.mark.parametrize("room", [-1, 0, 5, 11.2, 30, 99.9, 250, 1000])
@pytest.mark.parametrize("mono", [False, True])
def test_a_label_keeps_as_many_letters_as_fit(text: str, room: float, mono: bool) -> None:
    found = fit(text, room, mono=mono)
    if text_width(text, mono=mono) <= room:
        assert found == text
        return
    kept = len(found) - 1
    assert found == "…" if kept < 2 else text_width(found, mono=mono) <= room
    longer = text[: (kept + 2) // 2] + "…" + text[len(text) - (kept + 1) // 2 :]
    if 2 <= kept < len(text) - 1:
        assert text_width(longer, mono=mono) > room


def test_a_very_long_label_is_measured_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    letters = 0

    def counted(text: str, px: float = 11, *, mono: bool = False) -> float:
        nonlocal letters
        letters += len(text)
        return text_width(text, px, mono=mono)

    monkeypatch.setattr("widgets.draw.svg.text_width", counted)
    assert len(fit("some/long/name/" * 1100, 120)) < 40
    assert letters < 20_000
