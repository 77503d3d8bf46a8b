"""Measured control schedules: the fastest is taken, and every candidate is reported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import explorer
from explorer import np as xp
from explorer.compiler.compilation import Compilation
from explorer.compiler.pipeline import device_of
from explorer.errors import BadOption
from explorer.grinder import Options as Grinder
from explorer.ir.decisions.control import ControlDecision
from explorer.measure.control_schedules import LEAST_GAIN_RATIO, MeasureControlSchedules
from explorer.measure.task_times import task_profile

tensor = explorer.tensor


@explorer.trace
def scanned(x: tensor("float32", 24, 8)) -> Any:
    def step(state: Any, row: Any) -> Any:
        after = xp.tanh(state * 0.5 + row)
        return after, after * 2

    return explorer.scan(step, xp.zeros(8, "float32"), x)


@explorer.trace
def counted(x: tensor("float32", 8), k: tensor("int64")) -> Any:
    for _ in range(k):
        x = xp.tanh(x) + 1
    return x


def loop_of(c: Any) -> ControlDecision:
    (found,) = c.decisions.control
    assert isinstance(found, ControlDecision)
    return found


def with_times(c: Compilation, times: Sequence[float]) -> ControlDecision:
    def timer(runs: Sequence[Callable[[], object]]) -> Sequence[float]:
        for run in runs:
            run()
        return times[: len(runs)]

    program = c.snapshot("select control-flow schedules").after
    return loop_of(MeasureControlSchedules(device_of("cpu"), len(times), timer)(program))


def test_the_fastest_way_of_those_timed_is_taken_and_runs() -> None:
    c = explorer.compile(scanned, options=explorer.Options(grinder=Grinder(measure=9)))
    found = loop_of(c.program)
    ways = [d for d in found.candidates if not d.refused]
    timed = [
        (m.schedule.level, m.schedule.unroll) for m in found.measured
    ]  # the units are the plan's
    assert sorted(timed) == sorted({(d.value.level, d.value.unroll) for d in ways})
    assert len(timed) == 5
    first = found.measured[0]
    assert first.schedule == found.chosen == found.candidates[0].value
    assert first.measured_us <= LEAST_GAIN_RATIO * min(m.measured_us for m in found.measured)
    assert "measured, a run" in found.reason
    x = np.random.default_rng(0).standard_normal((24, 8)).astype(np.float32)
    for value, wanted in zip(c.run(x).values(), scanned(x), strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=1e-6)


def test_what_is_clearly_fastest_by_the_clock_goes_before_the_models_first() -> None:
    c = explorer.compile(scanned)
    before = loop_of(c.program)
    after = with_times(c, (9.0, 8.0, 3.0))
    assert after.chosen == before.candidates[2].value
    assert [m.rank for m in after.measured] == [3, 2, 1]
    assert {c.label for c in after.candidates} == {c.label for c in before.candidates}


def test_what_the_clock_cannot_tell_apart_stays_the_models() -> None:
    c = explorer.compile(scanned)
    after = with_times(c, (9.0, 8.9, 8.95))
    assert after.chosen == loop_of(c.program).chosen and after.measured[0].rank == 1


def test_a_loop_of_unknown_length_is_left_to_the_model() -> None:
    c = explorer.compile(counted, options=explorer.Options(grinder=Grinder(measure=4)))
    assert not loop_of(c.program).measured


def test_a_loop_whose_trips_a_profile_has_seen_is_not_run_on_random_counts() -> None:
    c = explorer.compile(counted, options=explorer.Options(grinder=Grinder(unroll=1)))
    given = {"x": np.ones(8, np.float32), "k": np.array(5)}
    profile = task_profile(c.executable, given, runs=5, fresh=True)
    assert profile.trips == (("loop", 5),)
    options = replace(c.options.rammer, profile=profile)
    measured = c.with_options(rammer=options, grinder=Grinder(unroll=1, measure=4))
    assert not loop_of(measured.program).measured


def test_nothing_is_timed_for_a_machine_that_is_not_here() -> None:
    with pytest.raises(BadOption, match=r"grinder\.measure times runs on this machine"):
        explorer.compile(scanned, "v100", explorer.Options(grinder=Grinder(measure=4)))
