"""The preview of a program on other hardware, until it is compiled for it."""

from __future__ import annotations

from contextlib import suppress
from threading import Event
from typing import Any

import pytest

import explorer
from explorer.devices.hardware import Options as Hardware
from explorer.devices.hardware import figures
from explorer.errors import BadOption, IronworksError
from explorer.ir.stage import Stage
from explorer.rammer import Facts, Placement
from explorer.rammer import Options as Rammer
from explorer.rammer.policy import resolve_policy
from widgets.model import knobs
from widgets.model.knobs import Setting
from widgets.session import compiling
from widgets.session.session import Session

SLOWER = {"knob": "set hardware.clock_ghz", "index": 1, "label": "1"}


@pytest.fixture
def session() -> Session:
    return Session(explorer.compile("zoo:tiny_bert"))


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Event:
    """Until it is set nothing is compiled."""
    may, turned = Event(), compiling.turn_knob

    def late(now: Setting, *args: Any) -> Setting:
        may.wait(60)
        return turned(now, *args)

    monkeypatch.setattr(compiling, "turn_knob", late)
    return may


def begun(session: Session, turn: dict[str, Any] = SLOWER) -> int:
    found = session.answer("begin_turn", turn)
    assert found["first"] and not found["over"]
    job: int = found["job"]
    return job


def test_the_same_program_is_shown_until_it_is_compiled_for_the_hardware(
    session: Session, held: Event
) -> None:
    before, us = session.now.compiled, session.shown.planned_us
    job = begun(session)
    shown = session.now.compiled
    assert shown.program == before.program and shown.device.clock_ghz == 1.0
    assert session.shown.planned_us == shown.planned_wall().total_us > us
    told = session.verdict()
    assert "predicted (+" in told["big"]
    assert "the same program on" in told["small"] and "not compiled for it" in told["small"]
    assert not told["runs"] and len(session.steps.past) == 1
    assert '"set' not in session.parts()["kept"]  # what is kept is of what was compiled
    held.set()
    assert session.bench.jobs.wait(job)["error"] is None
    session.answer("turn", SLOWER)
    assert session.now.compiled.program is not before.program
    assert session.now.compiled.device == shown.device
    assert len(session.steps.past) == 2 and "first" not in session.verdict()


def test_what_is_given_up_leaves_what_was_there(session: Session, held: Event) -> None:
    before, shown = session.now, session.shown
    job = begun(session)
    session.answer("cancel", {"job": job})
    assert session.now is before and session.shown is shown
    held.set()
    assert session.bench.jobs.wait(job)["over"]
    assert len(session.steps.past) == 1


def test_a_newer_turn_takes_its_place(session: Session, held: Event) -> None:
    before = session.now.compiled
    job = begun(session)
    session.answer("cancel", {"job": job, "newer": True})
    assert session.now.compiled.device.clock_ghz == 1.0  # nothing flickers
    held.set()
    session.bench.jobs.wait(job)
    newer = SLOWER | {"label": "2"}
    session.bench.jobs.wait(session.answer("begin_turn", newer)["job"])
    session.answer("turn", newer)
    assert session.now.compiled.device.clock_ghz == 2.0
    session.answer("undo", {})
    assert session.now.compiled is before


def test_what_cannot_be_compiled_leaves_what_was_there(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: Any) -> Setting:
        raise BadOption("nothing fits", where="hardware")

    before = session.shown
    monkeypatch.setattr(compiling, "turn_knob", refuses)
    found = session.answer("begin_turn", SLOWER)
    session.bench.jobs.wait(found["job"])
    revision = session.revision
    with pytest.raises(BadOption, match="nothing fits"):
        session.answer("turn", SLOWER)
    assert found["first"] and session.shown is before and session.revision != revision


def test_pictures_are_asked_of_what_is_shown(session: Session, held: Event) -> None:
    job = begun(session)
    found = session.answer("settings", {"room": "hardware"})["controls"]
    assert next(c["now"] for c in found if c["name"] == "hardware.clock_ghz") == "1"
    assert session.behind is not None  # it still is what is shown
    held.set()
    session.bench.jobs.wait(job)
    with pytest.raises(BadOption):
        session.answer("undo", {})
    assert session.behind is None


def test_what_is_known_or_of_another_kind_is_not_shown_twice(session: Session) -> None:
    session.bench.jobs.wait(session.answer("begin_turn", SLOWER)["job"])
    assert not session.answer("begin_turn", SLOWER)["first"]  # compiled meanwhile
    other = {"knob": "set roller.top_k", "index": 1, "label": "3"}
    assert not session.answer("begin_turn", other)["first"]


def test_what_nobody_could_end_is_not_begun(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A policy of the user's own, and a plan of very many calls, are asked beside."""

    def mine(facts: Facts) -> Placement:
        return resolve_policy("wavefront")(facts)

    own = session.now.compiled.with_options(rammer=Rammer(policy=mine))
    assert not Session(own).answer("begin_turn", SLOWER)["first"]
    monkeypatch.setattr(knobs, "MOST_CALLS", 3)
    assert not session.answer("begin_turn", SLOWER)["first"]


def test_an_early_stage_has_nothing_to_show(session: Session) -> None:
    early = Session(explorer.compile("zoo:tiny_bert", until="rolled"))
    assert early.now.compiled.program.stage is Stage.ROLLED
    assert not early.answer("begin_turn", SLOWER)["first"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("target", ["cpu", "v100", "h100"])
def test_the_device_is_the_one_that_it_would_be_compiled_for(target: str) -> None:
    c = explorer.compile("zoo:tiny_bert", target=target, until="planned")
    plans = 0
    for figure in figures(c.device):
        hardware = Hardware(((figure.name, figure.value * 2),))
        try:
            other = c.with_options(until="typed", hardware=hardware)
        except BadOption:
            with pytest.raises(BadOption):
                c.same_program(hardware)
            continue
        mine = c.same_program(hardware)
        assert mine.device == other.device
        assert mine.program.functions is c.program.functions
        if target == "cpu" or figure.name in ("units", "DRAM bandwidth"):
            with suppress(IronworksError):  # what does not go with that hardware says so
                plans += mine.planned_wall().total_us > 0
            if target == "h100":  # its thread blocks, where it has room for them, are chosen once
                same, before = mine.chosen_blocks(), c.chosen_blocks()
                assert all(set(same[name]) <= set(before[name]) for name in before)
        if figure.name == "units" and target == "cpu":
            assert mine.planned_wall().units == 2 * c.device.units
    assert plans >= 2
    units = Hardware((("units", c.device.units * 2.0),))
    back = c.same_program(units).same_program(Hardware())
    assert back.device == c.device and back.chosen_blocks() == c.chosen_blocks()
    assert back.planned_wall().total_us == pytest.approx(c.planned_wall().total_us)
