"""Functions that call themselves, run on the device with a frame for each call."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from random import Random
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.errors import BoundError, TooLarge
from explorer.grinder import Options as GrinderOptions
from explorer.grinder import on_host, task_tree, uprogram
from explorer.ir.calls import Var
from explorer.ir.decisions.decided import Decisions
from explorer.measure.task_times import task_profile
from explorer.memory.plan import Options as MemoryOptions
from explorer.ops.interpreter.evaluate import evaluate
from explorer.process.counters import counters
from explorer.rammer import POLICIES, Options
from explorer.runtime.executable import Executable
from explorer.runtime.planning.unit_assignment import (
    ALONE,
    APART,
    TOGETHER,
    select_recursion_schedule,
)
from explorer.runtime.workers.aligned_memory import aligned_bytes
from tests.examples import examples
from tests.measure.test_task_profile import places
from tests.runtime.programs import DEVICE, Model, inputs_of
from tests.runtime.test_executable import same
from tests.runtime.test_interleavings import (
    COUNT,
    TABLE,
    TRUTH,
    VECTOR,
    N,
    by_interpreter,
    by_model,
    grow,
)

KINDS = VECTOR, VECTOR, TABLE, COUNT
WAYS = ALONE, TOGETHER, APART


class Written:
    """A function over (x, y, table, k) that calls itself with k - 1 until 4 divides k: once, twice,
    or in each trip of a loop. Its arguments, and what it does around the calls, are random.
    """

    def __init__(self, rnd, model, nested=True):
        self.rnd, self.model, self.nested = rnd, model, nested
        self.name = f"f_{model.name()}"
        arms = [self.function(f"{self.name}_{w.__name__}", w) for w in (self.step, self.base)]

        def write(b, x, y, table, k):
            found = b.branch(b.test(k), *arms, [x, y, table, k], VECTOR)
            return [b.flip(found) if turned else found]

        turned = rnd.random() < 0.5
        self.function(self.name, write)

    def function(self, name, write):
        return self.model.function(name, tuple(map(self.model.var, KINDS)), write)

    def grown(self, b, known, table, k):
        depth = self.rnd.choice([0, 0, 1])
        return grow(self.rnd, self.model, b, known, depth, table, (k,))[0]

    def base(self, b, x, y, table, k):
        return [self.rnd.choice(self.grown(b, [x, y], table, k))]

    def step(self, b, x, y, table, k):
        choice = self.rnd.choice
        known = self.grown(b, [x, y], table, k)
        less = b.less(k)
        paired = choice([False, False, True])
        if paired:  # that do not need each other
            args = [(choice(known), choice(known), table, less) for _ in range(choice([2, 3]))]
            known += [self.call(b, *given) for given in args]
            known += self.grown(b, known[-2:], table, k)[2:]
        for _ in range(choice([0, 1, 1] if paired else [1, 2, 2])):
            args = choice([x, choice(known)]), choice([y, choice(known)]), table, less
            known.append(self.in_a_loop(b, *args) if choice([0, 0, 1]) else self.call(b, *args))
            known += self.grown(b, known[-2:], table, k)[2:]
        if self.nested and choice([0, 0, 0, 1]):
            other = Written(self.rnd, self.model, nested=False)
            known.append(other.call(b, known[-1], choice(known), table, less))
        return [choice([known[-1], b.mix(known[-1], choice(known))])]

    def call(self, b, *args):
        return b.call(self.name, args, VECTOR)

    def in_a_loop(self, b, x, y, table, k):
        def write(b, i, going, state, y, table, k):
            found = self.call(b, b.mix(state, b.row(table, i)), y, table, k)
            return [going, b.mix(found, b.row(table, i))]

        params = tuple(map(self.model.var, (COUNT, TRUTH, VECTOR, VECTOR, TABLE, COUNT)))
        body = self.model.function(f"body_{self.model.name()}", params, write)
        trips = self.model.constant(np.array(self.rnd.randint(0, 2)))
        return b.loop(body, trips, None, [x], [y, table, k])


def decisions(rnd, depth=8):
    rammer = Options(
        policy=rnd.choice(sorted(POLICIES)),
        threads=rnd.randint(1, 3),
        brick_tasks=rnd.choice([0, 1, 2]),
    )
    memory = MemoryOptions(policy=rnd.choice(["arena", "arena", "storages"]))
    grinder = GrinderOptions(depth=depth, alone=rnd.choice(["all", "auto", "one"]))
    return Decisions(rammer=rammer, memory=memory, grinder=grinder)


def recursive(rnd):
    """A random program around one or two calls of such a function, and its codes."""
    model = Model()
    written = Written(rnd, model)

    def write(body, x, y, table, k):
        known, _ = grow(rnd, model, body, [x, y], 1, table)
        known.append(written.call(body, rnd.choice(known), rnd.choice(known), table, k))
        if rnd.random() < 0.4:
            known.append(written.call(body, known[-1], rnd.choice(known), table, k))
        return [known[-1], body.mix(known[-1], rnd.choice(known))]

    params = [Var(n, t) for n, t in zip(("x", "y", "table", "k"), KINDS, strict=True)]
    return model, model.program(params, write, decisions(rnd))


def counted(depth, units=2, around=False):
    """f(x, k) = flip(x) if 4 divides k else mix(f(flip(x), k - 1), x), with work of all units
    `around` it where that is asked for.
    """
    model = Model()
    params = [tuple(map(model.var, (VECTOR, COUNT))) for _ in range(3)]

    def step(b, x, k):
        return [b.mix(b.call("f", [b.flip(x), b.less(k)], VECTOR), x)]

    arms = [
        model.function("step", params[0], step),
        model.function("base", params[1], lambda b, x, k: [b.flip(x)]),
    ]
    model.function("f", params[2], lambda b, x, k: [b.branch(b.test(k), *arms, [x, k], VECTOR)])
    chosen = Decisions(rammer=Options(threads=units), grinder=GrinderOptions(depth=depth))

    def call(b, x, k):
        found = b.call("f", [b.flip(x) if around else x, k], VECTOR)
        return [b.mix(found, x) if around else found]

    return model, model.program((Var("x", VECTOR), Var("k", COUNT)), call, chosen)


def forced(way):
    """All recursions go a way, units apart where that can be."""

    def chosen(task, found, options, barrier_us, *rest):
        asked = replace(task, units="parallel" if way == APART else "serial")
        return select_recursion_schedule(
            asked, found, options, 1e9 if way == ALONE else -1e9, *rest
        )

    return patch("explorer.runtime.planning.plan.select_recursion_schedule", chosen)


@pytest.mark.exhaustive
@settings(max_examples=examples(60, few=6), deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(WAYS))
def test_recursions_in_any_order_of_the_units_end_without_a_race_and_with_the_same_numbers(
    seed, way
):
    rnd = Random(seed)
    model, program = recursive(rnd)
    executable = Executable(program, model.codes, DEVICE)
    with forced(way):
        plan = executable.plan({})
    several = program.decisions.rammer.threads > 1
    assert several or not plan.recursions
    if way != APART:
        assert all(found.mode == way for found in plan.recursions.values())
    assert executable.frames is None
    inputs = inputs_of(program, N, seed)
    for k in range(3):
        inputs["k"] = np.array(k)
        wanted = evaluate(program, inputs)
        for _ in range(3):
            found, rows = by_model(executable, inputs, rnd)
            same(found, wanted)
            found, again = by_interpreter(executable, inputs, rnd)
            same(found, wanted)
            assert again == rows


@pytest.mark.parametrize("units", [1, 2])
@pytest.mark.parametrize("k", [0, 1, 2, 3])
def test_a_recursion_is_one_launch_that_python_does_not_follow(units, k):
    model, program = counted(4, units)
    executable = Executable(program, model.codes, DEVICE)
    inputs = {"x": np.arange(N), "k": np.array(k)}
    executable.run(inputs)
    with counters.delta() as did:
        found = executable.run(inputs)
    same(found, evaluate(program, inputs))
    counts = did.counts
    assert (counts.regions_run, counts.host_reads, counts.interpreted_kernels) == (0, 0, 0)
    assert counts.arrays_made == 1 and counts.replays == 1


@pytest.mark.parametrize("way", [ALONE, TOGETHER])
@pytest.mark.parametrize("units", [1, 2, 3])
def test_a_call_too_many_is_one_error_and_the_next_run_is_right(units, way):
    model, program = counted(3, units, around=True)
    executable = Executable(program, model.codes, DEVICE)
    with forced(way):
        executable.plan({})
    for k in (2, 3, 2, -1, 1):
        inputs = {"x": np.arange(N), "k": np.array(k)}
        if k in (3, -1):
            with pytest.raises(BoundError, match="f is called more than 3 calls deep"):
                executable.run(inputs)
        else:
            same(executable.run(inputs), evaluate(program, inputs))


def test_calls_write_nothing_beyond_their_stack(monkeypatch):
    blocks, room = [], 4096

    def guarded(count, alignment=64):
        block = aligned_bytes(count + 2 * room)
        block[:] = 0x5A
        blocks.append(block)
        return block[room : room + count]

    monkeypatch.setattr("explorer.runtime.binding.arena.aligned_bytes", guarded)
    model, program = counted(3)
    executable = Executable(program, model.codes, DEVICE)
    for k in (3, 2, -1):
        inputs = {"x": np.arange(N), "k": np.array(k)}
        with nullcontext() if k == 2 else pytest.raises(BoundError):
            executable.run(inputs)
    (frames,) = executable.plan({}).placed.frames.values()
    frame = frames.frame_bytes
    memory, _ = blocks
    assert len(memory) == 3 * frame + 2 * room
    assert (memory[room:-room].reshape(3, frame) != 0x5A).any(axis=1).all()
    for block in blocks:
        assert (block[:room] == 0x5A).all() and (block[-room:] == 0x5A).all()


def test_a_stack_that_does_not_fit_is_refused_before_anything_runs(monkeypatch):
    monkeypatch.setenv("IRONWORKS_MEMORY", "1MiB")
    model, program = counted(100_000)
    executable = Executable(program, model.codes, DEVICE)
    inputs = {"x": np.arange(N), "k": np.array(1)}
    with counters.delta() as did, pytest.raises(TooLarge) as refused:
        executable.run(inputs)
    assert did.counts.arenas_made == 0
    assert "the stack of 'f', 100,000 calls deep" in str(refused.value)
    assert "grinder.depth" in refused.value.try_


def test_a_policy_leaves_a_recursion_to_the_host():
    model, program = counted(8)
    (device,) = task_tree(program).parts
    (host,) = task_tree(program, on_host).parts[-1:]
    assert (device.kind, device.level, task_tree(program).level) == ("call", "device", "device")
    assert task_tree(program, on_host).level == "host" and host.level == "host"
    assert uprogram(program, on_host).hosted == {"f"}
    executable = Executable(program, model.codes, DEVICE, on_host)
    assert executable.frames is not None
    for k in range(4):
        inputs = {"x": np.arange(N), "k": np.array(k)}
        same(executable.run(inputs), evaluate(program, inputs))


def test_functions_that_call_each_other_stay_with_the_host_and_the_tree_says_so():
    model = Model()
    other = {"f": "g", "g": "f"}

    def written(name):
        x, k, *rest = map(model.var, (VECTOR, COUNT) * 3)
        step = model.function(
            f"{name}_step",
            (x, k),
            lambda b, x, k: [b.call(other[name], [b.flip(x), b.less(k)], VECTOR)],
        )
        base = model.function(f"{name}_base", rest[:2], lambda b, x, k: [b.flip(x)])
        model.function(
            name, rest[2:], lambda b, x, k: [b.branch(b.test(k), step, base, [x, k], VECTOR)]
        )

    for name in other:
        written(name)
    call = lambda b, x, k: [b.call("f", [x, k], VECTOR)]  # noqa: E731
    program = model.program((Var("x", VECTOR), Var("k", COUNT)), call)
    executable = Executable(program, model.codes, DEVICE)
    for k in range(4):
        inputs = {"x": np.arange(N), "k": np.array(k)}
        same(executable.run(inputs), evaluate(program, inputs))
    todo, reasons = [task_tree(program)], []
    while todo:
        tree = todo.pop()
        todo += tree.parts
        reasons += [tree.reason] if tree.kind == "library" else []
    assert reasons == ["Python follows f, which calls itself: f and g call each other"]


def test_a_run_that_is_poisoned_reads_nothing_of_a_frame_that_it_has_not_written():
    model, program = counted(4)
    poisoned = Executable(program, model.codes, DEVICE, poisoned=True)
    for k in range(4):
        inputs = {"x": np.arange(N), "k": np.array(k)}
        same(poisoned.run(inputs), evaluate(program, inputs))


@pytest.mark.few(11)
@pytest.mark.parametrize("way", [ALONE, TOGETHER])
@pytest.mark.parametrize("units", [1, 2])
@pytest.mark.parametrize("k", [0, 1, 3])
def test_calls_are_seen_in_a_run_and_planned(units, k, way):
    model, program = counted(4, units)
    executable = Executable(program, model.codes, DEVICE)
    inputs = {"x": np.arange(N), "k": np.array(k)}
    with forced(way):
        executable.plan({})
    (name,) = executable.planner.uncounted(executable.plan({}))
    profile = task_profile(executable, inputs, runs=5, fresh=True)
    trips = dict(profile.trips)
    assert trips[name] == trips[f"{name}/depth"] == k + 1
    chosen = replace(program.decisions, rammer=Options(threads=units, profile=profile))
    known = Executable(replace(program, decisions=chosen), model.codes, DEVICE)
    with forced(way):
        planned, measured = known.planned_wall({}), executable.measured_wall(inputs)
    assert not known.planner.uncounted(known.plan({}))
    assert places(planned) == places(measured) and not measured.host
    assert len({b.iteration for b in measured.bricks}) == k + 1


def test_where_nobody_says_how_deep_the_stack_takes_an_eighth_at_most(monkeypatch):
    model, program = counted(0)
    (usual,) = Executable(program, model.codes, DEVICE).plan({}).placed.frames.values()
    assert usual.depth == 2000
    monkeypatch.setenv("IRONWORKS_MEMORY", str(8 * 10 * usual.frame_bytes))
    executable = Executable(program, model.codes, DEVICE)
    (fewer,) = executable.plan({}).placed.frames.values()
    assert fewer.depth == 10
    inputs = {"x": np.arange(N), "k": np.array(3)}
    same(executable.run(inputs), evaluate(program, inputs))
    endless = {"x": np.arange(N), "k": np.array(-1)}
    same(executable.run(endless), evaluate(program, endless))


@pytest.mark.parametrize("policy", ["arena", "storages"])
def test_a_stack_is_a_row_of_the_memory_plan(policy):
    model, program = counted(7)
    chosen = replace(program.decisions, memory=MemoryOptions(policy=policy))
    executable = Executable(replace(program, decisions=chosen), model.codes, DEVICE)
    plan = executable.memory({})
    (frames,) = executable.plan({}).placed.frames.values()
    (stack,) = [b for b in plan.buffers if b.name.endswith("/stack")]
    assert stack.bytes == frames.bytes == 7 * frames.frame_bytes
    assert plan.planned_bytes >= stack.offset + stack.bytes
    others = [b for b in plan.buffers if b is not stack and not b.alias_of]
    assert all(
        b.offset + b.bytes <= stack.offset or b.offset >= stack.offset + stack.bytes for b in others
    )


def test_one_unit_does_what_is_shorter_than_meeting_the_others():
    model, program = counted(9, around=True)
    executable = Executable(program, model.codes, DEVICE)
    slow = replace(DEVICE, barrier_us=50.0), replace(DEVICE, barrier_us=0.0)
    few, none = (Executable(program, model.codes, device).plan({}).alone for device in slow)
    assert len(few) == 1 and not none
    for device in slow:
        executable = Executable(program, model.codes, device)
        inputs = {"x": np.arange(N), "k": np.array(3)}
        same(executable.run(inputs), evaluate(program, inputs))
        rows = len(executable.measured_wall(inputs).bricks)
        assert rows >= 4


def twice(depth, units, apart="parallel"):
    """f(x, k) = flip(x) if 4 divides k else mix(f(flip(x), k - 1), f(mix(x, x), k - 1))."""
    model = Model()
    params = [tuple(map(model.var, (VECTOR, COUNT))) for _ in range(3)]

    def step(b, x, k):
        one = b.call("f", [b.flip(x), b.less(k)], VECTOR)
        other = b.call("f", [b.mix(x, x), b.less(k)], VECTOR)
        return [b.mix(one, b.mix(other, x))]

    arms = [
        model.function("step", params[0], step),
        model.function("base", params[1], lambda b, x, k: [b.flip(x)]),
    ]
    model.function("f", params[2], lambda b, x, k: [b.branch(b.test(k), *arms, [x, k], VECTOR)])
    grinder = GrinderOptions(depth=depth, recursion=apart)
    chosen = Decisions(rammer=Options(threads=units), grinder=grinder)
    call = lambda b, x, k: [b.call("f", [x, k], VECTOR)]  # noqa: E731
    return model, model.program((Var("x", VECTOR), Var("k", COUNT)), call, chosen)


@pytest.mark.parametrize("units", [2, 3])
def test_calls_that_do_not_need_each_other_are_made_by_units_apart_with_a_stack_each(units):
    model, program = twice(4, units)
    executable = Executable(program, model.codes, DEVICE)
    plan = executable.plan({})
    ((way, stacks),) = [(w.mode, w.stacks) for w in plan.recursions.values()]
    (frames,) = plan.placed.frames.values()
    assert (way, stacks, frames.stacks) == (APART, 2, 2)
    for k in range(4):
        inputs = {"x": np.arange(N), "k": np.array(k)}
        same(executable.run(inputs), evaluate(program, inputs))
        wall = executable.measured_wall(inputs)
        (calls,) = [r for r in wall.ran if r.kind == "call"]
        (branch,) = [r for r in wall.ran if r.kind == "branch"]
        assert (calls.times, calls.trips, calls.depth) == (1, 2 ** (k + 1) - 1, k + 1)
        assert (branch.times, branch.then) == (2 ** (k + 1) - 1, 2**k - 1)
        by_unit = [sum(b.last - b.first for b in wall.bricks if b.unit == u) for u in (0, 1)]
        assert k < 2 or max(by_unit) < 2 * min(by_unit)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_call_too_many_of_units_apart_is_one_error_and_the_next_run_is_right(depth):
    model, program = twice(depth, 2)
    executable = Executable(program, model.codes, DEVICE)
    for k in (depth - 1, depth, -1, 0, depth - 1):
        inputs = {"x": np.arange(N), "k": np.array(k)}
        if k in (depth, -1):
            with pytest.raises(BoundError, match=f"f is called more than {depth} calls deep"):
                executable.run(inputs)
        else:
            same(executable.run(inputs), evaluate(program, inputs))


@pytest.mark.parametrize(
    ("made", "refused"),
    [
        (lambda: twice(4, 2, "auto"), ""),
        (lambda: twice(4, 2, "serial"), "grinder.recursion is serial"),
        (lambda: counted(4), "its calls depend on each other"),
    ],
)
def test_every_way_of_a_recursion_is_kept_with_its_cost_or_why_it_cannot_be(made, refused):
    model, program = made()
    plan = Executable(program, model.codes, DEVICE).plan({})
    (found,) = plan.recursions.values()
    assert {w.value: w.refused for w in found.candidates} == {
        TOGETHER: "",
        ALONE: "",
        APART: refused,
    }
    assert found.mode == found.candidates[0].value
    assert found.candidates[0].cost_us == min(w.cost_us for w in found.candidates)
