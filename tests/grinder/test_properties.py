"""The fifteen properties of Grinder's control flow, by number, and what shows each of them.

 1 Every schedule gives what Python gives, without a trip or a true condition too:
   `tests.runtime.test_every_schedule`, `tests.runtime.test_control_flow`; both sides of a
   branch: `tests.grinder.test_if_conversion`.
 2 A region in the program is one launch; from Python each part of each trip is one:
   `test_python_launches_and_reads_in_every_trip_and_the_program_never`, in the first of these.
 3 Python reads a for's limit once, a while's condition before each trip, a branch's once; the
   program goes back for none: the same test, and `test_a_while_reads_its_guard_...` after it.
 4 Barriers of a trip, and none missing between kernels of which one reads what other units wrote:
   here; random programs in random orders of the units: `tests.runtime.test_interleavings`.
 5 No more units than were asked for, nor workers than there are: here.
 6 The units do every task once a trip, and copy every byte once: here.
 7 The way that is not taken runs and writes nothing: here, by the count of kernels, and
   `test_the_way_that_is_not_taken_writes_nothing` of `tests.runtime.test_control_flow`.
 8 What is computed without its condition is small, total and selected from: here and
   `tests.grinder.test_if_conversion`. Both sides are, as a whole; nothing is moved out of a branch
   by itself.
 9 Calls return in post-order, in pairs, and no deeper than the stack: here,
   `test_calls_write_nothing_beyond_their_stack` and `test_a_call_too_many_is_one_error_...` of
   `tests.runtime.test_recursion`, and the end of `tests.runtime.test_device_program`.
10 Calls that need nothing of each other are made by units apart, in any order and without a race:
   the first test named under 9, by the way `APART`; their stacks lie behind each other. A group of
   units is not split further: each makes its calls alone. Loops and branches likewise:
   `tests.grinder.test_independent`.
11 Turns of several trips make all trips, with the same results: `tests.grinder.test_unroll`; with
   no more launches than their trips: here.
12 No call of a function that does not call itself is left: here.
13 Scalars of a loop's count and of constants need no kernel where they say which row is read or
   written: `tests.grinder.test_row_views`. Not built: other ones, which are kernels, or parts of
   those
   that read them.
14 What is in the program does not go back to Python: here, `tests.grinder.test_grind` and
   `tests.runtime.test_select_control_schedule`.
15 The fastest way measured is taken: `tests.measure.test_control_schedules`;
   ways that cannot be say why: `tests.runtime.test_select_control_schedule`.

Source: Zhang et al., OSDI 2023, and the code that its authors published.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.grinder import (
    BranchTask,
    CallTask,
    ControlSchedules,
    LibraryTask,
    LoopTask,
    RecursionTask,
    Straight,
    task_tree,
    uprogram,
)
from explorer.grinder import Options as Grinder
from explorer.grinder.if_conversion import MOST_KERNELS, refusal
from explorer.grinder.model import nested_parts, operators_of
from explorer.grinder.tree import barriers_per_trip
from explorer.ir.calls import KernelCall, Var
from explorer.ir.decisions.decided import Decisions
from explorer.ir.types import Tensor
from explorer.ops.interpreter.evaluate import Interpreter, evaluate
from explorer.rammer import POLICIES, Options
from explorer.runtime.device_program import instructions as isa
from explorer.runtime.executable import Executable
from explorer.runtime.workers.aligned_memory import address_of
from explorer.runtime.workers.launch import Launch, rows_of
from explorer.runtime.workers.workers import Team
from tests.examples import examples
from tests.runtime.interleaving import Fault, Modelled, Stepped
from tests.runtime.programs import DEVICE, Model, inputs_of, vector
from tests.runtime.test_every_schedule import mixed
from tests.runtime.test_executable import same
from tests.runtime.test_interleavings import N, chooser, outcome, programs
from tests.runtime.test_recursion import recursive

VECTOR, COUNT, TRUTH = vector(N), Tensor((), "int64"), Tensor((), "bool")
SEEDS, POLICY = st.integers(0, 2**32), st.sampled_from(sorted(POLICIES))
FEW = settings(max_examples=examples(25), deadline=None)


def looped(
    kernels: int, states: int, policy: str, checked: bool = False, trips: int | None = None
) -> Executable:
    """A loop over states that change places, each trip so many flips of the first; all elements of
    one are read backwards, so by another unit than wrote them: all units run it.
    """
    model = Model()

    def write(b: Any, i: Any, going: Any, first: Any, *others: Any) -> list[Any]:
        for _ in range(kernels):
            first = b.flip(first)
        return [b.test(first) if checked else going, *others, first]

    given = tuple(map(model.var, (COUNT, TRUTH, *[VECTOR] * states)))
    body = model.function("body", given, write)
    xs = tuple(Var(f"x{n}", VECTOR) for n in range(states))
    limit = Var("trips", COUNT) if trips is None else model.constant(np.array(trips))

    def main(b: Any, *xs: Any) -> list[Any]:
        found = b.loop(body, limit, None, xs[:states])
        return [found] if isinstance(found, Var) else list(found)

    laid = Options(policy=policy, threads=2, brick_tasks=1)
    chosen = Decisions(rammer=laid, grinder=Grinder(alone="all"))
    params = (*xs, limit) if trips is None else xs
    return Executable(model.program(params, main, chosen), model.codes, DEVICE)


class Met(Modelled):
    """A model of a launch that counts how often all units meet."""

    met = 0

    def do(self, op: int, number: int, *rest: Any) -> None:
        self.met += op == isa.BARRIER and number == 0
        super().do(op, number, *rest)


def barriers(executable: Executable, inputs: dict[str, Any]) -> int:
    found, team = outcome(executable, inputs, lambda arena: Met(chooser(Random(0)), arena.memory))
    same(found, evaluate(executable.program, inputs))
    return int(team.met)


@pytest.mark.parametrize("kernels", [1, 2, 3, 5])
def test_property_4_a_trip_has_a_barrier_for_each_kernel_and_one_for_its_state(
    kernels: int,
) -> None:
    """The paper's is one before each kernel of the body; our state is copied after the last one."""
    executable = looped(kernels, 1, "op-by-op")
    inputs = inputs_of(executable.program, N)
    counts = [barriers(executable, {**inputs, "trips": np.array(n)}) for n in (0, 1, 2, 7)]
    assert counts == [1 + n * (kernels + 1) for n in (0, 1, 2, 7)]


@FEW
@given(st.integers(1, 4), st.integers(1, 3), POLICY)
def test_property_4_trips_have_the_barriers_that_the_plan_and_the_tree_say(
    kernels: int, states: int, policy: str
) -> None:
    executable = looped(kernels, states, policy)
    (loop,) = (p for p in executable.tasks.parts if isinstance(p, LoopTask))
    plan = executable.plan({})
    (laid,) = plan.schedules.values()
    meetings, _ = executable.planner.host({}, plan.extents).between_turns(loop)
    inputs = inputs_of(executable.program, N)
    before, after = (barriers(executable, {**inputs, "trips": np.array(n)}) for n in (2, 3))
    assert after - before == meetings + len(laid.programs) - 1
    assert meetings == barriers_per_trip(loop, executable.tasks.values)


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_property_4_a_condition_is_read_between_two_barriers(policy: str) -> None:
    executable = looped(1, 1, policy, checked=True)
    (loop,) = (p for p in executable.tasks.parts if isinstance(p, LoopTask))
    plan = executable.plan({})
    launches = sum(len(s.programs) for s in plan.schedules.values())
    meetings, _ = executable.planner.host({}, plan.extents).between_turns(loop)
    first = next(n for n in range(99) if np.all(flipped(n, 3) % 4))
    inputs = {"x0": np.full(N, first)}
    counts = [barriers(executable, {**inputs, "trips": np.array(n)}) for n in (1, 2, 3)]
    assert {b - a for a, b in pairwise(counts)} == {meetings + launches - 1}
    assert meetings == barriers_per_trip(loop, executable.tasks.values)


def flipped(value: int, times: int) -> np.ndarray:
    """What so many flips make of equal elements, each."""
    made = []
    for _ in range(times):
        value = (value * 5 + 7) % 1_000_003
        made.append(value)
    return np.array(made)


@pytest.mark.parametrize("computed", [(True, True), (True, False), (False, False)])
@pytest.mark.parametrize("taken", [True, False])
def test_property_4_a_branch_has_the_barriers_that_the_plan_says(
    computed: tuple[bool, bool], taken: bool
) -> None:
    model = Model()
    sides = [
        model.function(
            f"side{n}",
            (model.var(VECTOR), model.var(VECTOR)),
            lambda b, x, y, makes=makes, n=n: [b.flip(x) if makes else (x, y)[n]],
        )
        for n, makes in enumerate(computed)
    ]

    def main(b: Any, x: Any, y: Any, p: Any) -> list[Any]:
        return [b.flip(b.branch(p, *sides, [b.flip(x), y], VECTOR))]

    given = tuple(Var(n, t) for n, t in (("x", VECTOR), ("y", VECTOR), ("p", TRUTH)))
    chosen = Decisions(rammer=Options(threads=2, brick_tasks=1), grinder=Grinder(alone="all"))
    program = model.program(given, main, chosen)
    executable = Executable(program, model.codes, DEVICE)
    (branch,) = (p for p in executable.tasks.parts if isinstance(p, BranchTask))
    host = executable.planner.host({}, executable.plan({}).extents)
    made = 1 if taken else 2
    meetings, _ = host.after_arm(branch, made)
    found = barriers(executable, {**inputs_of(program, N), "p": np.array(taken)})
    assert (
        host.barriers_before_arm(branch, made) == 1
    )  # none behind it: no side writes over the condition
    assert found == 1 + meetings


@pytest.mark.parametrize("policy", ["op-by-op", "gang"])
@pytest.mark.parametrize("kernels", [2, 3, 4])
def test_property_4_no_barrier_between_two_kernels_can_be_left_out(
    policy: str, kernels: int
) -> None:
    for number in range(kernels - 1):
        executable = looped(kernels, 1, policy, trips=2)
        (step,) = executable._bound({"x0": np.arange(N)}, {}).steps
        for rows in step.rows:
            between = np.flatnonzero(rows[:, 0] == isa.BARRIER)[2:]  # before, and at the top
            at = between[number]
            rows[at] = (isa.JUMP, at + 1, 0, 0, 0)
        with pytest.raises(Fault):
            barriers(executable, {"x0": np.arange(N)})


@FEW
@given(SEEDS, st.integers(1, 9), st.integers(1, 3))
def test_property_5_units_are_those_asked_for_and_workers_those_that_there_are(
    seed: int, threads: int, workers: int
) -> None:
    model, program = programs(Random(seed))
    laid = program.decisions.rammer
    assert isinstance(laid, Options)
    asked = replace(program.decisions, rammer=replace(laid, threads=threads))
    executable = Executable(replace(program, decisions=asked), model.codes, DEVICE)
    inputs, team = inputs_of(program, N, seed), Seen(workers)
    found, _ = outcome(executable, inputs, lambda arena: team)
    same(found, evaluate(program, inputs))
    assert team.seen
    assert all(at_work <= min(units, workers) <= threads for units, at_work in team.seen)
    assert all(units <= threads for units, _ in team.seen)
    team.stop()


class Seen(Team):
    """A team that notes its launches: how many units, and how many workers carried them."""

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        self.seen: list[tuple[int, int]] = []

    def launch(self, block: int, units: int, free: Any = None) -> None:
        super().launch(block, units, free)
        self.seen.append((units, int(self._words[isa.T_WORKERS])))


class Counted(Interpreter):
    """An interpreter that counts how often each kernel's binding is evaluated."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.counts = Counter[str]()

    def binding(self, binding: Any, values: Any, frame: Any) -> Any:
        if isinstance(binding.expr, KernelCall):
            self.counts[binding.name] += 1
        return super().binding(binding, values, frame)


@FEW
@given(SEEDS, st.booleans())
def test_properties_6_and_7_each_task_runs_once_wherever_python_takes_the_way_to_it(
    seed: int, recurses: bool
) -> None:
    rnd = Random(seed)
    model, program = recursive(rnd) if recurses else programs(rnd)
    inputs = inputs_of(program, N, seed)
    if recurses:
        inputs["k"] = np.array(3)
    python = Counted(program, {})
    python.run(program.main, [inputs[p.name] for p in program.main.params])
    executable = Executable(program, model.codes, DEVICE)
    operators = {o.name: o for o in everything(executable.tasks.parts)}
    ran = Counter[tuple[str, int, int]]()
    for brick in executable.measured_wall(inputs).bricks:
        for task in range(brick.first, brick.last):
            ran[brick.call, brick.iteration, task] += 1
    assert set(ran.values()) <= {1}
    found = Counter[str]()
    for name, iteration in {(call, iteration) for call, iteration, _ in ran}:
        binding = operators[name].binding
        tasks = {t for call, i, t in ran if (call, i) == (name, iteration)}
        assert tasks == set(range(model.codes[binding].tasks({})))
        found[binding] += 1
    kept = {o.binding for o in operators.values()}  # rows are read where they lie, without a kernel
    assert found == Counter({b: n for b, n in python.counts.items() if b in kept})


def everything(parts: Any) -> Any:
    """Every kernel call, those of recursions included."""
    for part in nested_parts(parts):
        if isinstance(part, Straight):
            yield from part.operators
        elif isinstance(part, RecursionTask):
            yield from everything(part.body)


@FEW
@given(st.integers(0, 2000), st.integers(1, 9), st.booleans())
def test_property_6_units_copy_each_byte_once_and_no_other(
    count: int, units: int, whole: bool
) -> None:
    if whole:
        units = 1
    written = np.zeros(count + 64, np.int64)
    for unit in range(units):
        source, target = np.full(count + 64, 7, np.uint8), np.zeros(count + 64, np.uint8)
        nothing = rows_of([(isa.END, 0, 0, 0, 0)])
        copy = rows_of([(isa.COPY, 0, 1, count, int(whole)), (isa.END, 0, 0, 0, 0)])
        launch = Launch([copy if n == unit else nothing for n in range(units)], 0, 2)
        launch.slots[:] = address_of(target), address_of(source)
        launch.run(Stepped(lambda able: able[0]))
        written += target == 7
    assert (written[:count] == 1).all() and not written[count:].any()


@pytest.mark.parametrize("kernels", [1, MOST_KERNELS, MOST_KERNELS + 1])
def test_property_8_a_side_of_many_kernels_is_not_computed_unasked(kernels: int) -> None:
    model = Model()

    def flips(b: Any, x: Any, count: int) -> list[Any]:
        for _ in range(count):
            x = b.flip(x)
        return [x]

    names = [
        model.function(f"side{n}", (model.var(VECTOR),), lambda b, x, n=n: flips(b, x, n))
        for n in (kernels, 1)
    ]
    given = Var("x", VECTOR), Var("p", TRUTH)
    program = model.program(given, lambda b, x, p: [b.branch(p, *names, [x], VECTOR)])
    (binding,) = program.main.body
    sides = program.function(names[0]), program.function(names[1])
    why = refusal(binding, given[1], sides)
    assert bool(why) == (kernels > MOST_KERNELS)
    if why:
        assert why == f"side{kernels} is {kernels} kernels, more than {MOST_KERNELS}"


class Ordered(Modelled):
    """A model of one unit that notes each call, each return, and how deep the unit then is."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.noted: list[tuple[str, int]] = []

    def do(self, op: int, number: int, unit: Any, *rest: Any) -> None:
        super().do(op, number, unit, *rest)
        if number == 0 and op in (isa.CALL, isa.RETURN):
            self.noted.append(("call" if op == isa.CALL else "return", len(unit.stack)))


@FEW
@given(st.integers(0, 7), st.integers(1, 3), st.integers(1, 2))
def test_property_9_calls_go_on_in_post_order_and_no_deeper_than_python(
    k: int, calls: int, units: int
) -> None:
    if calls == 3:
        k %= 4
    model = Model()
    params = [tuple(map(model.var, (VECTOR, COUNT))) for _ in range(3)]

    def step(b: Any, x: Any, k: Any) -> list[Any]:
        less = b.less(k)
        for _ in range(calls):
            x = b.mix(b.call("f", [b.flip(x), less], VECTOR), x)
        return [x]

    arms = [
        model.function("step", params[0], step),
        model.function("base", params[1], lambda b, x, k: [b.flip(x)]),
    ]
    model.function("f", params[2], lambda b, x, k: [b.branch(b.test(k), *arms, [x, k], VECTOR)])
    program = model.program(
        (Var("x", VECTOR), Var("k", COUNT)),
        lambda b, x, k: [b.call("f", [x, k], VECTOR)],
        Decisions(rammer=Options(threads=units)),
    )
    wanted: list[tuple[str, int]] = []

    def f(k: int, depth: int) -> None:
        wanted.append(("call", depth))
        for _ in range(calls if k % 4 else 0):
            f(k - 1, depth + 1)
        wanted.append(("return", depth - 1))

    f(k, 1)
    executable = Executable(program, model.codes, DEVICE)
    inputs = {"x": np.arange(N), "k": np.array(k)}
    found, team = outcome(executable, inputs, lambda a: Ordered(chooser(Random(k)), a.memory))
    same(found, evaluate(program, inputs))
    assert team.noted == wanted and team.noted[-1] == ("return", 0)


@FEW
@given(SEEDS, st.integers(2, 5), st.integers(1, 3))
def test_property_11_turns_have_no_more_launches_than_their_trips(
    seed: int, turn: int, kernels: int
) -> None:
    rnd = Random(seed)
    model = Model()

    def write(b: Any, i: Any, going: Any, s: Any, t: Any) -> list[Any]:
        known = [s, t]
        for _ in range(kernels):
            x, y = rnd.choice(known), rnd.choice(known)
            known.append(rnd.choice([b.flip(x), b.mix(x, y)]))
        return [going, rnd.choice(known[1:]), known[-1]]

    given = tuple(map(model.var, (COUNT, TRUTH, VECTOR, VECTOR)))
    body, limit = model.function("body", given, write), model.constant(np.array(4 * turn))
    program = model.program(
        (Var("x", VECTOR), Var("y", VECTOR)),
        lambda b, *xs: list(b.loop(body, limit, None, xs)),
        Decisions(rammer=Options(policy=rnd.choice(sorted(POLICIES)), threads=2)),
    )

    def launches(turn: int) -> int:
        plan = Executable(program, model.codes, DEVICE, ControlSchedules(turn=turn)).plan({})
        return sum(len(s.programs) for s in plan.schedules.values())

    assert launches(turn) <= turn * launches(1)


@FEW
@given(SEEDS)
def test_property_12_no_call_of_a_function_that_does_not_call_itself_is_left(seed: int) -> None:
    """Functions call those before them, also in branches and loops: each call is its kernels."""
    rnd, model = Random(seed), Model()
    names: list[str] = []

    def body_of(b: Any, x: Any) -> Any:
        for _ in range(rnd.randint(1, 3)):
            kind = rnd.choice(["flip", *(["call", "call", "branch", "loop"] if names else [])])
            match kind:
                case "flip":
                    x = b.flip(x)
                case "call":
                    x = b.call(rnd.choice(names), [x], VECTOR)
                case "branch":
                    x = b.branch(b.test(x), rnd.choice(names), rnd.choice(names), [x], VECTOR)
                case "loop":
                    callee = rnd.choice(names)
                    loops = model.function(
                        f"body_{model.name()}",
                        tuple(map(model.var, (COUNT, TRUTH, VECTOR))),
                        lambda b, i, going, s, callee=callee: [going, b.call(callee, [s], VECTOR)],
                    )
                    x = b.loop(loops, model.constant(np.array(2)), None, [x])
        return x

    for n in range(4):
        made = model.function(f"f{n}", (model.var(VECTOR),), lambda b, x: [body_of(b, x)])
        names.append(made)
    program = model.program((Var("x", VECTOR),), lambda b, x: [body_of(b, x)])
    functions = {f.name: f for f in program.functions}

    def kernels(name: str) -> int:
        own = sum(isinstance(b.expr, KernelCall) for b in functions[name].body)  # equal arms: one
        return own + sum(kernels(callee) for b in functions[name].body for callee in {*b.calls})

    found = uprogram(program)
    parts = list(nested_parts(found.parts))
    assert not [p for p in parts if isinstance(p, CallTask | RecursionTask | LibraryTask)]
    assert len(list(operators_of(found.parts))) == kernels("main")
    inputs = inputs_of(program, N, seed)
    same(Executable(program, model.codes, DEVICE).run(inputs), evaluate(program, inputs))


@FEW
@given(SEEDS)
def test_property_14_nothing_in_the_program_is_above_what_it_stands_in(seed: int) -> None:
    _, program = programs(Random(seed))

    def check(tree: Any, in_program: bool) -> None:
        assert not (in_program and tree.level == "host")
        for part in tree.parts:
            check(part, in_program or (tree.kind in ("loop", "branch") and tree.level == "device"))

    check(task_tree(program, ControlSchedules(mixed(seed))), False)
