"""Device programs under random orders of their units: no deadlock, no race, the same numbers."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.grinder import lowest, on_host
from explorer.ir.calls import Var
from explorer.ir.decisions import Decisions
from explorer.ir.types import Tensor
from explorer.ops.reference.evaluate import evaluate
from explorer.rammer import POLICIES, Options
from explorer.runtime.binding.results import usable
from explorer.runtime.device_program import instructions as isa
from explorer.runtime.executable import Executable
from explorer.runtime.workers.arena import address_of
from explorer.runtime.workers.launch import Launch, rows_of
from tests.runtime.interleaving import Fault, Modelled, Stepped
from tests.runtime.programs import ADDRESSES, DEVICE, Model, inputs_of, vector
from tests.runtime.test_executable import same

N = 12
VECTOR, COUNT, TRUTH = vector(N), Tensor((), "int64"), Tensor((), "bool")
ORDERS = 12  # of one program, by the model and by the interpreter each


def grow(rnd, model, body, known, depth):
    """Some operators, branches and loops over what is known; every vector that there is then."""
    known = list(known)
    for _ in range(rnd.randint(1, 4)):
        kind = rnd.choice(["flip", "mix", "mix", "part", "branch", "loop"][: 6 if depth else 4])
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
            case "branch":
                arms = [arm(rnd, model, depth) for _ in range(2)]
                known.append(body.branch(body.test(x), *arms, [x, y], VECTOR))
            case "loop":
                known.append(looped(rnd, model, body, x, y, depth))
    return known


def arm(rnd, model, depth):
    params = (model.var(VECTOR), model.var(VECTOR))

    def write(body, x, y):
        known = grow(rnd, model, body, [x, y], depth - 1)
        return [rnd.choice(known)]

    return model.function(f"arm_{model.name()}", params, write)


def looped(rnd, model, body, x, y, depth):
    """A loop that its count, its data or both end; its state may change places or be the count."""
    checked = rnd.random() < 0.4
    params = tuple(model.var(t) for t in (COUNT, TRUTH, VECTOR, VECTOR, VECTOR, COUNT))

    def write(b, iteration, going, s, t, k, n):
        known = grow(rnd, model, b, [s, t, k], depth - 1)
        after = rnd.choice([t, known[-1]]), rnd.choice([s, t, known[-1]])
        return [b.test(after[0]) if checked else going, *after, k, iteration]

    name = model.function(f"loop_{model.name()}", params, write)
    trips = model.constant(np.array(rnd.randint(0, 4)))
    first = model.constant(np.array(0))
    cond = body.test(x) if checked or rnd.random() < 0.3 else None
    return body.loop(name, trips, cond, [x, y, x, first])[rnd.randint(0, 1)]


def programs(rnd, depth=2):
    """A random program of kernels, branches and loops, and its codes."""
    model = Model()
    params = (Var("x", VECTOR), Var("y", VECTOR))

    def write(body, x, y):
        known = grow(rnd, model, body, [x, y], depth)
        return [body.flip(known[-1]), rnd.choice(known)]

    options = Options(
        policy=rnd.choice(sorted(POLICIES)),
        threads=rnd.randint(1, 3),
        brick_tasks=rnd.choice([0, 1, 2]),
    )
    return model, model.program(params, write, Decisions(rammer=options))


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
    arrays = bound.outputs.fresh()
    arena = bound.take()
    arena.memory.fill(0x5A)
    arena.point([*(usable(inputs[name]) for name in executable.tasks.inputs), *arrays])
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


@settings(max_examples=45, deadline=None)
@given(st.integers(0, 2**32))
def test_a6_2_any_order_of_the_units_ends_without_a_race_and_with_the_same_numbers(seed):
    rnd = Random(seed)
    model, program = programs(rnd)
    on_device = rnd.random() < 0.9
    executable = Executable(program, model.codes, DEVICE, lowest if on_device else on_host)
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

    decisions = Decisions(rammer=Options(threads=2, brick_tasks=1))
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
