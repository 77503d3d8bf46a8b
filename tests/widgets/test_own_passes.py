"""A pass of one's own has knobs: on and off, and the options that say which values they take."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event

import numpy as np
import pytest

import explorer
from explorer.compiler.options import Options
from explorer.errors import BadOption, BadPass
from explorer.ir.program import Program
from explorer.passes import registry
from explorer.process import sandbox
from tests.passes.test_user_passes import AFTER, scaled
from tests.two_inputs import two_inputs
from widgets.model import stage_strip
from widgets.model.knobs import with_code
from widgets.program import program_diff
from widgets.session import state
from widgets.session.session import Session


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_passes", registry._passes.copy())


@dataclass(frozen=True)
class Times:
    """Give so many times the value."""

    factor: int = field(default=2, metadata={"values": (1, 2, 3)})
    twice: bool = False
    note: str = "no knob"

    def __call__(self, program: Program) -> Program:
        return scaled(program, float(self.factor ** (1 + self.twice)))


def plain(program: Program) -> Program:
    """Change nothing."""
    return program


@pytest.fixture
def session(tmp_path: Path) -> Session:
    path = tmp_path / "two.onnx"
    path.write_bytes(two_inputs().SerializeToString())
    explorer.compiler_pass("times", after=AFTER)(Times)
    return Session(explorer.compile(str(path), options=Options(passes=(("clean up", plain),))))


def value(session: Session) -> float:
    inputs = {"a": np.ones((2, 4), np.float32), "b": np.ones(3, np.float32)}
    return float(with_code(session.now).compiled.run(inputs)["y"][0, 0])


def shown(session: Session) -> dict[str, str]:
    return {k.name: k.labels[k.now] for k in session.knobs() if k.name.startswith("pass ")}


def test_a_pass_has_its_step_its_diff_and_its_knobs(session: Session) -> None:
    assert shown(session) == {
        "pass times": "on",
        "pass times.factor": "2",
        "pass times.twice": "off",
        "pass plain": "on",
    }
    found = next(k for k in session.knobs() if k.name == "pass times")
    assert (found.hint, found.pinned) == ("Give so many times the value.", 1)
    c = session.now.compiled
    names = [s.name for s in c.snapshots]
    cell = next(cell for cell in stage_strip.data(c) if cell.stage == "LEGALIZED")
    assert names.index("times") in cell.steps and names.index("plain") in cell.steps
    step = c.snapshot("times")
    rows = program_diff.data(step.before, step.after)
    assert {r.mark for r in rows} == {" ", "+", "-"}
    assert "times" in session.parts()["steps"]


@pytest.mark.exhaustive
def test_turning_a_knob_of_a_pass_compiles_with_it(session: Session) -> None:
    assert value(session) == 10.0
    session.turn("pass times.factor", 2)
    assert value(session) == 15.0
    session.turn("pass times.twice", 1)
    assert value(session) == 45.0
    session.turn("pass times", 0)
    assert value(session) == 5.0
    assert shown(session) == {"pass times": "off", "pass plain": "on"}
    session.turn("pass times", 1)
    assert value(session) == 10.0  # as it is in A
    session.undo()
    assert value(session) == 5.0


def test_a_link_keeps_the_knobs_of_passes(session: Session) -> None:
    session.turn("pass times.factor", 0)
    session.turn("pass plain", 0)
    kept = state.fragment(session.state())
    other = Session(session.steps.pinned.setting.compiled)
    other.restore(kept)
    assert shown(other) == shown(session)
    assert value(other) == 5.0


def test_a_pass_that_breaks_under_a_knob_leaves_the_session_as_it_was(session: Session) -> None:
    @explorer.compiler_pass("moody", after=AFTER)
    @dataclass(frozen=True)
    class Moody:
        bad: bool = False

        def __call__(self, program: Program) -> Program | None:
            return None if self.bad else program

    c = explorer.compile(session.now.compiled.model)
    house = Session(c)
    before = value(house), shown(house), len(house.steps.past)
    with pytest.raises(BadPass, match="'moody' returned None"):
        house.turn("pass moody.bad", 1)
    assert (value(house), shown(house), len(house.steps.past)) == before


def test_a_value_that_an_option_does_not_take_is_refused() -> None:
    with pytest.raises(BadOption, match=r"Times\.factor is one of 1, 2, 3, found 7"):
        Options(passes=((AFTER, Times(factor=7)),))
    assert replace(Times(), factor=3) in [
        run.run
        for _, run in Options(passes=((AFTER, Times(3)),)).passes  # type: ignore[attr-defined]
    ]


def test_cancel_ends_an_endless_pass_that_a_question_has_begun(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "CAN_FORK", False)  # it runs in this process at once
    begun, ends = Event(), Event()
    ends.set()

    def moody(program: Program) -> Program:
        while not ends.is_set():
            begun.set()
        return program

    c = explorer.compile(
        session.now.compiled.model, options=Options(passes=(("fuse (Welder)", moody),))
    )
    house = Session(c)
    value_of = c.snapshot("clean up").after.kernel_calls[0].var.name
    house.answer("move", {"value": value_of, "level": "DRAM"})
    ends.clear()
    job = house.answer("time_hand", {})["job"]
    assert begun.wait(60)
    house.answer("cancel", {"job": job})
    told = house.bench.jobs.wait(job)
    assert told["over"] and told["error"]["error"] == "Cancelled"
    assert "the pass 'moody' was stopped" in told["error"]["sentence"]
    ends.set()
    assert value(house) == 10.0  # `times` is registered here
