"""Device programs under random orders of their units: no deadlock, no race, the same numbers."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.grinder import ControlSchedules, lowest, on_host
from explorer.grinder import Options as Grinder
from explorer.ir.calls import Var
from explorer.ir.decisions.decided import Decisions
from explorer.ir.types import Tensor
from explorer.ops.interpreter.evaluate import evaluate
from explorer.rammer import POLICIES, Options
from explorer.runtime.binding.bound import as_usable
from explorer.runtime.device_program import instructions as isa
from explorer.runtime.executable import Executable
from explorer.runtime.workers.aligned_memory import address_of
from explorer.runtime.workers.launch import Launch, rows_of
from tests.examples import examples
from tests.runtime.interleaving import Fault, Modelled, Stepped
from tests.runtime.programs import ADDRESSES, DEVICE, Model, inputs_of, vector
from tests.runtime.test_executable import same

N = 12
VECTOR, COUNT, TRUTH = vector(N), Tensor((), "int64"), Tensor((), "bool")
TABLE = Tensor((5, N), "int64")
ORDERS = 12  # of one program, by the model and by the interpreter each


def grow(rnd, model, body, known, depth, table, counts=()):
    """Some operators, branches and loops over what is known; every vector that there is then, and
    what loops have stacked.
    """
    known, stacks = list(known), []
    kinds = ["flip", "mix", "mix", "part", *(["branch", "loop"] if depth else [])]
    for _ in range(rnd.randint(1, 4)):
        kind = rnd.choice([*kinds, *(["row", "row"] if counts else [])])
        x, y = rnd.choice(known), rnd.choice(known)
        match kind:
            case "flip":
                known.append(body.flip(x))
            case "mix":
                known.append(body.mix(x, y))
            case "part":
                half = body.flip(body.view(x, (N // 2,), rnd.choice([0, N // 2])))
                known.append(body.flip(x) if rnd.random() < 0.5 else body.mix(x, x))
                body.mix(half, half)
            case "row":
                known.append(body.row(table, rnd.choice(counts)))
            case "branch":
                arms = [arm(rnd, model, depth, len(counts)) for _ in range(2)]
                known.append(body.branch(body.test(x), *arms, [x, y, table, *counts], VECTOR))
            case "loop":
                state, made = looped(rnd, model, body, x, y, depth, table, counts)
                known.append(state)
                stacks += made
                for s in made:
                    if s.type.dims[0] > 0 and s.type.dims[1:] == (N,):
                        known.append(body.view(s, (N,), N * rnd.randrange(s.type.dims[0])))
    return known, stacks


def arm(rnd, model, depth, counts):
    params = tuple(map(model.var, (VECTOR, VECTOR, TABLE, *[COUNT] * counts)))

    def write(body, x, y, table, *counts):
        known, _ = grow(rnd, model, body, [x, y], depth - 1, table, counts)
        return [rnd.choice(known)]

    return model.function(f"arm_{model.name()}", params, write)


def looped(rnd, model, body, x, y, depth, table, counts):
    """A loop that its count, its data or both end, one state of it and what it stacks, if its count
    alone ends it; its state may change places or be the count.
    """
    checked = rnd.random() < 0.3
    kinds = (COUNT, TRUTH, VECTOR, VECTOR, VECTOR, COUNT, TABLE, *[COUNT] * len(counts))
    params = tuple(map(model.var, kinds))
    stacks = 0 if checked else rnd.choice([0, 1, 1, 2, 3])

    def write(b, iteration, going, s, t, k, n, table, *counts):
        own = (iteration, *counts)
        known, made = grow(rnd, model, b, [s, t, k], depth - 1, table, own)
        after = rnd.choice([t, known[-1]]), rnd.choice([s, t, known[-1]])
        rows = [rnd.choice([*known[-2:], *after, s, iteration, *made]) for _ in range(stacks)]
        count = rnd.choice([n, iteration])
        return [b.test(after[0]) if checked else going, *after, k, count, *rows]

    name = model.function(f"loop_{model.name()}", params, write)
    trips = rnd.randint(0, 4)
    limit, first = model.constant(np.array(trips)), model.constant(np.array(0))
    cond = body.test(x) if checked or (not stacks and rnd.random() < 0.3) else None
    given = [x, y, x, first]
    found = body.loop(name, limit, cond, given, [table, *counts], trips)
    return found[rnd.randint(0, 1)], list(found[4:])


def programs(rnd, depth=2):
    """A random program of kernels, branches and loops, and its codes."""
    model = Model()
    params = (Var("x", VECTOR), Var("y", VECTOR), Var("table", TABLE))

    def write(body, x, y, table):
        known, stacks = grow(rnd, model, body, [x, y], depth, table)
        return [body.flip(known[-1]), rnd.choice(known), *stacks]

    options = Options(
        policy=rnd.choice(sorted(POLICIES)),
        threads=rnd.randint(1, 3),
        brick_tasks=rnd.choice([0, 1, 2]),
    )
    program = model.program(params, write)
    alone = Grinder(alone=rnd.choice(["all", "all", "auto", "one"]))
    return model, replace(program, decisions=Decisions(rammer=options, grinder=alone))


def chooser(rnd):
    """Which unit is next: any, or for a while always the same one."""
    eager = rnd.random() < 0.3
    kept = [0]

    def choose(units):
        if not eager or rnd.random() < 0.1 or kept[0] not in units:
            kept[0] = units[int(rnd.random() * len(units))]
        return kept[0]

    return choose


def outcome(executable, inputs, team_of):
    """The outputs of a run whose launches go to a team, which is made for the run's arena."""
    bound = executable._bound(inputs, {})
    arrays = bound.outputs.new_arrays()
    arena = bound.take()
    arena.memory.fill(0x5A)
    arena.point([*(as_usable(inputs[name]) for name in executable.tasks.inputs), *arrays])
    team = team_of(arena)
    bound.replay(arena, team)
    bound.give(arena)
    return dict(zip(bound.outputs.names, arrays)), team


def by_model(executable, inputs, rnd, on_device=True):
    """The outputs, and how many rows were done. Where Python writes to the arena too, who wrote
    what is not known."""

    def team_of(arena):
        return Modelled(chooser(rnd), arena.memory if on_device else arena.memory[:0])

    found, team = outcome(executable, inputs, team_of)
    return found, team.rows


def by_interpreter(executable, inputs, rnd):
    found, team = outcome(executable, inputs, lambda _: Stepped(chooser(rnd)))
    return found, team.rows


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 2**32))
def test_a6_2_any_order_of_the_units_ends_without_a_race_and_with_the_same_numbers(seed):
    rnd = Random(seed)
    model, program = programs(rnd)
    on_device = rnd.random() < 0.9
    ways = ControlSchedules(lowest, rnd.choice([1, 1, 2, 3])) if on_device else on_host
    executable = Executable(program, model.codes, DEVICE, ways)
    inputs = inputs_of(program, N, seed)
    wanted = evaluate(program, inputs)
    for _ in range(ORDERS):
        found, rows = by_model(executable, inputs, rnd, on_device)
        same(found, wanted)
        found, again = by_interpreter(executable, inputs, rnd)
        same(found, wanted)
        assert again == rows


def test_a_state_that_is_the_count_is_copied_before_the_count_goes_on():
    model = Model()
    params = tuple(model.var(t) for t in (COUNT, TRUTH, VECTOR, COUNT))
    body = model.function("body", params, lambda b, i, going, s, n: [going, b.flip(s), i])
    trips, first = model.constant(np.array(3)), model.constant(np.array(0))

    def write(b, x):
        return list(b.loop(body, trips, None, [x, first]))

    decisions = Decisions(rammer=Options(threads=2, brick_tasks=1), grinder=Grinder(alone="all"))
    program = model.program((Var("x", VECTOR),), write, decisions)
    executable = Executable(program, model.codes, DEVICE)
    inputs = inputs_of(program, N)
    found, _ = by_model(executable, inputs, Random(0))
    same(found, evaluate(program, inputs))


def two_units(*rows):
    """A launch of these rows, each unit with two flips of its own block: x -> y, y -> z."""
    x, y, z = np.arange(3 * N, dtype=np.int64).reshape(3, N)
    memory = np.concatenate([x, y, z])
    begin = address_of(memory)
    size = np.array([N], np.int64)
    blocks = np.array(
        [[begin + 8 * N * n, begin + 8 * N * (n + 1), address_of(size)] for n in range(2)], np.int64
    )
    launch = Launch([rows_of([*r, (isa.END, 0, 0, 0, 0)]) for r in rows], 2, 1)
    launch.code[:, :, 0] = ADDRESSES["flip"]
    launch.code[:, :, 1] = [address_of(b) for b in blocks]
    launch.slots[:, 0] = begin
    return launch, memory, (blocks, size)


def first_unit(units):
    return units[0]


def run(call, first, last, publish=0):
    return (isa.RUN, call, first, last, publish)


WAIT, MEET = (isa.WAIT, 0, 1, 0, 0), (isa.BARRIER, 0, 0, 0, 0)


def modelled(*rows, written=range(N)):
    launch, memory, keep = two_units(*rows)
    team = Modelled(first_unit, memory)
    begin = address_of(memory) // 8
    team.written.update(begin + n for n in written)
    launch.run(team)
    assert keep
    return memory[2 * N :]


@pytest.mark.parametrize(
    "first, second",
    [
        ([run(0, 0, 3, publish=1)], [WAIT, run(1, 0, 3)]),
        ([run(0, 0, 3), MEET], [MEET, run(1, 0, 3)]),
    ],
)
def test_what_is_awaited_may_be_read(first, second):
    twice = (np.arange(N) * 5 + 7) * 5 + 7
    assert (modelled(first, second) == twice).all()


@pytest.mark.parametrize(
    "first, second, problem",
    [
        ([run(0, 0, 3)], [run(1, 0, 3)], "may write"),
        ([run(0, 0, 1, publish=1), run(0, 1, 3)], [WAIT, run(1, 0, 3)], "may write"),
        ([run(0, 0, 3), run(1, 0, 3)], [run(1, 0, 3)], "may"),
        ([run(0, 0, 3)], [WAIT, run(1, 0, 3)], "deadlock"),
        ([run(0, 0, 3)], [MEET, run(1, 0, 3)], "deadlock"),
        ([run(1, 0, 3)], [], "nothing has written"),
        ([(isa.JUMP, 0, 0, 0, 0)], [], "do not end"),
    ],
)
def test_the_model_finds_what_is_wrong(first, second, problem):
    with pytest.raises(Fault, match=problem):
        modelled(first, second)


def test_the_interpreter_by_rows_finds_a_deadlock():
    other = (isa.WAIT, 1, 1, 0, 0)
    launch, _, keep = two_units([other, run(0, 0, 3, 1)], [WAIT, run(1, 0, 3, 1)])
    with pytest.raises(Fault, match="deadlock"):
        launch.run(Stepped(first_unit))
    assert keep
