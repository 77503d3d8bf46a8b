"""Times that come with a link or a file, shown beside measured ones and never mixed with them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from explorer.errors import SnapshotError
from explorer.measure.machine import machine
from tests.widgets import made_by_hand as hand
from widgets.session import state
from widgets.session.saved import saved_state
from widgets.session.session import Session

THERE = "Another CPU, 64 cores, L1 32 KiB"


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> str:
    """The link of a session that was measured on another machine."""
    there = Session(hand.HandMade(), compare=hand.compare)
    there.measure()
    monkeypatch.setattr(
        saved_state, "machine", lambda: replace(machine(), cpu="Another CPU", cores=64)
    )
    text: str = there.link()["text"]
    monkeypatch.undo()
    return text


def test_both_times_stand_side_by_side_each_with_its_machine(sent: str) -> None:
    here = Session(hand.HandMade(), compare=hand.compare)
    assert here.verdict()["brought"] == ""
    here.restore(sent)
    words = here.verdict()["brought"]
    assert words.startswith("saved: 70.0 µs on Another CPU, 64 cores")
    assert here.verdict()["big"] == "not measured yet" and here.steps.now.time is None
    here.measure()
    assert here.verdict()["brought"] == words and "per run" in here.verdict()["big"]
    assert all("Another" not in str(row) for row in here.history())


def test_it_is_of_one_setting_and_goes_on_until_something_is_measured_here(sent: str) -> None:
    here = Session(hand.HandMade(), compare=hand.compare)
    here.restore(sent)
    assert state.from_fragment(here.link()["text"]).time == state.from_fragment(sent).time
    here.answer("turn", {"knob": "threads", "index": 0})
    assert here.verdict()["brought"] == "" and here.state().time == ()
    here.answer("undo", {})
    assert "Another CPU" in here.verdict()["brought"]
    here.measure()
    assert here.state().time[0] == machine().line
    other = json.loads(here.save()["text"])
    assert other["time"][0] == machine().line and len(other["time"]) == 5


@pytest.mark.parametrize(
    "time",
    [
        [THERE],
        [THERE, 1.0, 1.0, 1.0, 0],
        [THERE, -1.0, 1.0, 1.0, 3],
        [THERE, 1e13, 1.0, 1.0, 3],
        [THERE, "1", 1.0, 1.0, 3],
        [THERE, 1.0, 1.0, 1.0, True],
        ["two\nlines", 1.0, 1.0, 1.0, 3],
        ["x" * 401, 1.0, 1.0, 1.0, 3],
        {"machine": THERE},
    ],
)
def test_what_is_no_time_is_refused(time: object) -> None:
    with pytest.raises(SnapshotError, match="time must be a machine"):
        state.checked_state({"time": time})
