"""Deferred code generation: a turned knob shows its plan, and code comes with the measurement."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from threading import Event
from typing import Any

import numpy as np
import pytest

import explorer
import explorer.np as enp
from explorer.errors import BadOption
from explorer.ir.stage import Stage
from explorer.passes import policy_call
from explorer.process.counters import counters
from widgets.session.jobs import Job
from widgets.session.session import Session

W = np.ones((95, 97), np.float32)


@explorer.trace
def model(x: explorer.tensor("float32", 61, 95)) -> Any:  # type: ignore[valid-type]
    return enp.exp(x @ W)


@pytest.fixture
def session() -> Session:
    found = Session(explorer.compile(model))
    operator = next(o for o in found.house.operators if o.calls)
    found.answer("focus", {"op": found.house.order[operator.name]})
    return found


def turn(session: Session, knob: str, index: int) -> Any:
    job = session.answer("begin_turn", {"knob": knob, "index": index})["job"]
    assert session.bench.jobs.wait(job)["error"] is None
    return session.answer("turn", {"knob": knob, "index": index})


def another_tile(session: Session) -> int:
    knob = next(k for k in session.knobs() if k.name == "tile")
    return next(i for i in range(len(knob.values)) if i != knob.now)


def test_a_tile_is_planned_without_code_and_measured_with_it(session: Session) -> None:
    with counters.delta() as did:
        told = turn(session, "tile", another_tile(session))
    assert told["measure"] and "predicted" in told["said"] and did.kernel_compiles == 0
    assert session.now.compiled.program.stage is Stage.PLANNED and session.walls.planned
    assert "wall_more" not in session.parts()["walls"]  # it comes with the measurement
    with pytest.raises(BadOption, match="has no code yet"):
        session.answer("kernel", {"call": 0})
    job = session.answer("begin_measure", {})["job"]
    assert session.bench.jobs.wait(job)["error"] is None
    session.answer("measure", {})
    assert session.now.compiled.program.stage is Stage.EMITTED
    assert session.answer("kernel", {"call": 0})["lines"]
    assert session.verdict()["n"] >= 20 and session.walls.measured is not None


def test_another_schedule_keeps_its_code(session: Session) -> None:
    knob = next(k for k in session.knobs() if k.name == "policy")
    turn(session, "policy", next(i for i in range(len(knob.values)) if i != knob.now))
    assert session.now.compiled.program.stage is Stage.EMITTED
    assert session.answer("kernel", {"call": 0})["lines"]


def test_a_measurement_that_is_cancelled_leaves_the_plan(session: Session) -> None:
    turn(session, "tile", another_tile(session))
    before = session.now
    job = session.answer("begin_measure", {})["job"]
    session.answer("cancel", {"job": job})
    told = session.bench.jobs.wait(job)
    said = told["error"]["sentence"]
    assert ("cancelled" in said or "stopped before" in said) and session.now == before
    session.run_once()  # what needs code has it generated
    assert session.now.compiled.program.stage is Stage.EMITTED


def test_the_wall_that_is_planned_is_the_one_with_code(session: Session) -> None:
    turn(session, "tile", another_tile(session))
    planned = session.walls.planned
    session.run_once()
    coded = session.walls.planned
    assert planned is not None and coded is not None and coded is not planned
    for part in fields(planned):
        np.testing.assert_equal(getattr(coded, part.name), getattr(planned, part.name))


def test_what_was_compiled_no_further_stays_there() -> None:
    session = Session(explorer.compile(model, until="planned"))
    knob = next(k for k in session.knobs() if k.name == "fusion")
    told = turn(session, "fusion", 1 if knob.now != 1 else 0)
    assert not told["measure"] and session.now.compiled.program.stage is Stage.PLANNED


def test_an_operator_has_one_name_in_knob_history_and_pictures(session: Session) -> None:
    label = session.house.operators[session.house.order[session.focus]].label
    knob = next(k for k in session.knobs() if k.name == "tile")
    assert knob.label == f"tile of {label}"
    turn(session, "tile", another_tile(session))
    assert session.history()[-1]["what"].startswith(f"tile of {label} ")
    op = session.house.order[session.focus]
    for room in ("staircase", "waves", "roofline", "roller"):
        told = session.answer("picture", {"room": room, "op": op})
        assert told["table"]["caption"].startswith(label), room


def test_what_takes_long_is_compiled_while_nothing_is_asked(session: Session) -> None:
    ahead = session.answer("look_ahead", {})["job"]
    assert session.bench.jobs.wait(ahead, 60)["error"] is None
    knob = next(k for k in session.knobs() if k.name == "fusion")
    others = [i for i in range(len(knob.values)) if i != knob.now]
    before = session.now
    with counters.delta() as did:
        for index in others:
            assert "predicted" in turn(session, "fusion", index)["said"]
            session.answer("undo", {})
    assert len(others) >= 3 and did.pass_runs == did.walls_planned == 0
    assert session.now == before


def test_what_nobody_asked_for_gives_way_in_every_session(session: Session) -> None:
    begun, other = Event(), Session(session.now.compiled)

    def work(job: Job) -> None:
        begun.set()
        job.stop.wait(60)
        job.report(0)

    aside = session.bench.jobs.start(1, work, aside=True)
    assert begun.wait(10)
    other.answer("focus", {"op": 0})
    assert not session.bench.jobs.progress(aside)["over"]  # looking disturbs it as little as it us
    assert other.answer("look_ahead", {})["job"]  # the last that was looked at is next
    assert session.bench.jobs.progress(aside)["over"]
    ahead = other.bench.jobs.start(1, work, aside=True)
    other.answer("pin", {})
    assert other.bench.jobs.progress(ahead)["over"] and not other.bench.jobs.busy


def test_code_of_ones_own_runs_when_it_is_asked_for(session: Session) -> None:
    before = session.answer("look_ahead", {})["job"]
    session.bench.jobs.wait(before, 60)
    policy_call.register("welder", "mine", lambda *_: ())
    try:
        assert before and session.answer("look_ahead", {}) == {"job": 0}
    finally:
        policy_call.forget("welder", "mine")


def test_a_pass_that_has_no_hash_is_turned_like_any_other(session: Session) -> None:
    @dataclass
    class Nothing:
        times: int = field(default=1, metadata={"values": (1, 2)})

        def __call__(self, program: Any) -> Any:
            return program

    c = session.now.compiled.with_options(passes=(("legalise to kernels", Nothing()),))
    mine = Session(c)
    knob = next(k for k in mine.knobs() if k.name.startswith("pass ") and "times" in k.name)
    turn(mine, knob.name, 1 - knob.now)
    ((_, run),) = mine.now.compiled.options.passes
    assert run.run.times == 2
