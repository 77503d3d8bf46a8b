"""Loops and branches that need nothing of each other, on units apart and one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer
from explorer import tensor
from explorer.grinder import Options as Grinder
from explorer.grinder import UTask, control_schedules_of, uprogram
from explorer.grinder.independent import group_name, is_lone
from explorer.ir.calls import Var
from explorer.ir.decisions.decided import Decisions
from explorer.ir.program import Program
from explorer.memory.plan import Options as MemoryOptions
from explorer.ops.interpreter.evaluate import evaluate
from explorer.rammer import POLICIES, Options, schedule
from explorer.runtime.device_program import instructions as isa
from explorer.runtime.executable import Executable
from explorer.runtime.planning.unit_assignment import GroupCosts, balance, groups_of, on_one_unit
from tests.examples import examples
from tests.runtime.programs import DEVICE, Model, inputs_of
from tests.runtime.test_executable import same
from tests.runtime.test_interleavings import (
    COUNT,
    TABLE,
    VECTOR,
    N,
    arm,
    by_interpreter,
    by_model,
    grow,
    looped,
)
from tests.runtime.test_recursion import Written

APART = Grinder(independent="apart")


def several(rnd: Random, grinder: Grinder = APART, threads: int = 0) -> tuple[Model, Program]:
    """A random program in which two to four loops and branches need nothing of each other."""
    model = Model()

    def write(b: Any, x: Any, y: Any, table: Any) -> list[Any]:
        known, _ = grow(rnd, model, b, [x, y], 0, table)
        found = []
        for _ in range(rnd.randint(2, 4)):
            s, t = rnd.choice(known), rnd.choice(known)
            if rnd.random() < 0.5:
                arms = [arm(rnd, model, 2, 0) for _ in range(2)]
                found.append(b.branch(b.test(s), *arms, [s, t, table], VECTOR))
            else:
                found.append(looped(rnd, model, b, s, t, 2, table, ())[0])
            if rnd.random() < 0.5:
                found.append(b.flip(found[-1]))
        total = found[0]
        for other in found[1:]:
            total = b.mix(total, other)
        return [total, rnd.choice(found)]

    units = threads or rnd.randint(2, 3)
    laid = Options(policy=rnd.choice(sorted(POLICIES)), threads=units, brick_tasks=1)
    params = [Var(n, t) for n, t in zip(("x", "y", "table"), (VECTOR, VECTOR, TABLE), strict=True)]
    return model, model.program(params, write, Decisions(rammer=laid, grinder=grinder))


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 2**32))
def test_units_apart_give_the_same_in_any_order_without_a_race(seed: int) -> None:
    rnd = Random(seed)
    model, program = several(rnd)
    executable = Executable(program, model.codes, DEVICE)
    inputs = inputs_of(program, N, seed)
    wanted = evaluate(program, inputs)
    assert executable.plan({}).unit_assignments
    for _ in range(4):
        found, rows = by_model(executable, inputs, rnd)
        same(found, wanted)
        found, again = by_interpreter(executable, inputs, rnd)
        same(found, wanted)
        assert again == rows
    same(executable.run(inputs), wanted)
    assert {b.call for b in executable.plan({}).wall.bricks}


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32))
def test_every_task_of_units_apart_runs_once_and_what_each_decided_is_counted(seed: int) -> None:
    rnd = Random(seed)
    model, program = several(rnd)
    inputs = inputs_of(program, N, seed)
    ran = []
    for grinder in (APART, Grinder(independent="together")):
        asked = replace(program, decisions=replace(program.decisions, grinder=grinder))
        executable = Executable(asked, model.codes, DEVICE)
        wall = executable.measured_wall(inputs)
        tasks = [(b.call, b.iteration, t) for b in wall.bricks for t in range(b.first, b.last)]
        assert len(tasks) == len(set(tasks))
        ran.append((set(tasks), sorted(wall.ran, key=lambda r: r.binding)))
    assert ran[0] == ran[1]


def parts_of(c: explorer.Compilation) -> tuple[UTask, ...]:
    return uprogram(c.program, control_schedules_of(c.program.decisions)).parts


def two_ways(
    x: tensor("float32", "n", 8), w: tensor("float32", 8, 8), v: tensor("float32", 8, 8)
) -> Any:
    """A recurrent layer forwards and one backwards."""
    h, g = x[0] * 0, x[0] * 0
    for t in range(x.shape[0]):
        h = explorer.np.tanh(x[t] + h @ w)
    for t in range(x.shape[0]):
        g = explorer.np.tanh(x[x.shape[0] - 1 - t] + g @ v)
    return h, g


def one_after_the_other(x: tensor("float32", "n", 8), w: tensor("float32", 8, 8)) -> Any:
    h = x[0] * 0
    for t in range(x.shape[0]):
        h = explorer.np.tanh(x[t] + h @ w)
    g = h
    for t in range(x.shape[0]):
        g = explorer.np.tanh(x[t] + g @ w)
    return h, g


def gated(x: tensor("float32", 8), y: tensor("float32", 8)) -> Any:
    """Two gates of layers that need nothing of each other."""
    a = explorer.cond(x.sum() > 0, lambda x: explorer.np.exp(x), lambda x: x - 1, x)
    b = explorer.cond(y.sum() > 0, lambda y: explorer.np.exp(-y), lambda y: y + 1, y)
    return a + b


def compiled(
    function: Any, independent: str = "apart", threads: int = 2, turn: int = 1
) -> explorer.Compilation:
    c = explorer.compile(explorer.load(explorer.trace(function)))
    schedule = "unrolled" if turn > 1 else "device"
    grinder = Grinder(schedule, turn, independent=independent, inline_branches=False)
    return c.with_options(grinder=grinder, rammer=Options(threads=threads))


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.5, shape).astype(np.float32)


@pytest.mark.parametrize("n", [1, 2, 7])
@pytest.mark.parametrize("turn", [1, 3])
@pytest.mark.parametrize("threads", [1, 2])
def test_loops_forwards_and_backwards_give_what_numpy_gives(
    n: int, threads: int, turn: int
) -> None:
    """With turns of several trips, of which some are left, too."""
    inputs = {"x": floats(n, 8), "w": floats(8, 8, seed=1), "v": floats(8, 8, seed=2)}
    h, g = np.zeros((2, 8), np.float32)
    for t in range(n):
        h = np.tanh(inputs["x"][t] + h @ inputs["w"])
        g = np.tanh(inputs["x"][n - 1 - t] + g @ inputs["v"])
    c = compiled(two_ways, threads=threads, turn=turn)
    assert len(list(groups_of(parts_of(c)))) == 1
    for value, wanted in zip(c.run(inputs).values(), (h, g), strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("first", [1.0, -1.0])
@pytest.mark.parametrize("second", [1.0, -1.0])
def test_each_unit_takes_its_own_side(first: float, second: float) -> None:
    x, y = np.full(8, first, np.float32), np.full(8, second, np.float32)
    c = compiled(gated)
    assert len(list(groups_of(parts_of(c)))) == 1
    (found,) = c.run({"x": x, "y": y}).values()
    wanted = (np.exp(x) if first > 0 else x - 1) + (np.exp(-y) if second > 0 else y + 1)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    ran = [r for r in c.measured_wall({"x": x, "y": y}).ran if r.kind == "branch"]
    assert sorted((r.times, r.then) for r in ran) == sorted(
        [(1, int(first > 0)), (1, int(second > 0))]
    )


def test_what_needs_the_other_stands_behind_it() -> None:
    alone = [is_lone(group) for group in groups_of(parts_of(compiled(one_after_the_other)))]
    beside = [is_lone(group) for group in groups_of(parts_of(compiled(two_ways)))]
    assert alone == [True, True] and beside == [False]


def decided(c: explorer.Compilation) -> Iterator[Any]:
    return (d for d in c.program.decisions.control if d.kind == "group")


def test_both_ways_are_listed_with_their_costs_or_why_one_cannot_be() -> None:
    (apart,) = decided(compiled(two_ways))
    (group,) = groups_of(parts_of(compiled(two_ways)))
    assert apart.binding == group_name(group) and " beside " in apart.binding
    assert [c.value.calls for c in apart.candidates] == ["apart", "together"]
    assert all(c.cost_us > 0 for c in apart.candidates)
    (together,) = decided(compiled(two_ways, "together"))
    assert together.chosen.calls == "together"
    assert together.candidates[-1].refused == "grinder.independent is together"
    assert not list(decided(compiled(two_ways, threads=1)))


def whys(model: Model, program: Program) -> list[str]:
    plan = Executable(program, model.codes, DEVICE).plan({})
    assert not plan.unit_assignments
    return [c.refused for way in plan.groups.values() for c in way.candidates if c.refused]


def test_storages_are_not_dealt() -> None:
    model, program = several(Random(3), threads=2)
    memory = MemoryOptions(policy="storages")
    stored = replace(program, decisions=replace(program.decisions, memory=memory))
    (why, *_) = whys(model, stored)
    assert why.startswith("values lie in buffers")
    inputs = inputs_of(program, N, 3)
    same(Executable(stored, model.codes, DEVICE).run(inputs), evaluate(program, inputs))


def test_a_member_with_a_recursion_is_not_dealt() -> None:
    rnd, model = Random(5), Model()
    written = Written(rnd, model, nested=False)

    def side(b: Any, x: Any, y: Any, table: Any, k: Any) -> list[Any]:
        return [written.call(b, x, y, table, k)]

    def plain(b: Any, x: Any, y: Any, table: Any, k: Any) -> list[Any]:
        return [b.mix(x, y)]

    kinds = VECTOR, VECTOR, TABLE, COUNT
    names = [
        model.function(name, tuple(map(model.var, kinds)), write)
        for name, write in (("calls", side), ("plain", plain))
    ]

    def write(b: Any, *given: Any) -> list[Any]:
        x, y, table, k = given
        a = b.branch(b.test(x), *names, [x, y, table, k], VECTOR)
        c = b.branch(b.test(y), names[1], names[1], [y, x, table, k], VECTOR)
        return [b.mix(a, c)]

    params = [Var(n, t) for n, t in zip(("x", "y", "table", "k"), kinds, strict=True)]
    chosen = Decisions(rammer=Options(threads=2), grinder=APART)
    program = model.program(params, write, chosen)
    assert whys(model, program) == ["a recursion in one of them has one stack"]


def test_members_go_to_whoever_has_least_the_longest_first() -> None:
    assert balance([3.0, 1.0, 2.0, 2.0], 2) == ((0, 0, 1, 1), 4.0)
    assert balance([3.0, 1.0, 1.0, 2.5], 2, [2]) == ((0, 1, 1, 1), 4.5)
    assert balance([1.0, 1.0], 3) == ((0, 1), 1.0)


def test_whom_nothing_else_wakes_costs_a_wait_more() -> None:
    """Loops that the first unit alone does meet nobody: to deal them wakes the others up."""
    model, program = several(Random(2), Grinder(), threads=2)
    executable = Executable(program, model.codes, DEVICE)
    plan, planner = executable.plan({}), executable.planner
    (group, *_) = groups_of(executable.tasks.parts)
    keys = plan.schedules
    one = {key: schedule(on_one_unit(s.facts), Options(threads=1), "") for key, s in keys.items()}
    times = planner.overheads.barrier_us, planner.overheads.launch_us
    host = planner.host({}, plan.extents)
    single, several_ = (
        {
            w.value: w.cost_us
            for w in GroupCosts(s, Options(), *times, 2, "", host).assign(group).candidates
        }
        for s in (one, keys)
    )
    assert single["together"] < several_["together"]
    assert single["apart"] == pytest.approx(several_["apart"] + times[1])


def test_units_apart_meet_before_and_behind_alone() -> None:
    """Two loops of two trips over one kernel each: no barrier stands in a unit's own trips."""
    model, program = several(Random(11), threads=2)
    executable = Executable(program, model.codes, DEVICE)
    (step,) = executable._bound(inputs_of(program, N), {}).steps
    counts = [int((rows[:, 0] == isa.BARRIER).sum()) for rows in step.rows]
    asked = replace(program.decisions, grinder=Grinder(independent="together"))
    other = Executable(replace(program, decisions=asked), model.codes, DEVICE)
    (together,) = other._bound(inputs_of(program, N), {}).steps
    assert max(counts) < min(int((rows[:, 0] == isa.BARRIER).sum()) for rows in together.rows)
