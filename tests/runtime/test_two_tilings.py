"""Kernels with two tilings, of which the wall picks one: that one runs, and is right."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import explorer
from explorer import np as xp
from explorer.compiler.compilation import Compilation
from explorer.compiler.options import Options
from explorer.grinder.model import straights
from explorer.ir.calls import efficient_binding
from explorer.ir.text.parser import parse_program
from explorer.ir.text.printer import print_program
from explorer.measure.this_cpu import this_cpu
from explorer.rammer import Options as RammerOptions
from explorer.rammer.model import Policy
from explorer.rammer.policy import OneKernel
from explorer.roller.transform import Options as RollerOptions
from explorer.runtime.planning.task_times import TaskFact
from explorer.views.roller import tiles

ROWS, DEPTH, COLUMNS, BRANCHES = 50, 96, 130, 4
IMPLEMENTATIONS = {"fastest": 0, "efficient": 1}
MANY = replace(this_cpu(), name="eight-units", units=8)
X = np.random.default_rng(0).standard_normal((ROWS, DEPTH)).astype(np.float32)
W = np.random.default_rng(1).standard_normal((BRANCHES, DEPTH, COLUMNS)).astype(np.float32)


@explorer.trace
def products(x: explorer.tensor("float32", ROWS, DEPTH)) -> Any:
    """Products that do not need each other."""
    return tuple(xp.maximum(x @ w, 0.0) for w in W)


def compiled(policy: str | Policy = "wavefront") -> Compilation:
    return explorer.compile(products, target=MANY, options=Options(rammer=RammerOptions(policy)))


def taken(c: Compilation) -> list[int]:
    """The implementation of each call, by the wall."""
    programs = (p for s in c.schedules() for p in s.programs)
    return [p.kernel(n) for p in programs for n in range(len(p.calls))]


@pytest.mark.parametrize(("which", "number"), IMPLEMENTATIONS.items())
def test_what_the_wall_picked_runs(which: str, number: int) -> None:
    c = compiled(OneKernel("wavefront", which))
    assert taken(c) == [number] * BRANCHES
    for w, got in zip(W, c.run({"x": X}).values(), strict=True):
        np.testing.assert_allclose(got, np.maximum(X @ w, 0), rtol=2e-5, atol=2e-5)
    facts, wall = c.task_facts(), c.measured_wall({"x": X})
    for call in c.program.kernel_calls:
        bricks = [b for b in wall.bricks if b.call == call.name]
        assert sum(b.last - b.first for b in bricks) == facts[call.name].tasks


def test_both_give_the_same_bits() -> None:
    """What waves a program has, and so which of the two runs, changes no answer."""
    one, other = (compiled(OneKernel("wavefront", n)).run({"x": X}) for n in IMPLEMENTATIONS)
    assert all(one[name].tobytes() == other[name].tobytes() for name in one)


def test_a_wave_that_fills_the_units_is_laid_with_both_and_the_loser_has_its_reason() -> None:
    (schedule,) = compiled().schedules()
    (weighed,) = (w for w in schedule.placement.weighed if w.value == "efficient")
    terms = dict(weighed.terms)
    kernels = {s.kernel for p in schedule.placement.programs for s in p}
    assert kernels == {int(terms["efficient"] < terms["fastest"])}
    assert bool(weighed.refused) == (kernels == {0})
    one = compiled("op-by-op")
    assert taken(one) == [0] * BRANCHES  # alone the fastest is the fastest


def test_both_tilings_have_code_and_stand_in_the_text_and_few_units_have_one() -> None:
    c = compiled()
    for call in c.program.kernel_calls:
        assert call.kernel_call.efficient == c.program.decisions.tiling(call.name).efficient
        first, second = c.codes[call.name], c.codes[efficient_binding(call.name)]
        assert first.key != second.key
    text = print_program(c.program)
    assert text.count(" or {") == BRANCHES
    assert print_program(parse_program(text, c.program.constants)) == text
    few = explorer.compile(products, target=replace(MANY, units=1), until="rolled")
    assert all(b.kernel_call.efficient is None for b in few.program.kernel_calls)


def test_what_a_clock_saw_of_one_tiling_says_how_far_the_model_is_off_of_the_other() -> None:
    seen, other = TaskFact(6, 30.0, 0.0, "measured", 20.0), TaskFact(8, 10.0, 4.0)
    assert other.rescaled(seen) == TaskFact(8, 15.0, 6.0)
    assert (seen.rescaled(other), other.rescaled(other)) == (seen, other)
    c = compiled(OneKernel("wavefront", "efficient")).profiled({"x": X})
    (schedule,) = c.schedules()
    for operator in schedule.facts.operators:
        fast, thrifty = operator.kernels
        assert (fast.source, thrifty.source) == ("modelled", "measured")
        modelled = c.executable.task_times.modelled
        tasks = {o.name: o for o in next(straights(c.executable.tasks.parts)).operators}
        first, second = (modelled(tasks[operator.name].implementation(n), {}) for n in (0, 1))
        assert fast.task_us / thrifty.task_us == pytest.approx(first.us / second.us)


def test_the_second_tiling_is_told_with_its_kernel() -> None:
    c = compiled()
    decision = c.program.decisions.tilings[0]
    assert decision.efficient is not None
    told = tiles(c, decision.binding)
    assert decision.efficient.words in told.text.splitlines()[-1]
    assert decision.efficient.words in str(told.data)


def test_a_pinned_tiling_is_the_only_one() -> None:
    c = compiled()
    name, tiling = c.kernels[0].name, c.kernels[0].tiling
    pinned = Options(roller=RollerOptions(pinned=((name, tiling),)))
    made = explorer.compile(products, target=MANY, options=pinned, until="rolled")
    assert made.program.decisions.tiling(name).efficient is None
