"""Loops and branches, on the device and on the host, against the interpreter."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer
from explorer.errors import BoundError
from explorer.grinder import ControlSchedules, lowest, on_host, task_tree
from explorer.grinder import Options as Grinder
from explorer.ir.calls import Var
from explorer.ir.decisions.decided import Decisions
from explorer.ir.types import Tensor
from explorer.ops.interpreter.evaluate import evaluate
from explorer.process.counters import counters
from explorer.rammer import Options
from explorer.runtime.executable import Executable
from tests.examples import examples
from tests.runtime.programs import DEVICE, Model, inputs_of, vector
from tests.runtime.test_executable import same

N = 16
VECTOR, COUNT, TRUTH = vector(N), Tensor((), "int64"), Tensor((), "bool")
LEVELS = [lowest, on_host, ControlSchedules(turn=2), ControlSchedules(turn=4)]
THREADS = [1, 2, 3]


def run(model, program, inputs, level, threads=2):
    laid, wanted = Options(threads=threads, brick_tasks=1), evaluate(program, inputs)
    for alone in ("one", "all") if threads > 1 else ("all",):
        decided = Decisions(rammer=laid, grinder=Grinder(alone=alone))
        program = type(program)(program.functions, program.constants, decisions=decided)
        executable = Executable(program, model.codes, DEVICE, level)
        for _ in range(3):
            same(executable.run(inputs), wanted)
    return executable, wanted


def params(model, *types):
    return tuple(model.var(t) for t in types)


def simple_loop(model, write, states=1, captured=0):
    """The name of a loop body `write(body, iteration, going, *states, *captured)`."""
    given = params(model, COUNT, TRUTH, *[VECTOR] * (states + captured))
    return model.function("body", given, write)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("trips", [0, 1, 2, 9])
def test_a_counted_loop(level, threads, trips):
    model = Model()
    body = simple_loop(model, lambda b, i, going, s: [going, b.flip(s)])
    x, trip = Var("x", VECTOR), Var("trip", COUNT)
    program = model.program((x, trip), lambda b, x, t: [b.loop(body, t, None, [x])])
    inputs = {"x": np.arange(N), "trip": np.array(trips)}
    run(model, program, inputs, level, threads)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("seed", range(4))
def test_a_loop_that_ends_when_its_data_say_so(level, threads, seed):
    model = Model()

    def write(b, i, going, s, k):
        after = b.mix(s, k)
        return [b.test(after), after]

    body = simple_loop(model, write, captured=1)
    x, k = Var("x", VECTOR), Var("k", VECTOR)
    program = model.program(
        (x, k), lambda b, x, k: [b.flip(b.loop(body, None, b.test(x), [x], [k])), k]
    )
    run(model, program, inputs_of(program, N, seed), level, threads)


@pytest.mark.parametrize("level", LEVELS)
def test_a_loop_with_a_limit_and_a_condition_stops_at_the_first(level):
    for trips in (0, 1, 3, 50):
        for seed in range(4):
            model = Model()

            def write(b, i, going, s):
                after = b.flip(s)
                return [b.test(after), after]

            body = simple_loop(model, write)
            x, trip = Var("x", VECTOR), Var("trip", COUNT)

            def main(b, x, t, body=body):
                return [b.loop(body, t, b.test(x), [x])]

            program = model.program((x, trip), main)
            inputs = {"x": np.arange(N) + seed, "trip": np.array(trips)}
            run(model, program, inputs, level)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("cond", [False, True])
def test_a_condition_that_the_body_leaves_alone_is_looked_at_once(level, cond):
    model = Model()
    body = simple_loop(model, lambda b, i, going, s: [going, b.flip(s)])
    x, p = Var("x", VECTOR), Var("p", TRUTH)
    trip = model.constant(np.array(3))
    program = model.program((x, p), lambda b, x, p: [b.loop(body, trip, p, [x])])
    run(model, program, {"x": np.arange(N), "p": np.array(cond)}, level)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("threads", THREADS)
def test_state_that_changes_places_and_state_that_stays(level, threads):
    model = Model()

    def write(b, i, going, s, t, u, v):
        return [going, t, s, u, b.view(t, (N,))]

    body = simple_loop(model, write, states=4)
    xs = tuple(Var(f"x{n}", VECTOR) for n in range(4))
    trip = model.constant(np.array(5))
    program = model.program(xs, lambda b, *xs: list(b.loop(body, trip, None, xs)))
    run(model, program, inputs_of(program, N), level, threads)


@pytest.mark.parametrize("level", LEVELS)
def test_the_body_sees_how_often_it_has_run(level):
    model = Model()
    one = Tensor((1,), "int64")
    given = params(model, COUNT, TRUTH, one)
    body = model.function("body", given, lambda b, i, going, s: [going, b.mix(s, b.view(i, (1,)))])
    x = Var("x", one)
    trip = model.constant(np.array(6))
    program = model.program((x,), lambda b, x: [b.loop(body, trip, None, [x])])
    run(model, program, {"x": np.array([11])}, level)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("threads", THREADS)
def test_a_loop_in_a_loop_with_values_from_all_around(level, threads):
    model = Model()
    inner = simple_loop(model, lambda b, i, go, s, k: [go, b.mix(s, k)], captured=1)
    two = model.constant(np.array(2))

    def write(b, i, going, s, t, k):
        mixed = b.mix(s, k)
        after = b.loop(inner, two, None, [mixed], [t])
        return [b.test(after), after, b.flip(mixed)]

    given = params(model, COUNT, TRUTH, VECTOR, VECTOR, VECTOR)
    outer = model.function("outer", given, write)
    xs = tuple(Var(f"x{n}", VECTOR) for n in range(2))
    trip = model.constant(np.array(7))

    def main(b, x, y):
        before = b.flip(y)
        s, t = b.loop(outer, trip, None, [x, y], [before])
        return [b.mix(s, before), t]

    program = model.program(xs, main)
    for seed in range(3):
        run(model, program, inputs_of(program, N, seed), level, threads)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("taken", [True, False])
def test_a_branch_takes_one_way(level, threads, taken):
    model = Model()
    k = model.constant(np.arange(N) * 3)
    then = model.function(
        "then", params(model, VECTOR, VECTOR), lambda b, x, y: [b.mix(x, y), x, y]
    )
    orelse = model.function(
        "else", params(model, VECTOR, VECTOR), lambda b, x, y: [b.flip(b.flip(x)), k, b.flip(x)]
    )
    p, x = Var("p", TRUTH), Var("x", VECTOR)

    def main(b, p, x):
        made = b.branch(p, then, orelse, [b.flip(x), x], VECTOR, VECTOR, VECTOR)
        return [b.mix(made[0], made[1]), made[2], made[0]]

    program = model.program((p, x), main)
    run(model, program, {"p": np.array(taken), "x": np.arange(N)}, level, threads)


@pytest.mark.parametrize("level", LEVELS)
def test_the_way_that_is_not_taken_writes_nothing(level):
    model = Model()
    one = model.function("one", params(model, VECTOR), lambda b, x: [b.flip(x)])
    other = model.function("other", params(model, VECTOR), lambda b, x: [x])
    p, x = Var("p", TRUTH), Var("x", VECTOR)
    program = model.program((p, x), lambda b, p, x: [b.branch(p, one, other, [x], VECTOR)])
    executable, _ = run(model, program, {"p": np.array(False), "x": np.arange(N)}, level)
    assert not executable.measured_wall({"p": np.array(False), "x": np.arange(N)}).bricks


@settings(max_examples=examples(40))
@given(st.integers(0, 5), st.sampled_from(LEVELS), st.integers(1, 3), st.integers(0, 20))
def test_a_branch_in_a_loop_goes_either_way_from_trip_to_trip(trips, level, threads, seed):
    model = Model()
    one = model.function("one", params(model, VECTOR, VECTOR), lambda b, x, k: [b.mix(x, k), x])
    other = model.function("other", params(model, VECTOR, VECTOR), lambda b, x, k: [b.flip(x), k])

    def write(b, i, going, s, k):
        first, second = b.branch(b.test(s), one, other, [s, k], VECTOR, VECTOR)
        return [going, b.mix(first, second)]

    body = simple_loop(model, write, captured=1)
    x, trip = Var("x", VECTOR), Var("trip", COUNT)
    program = model.program(
        (x, trip), lambda b, x, t: [b.flip(b.loop(body, t, None, [b.flip(x)], [x]))]
    )
    inputs = inputs_of(program, N, seed) | {"trip": np.array(trips)}
    run(model, program, inputs, level, threads)


def test_a_function_that_is_called_twice_has_values_of_its_own_each_time():
    model = Model()
    f = model.function("f", params(model, VECTOR), lambda b, x: [b.flip(b.mix(x, x)), x])
    x = Var("x", VECTOR)

    def main(b, x):
        a, same_x = b.call(f, [x], VECTOR, VECTOR)
        c, _ = b.call(f, [a], VECTOR, VECTOR)
        return [b.mix(a, c), same_x]

    program = model.program((x,), main)
    run(model, program, inputs_of(program, N), lowest)


@pytest.mark.few(1)
@pytest.mark.parametrize("depth", [31, 40])
def test_however_many_loops_are_open_each_has_a_count_of_its_own(depth):
    def nested(left, x):
        if not left:
            return x + 1.0
        limit = 2 if left in (1, depth) else 1
        step = lambda i, v: (i + 1, nested(left - 1, v))  # noqa: E731
        return explorer.while_loop(lambda i, v: i < limit, step, 0, x)[1]

    model = explorer.trace(lambda x: nested(depth, x))
    traced = model(x=explorer.tensor("float32", 3))
    found = explorer.compile(traced).run({"x": np.zeros(3, np.float32)})
    np.testing.assert_array_equal(found["output"], np.full(3, 4.0, np.float32))


def test_recursion_without_end_is_stopped_in_one_sentence():
    model = Model()
    f = model.function("f", params(model, VECTOR), lambda b, x: [b.call("f", [x], VECTOR)])
    x = Var("x", VECTOR)
    program = model.program((x,), lambda b, x: [b.call(f, [x], VECTOR)])
    with pytest.raises(BoundError, match="f is called more than"):
        Executable(program, model.codes, DEVICE).run({"x": np.arange(N)})


def with_library(trips):
    """A counted loop whose body calls a library."""
    model = Model()

    def write(b, i, going, s):
        return [going, b.flip(b.library("Identity", b.flip(s), type=VECTOR))]

    body = simple_loop(model, write)
    x = Var("x", VECTOR)
    trip = model.constant(np.array(trips))
    return model, model.program((x,), lambda b, x: [b.loop(body, trip, None, [b.flip(x)])])


def test_a_library_call_inside_keeps_a_loop_on_the_host():
    model, program = with_library(4)
    with counters.delta() as did:
        run(model, program, inputs_of(program, N), lowest)
    assert did.library_calls == 2 * 4 * 3  # three runs, asked for one unit, and for all
    (_, loop) = task_tree(program).parts
    assert loop.level == "host" and "onnx.Identity" in loop.reason


def test_a_loop_of_kernels_runs_on_the_device_in_one_launch():
    model = Model()
    body = simple_loop(model, lambda b, i, going, s: [going, b.flip(s)])
    x = Var("x", VECTOR)
    trip = model.constant(np.array(9))
    program = model.program((x,), lambda b, x: [b.flip(b.loop(body, trip, None, [b.flip(x)]))])
    with counters.delta() as did:
        executable, _ = run(model, program, inputs_of(program, N), lowest)
    assert did.host_reads == 0
    tree = task_tree(program)
    assert [t.kind for t in tree.parts] == ["operator", "loop", "operator"]
    assert tree.parts[1].level == "device" and tree.level == "device"
    wall = executable.measured_wall(inputs_of(program, N))
    inside = [b for b in wall.bricks if "/" in b.call]
    assert {b.iteration for b in inside} == set(range(9)) and not wall.cuts_us


def test_a_library_call_may_fail_and_the_next_run_works():
    model = Model()
    p, x = Var("p", TRUTH), Var("x", VECTOR)
    shape = Var("s", Tensor((1,), "int64"))

    def main(b, x, s):
        return [b.flip(b.library("Reshape", b.flip(x), s, type=VECTOR))]

    program = model.program((x, shape), main)
    executable = Executable(program, model.codes, DEVICE)
    good = {"x": np.arange(N), "s": np.array([N])}
    for _ in range(2):
        with pytest.raises(Exception, match="reshape"):
            executable.run({"x": np.arange(N), "s": np.array([N + 1])})
        same(executable.run(good), evaluate(program, good))
    assert p.name == "p"


def test_bricks_of_a_loop_on_the_host_count_its_trips_too():
    model, program = with_library(3)
    executable = Executable(program, model.codes, DEVICE)
    wall = executable.measured_wall(inputs_of(program, N))
    inside = [b.iteration for b in wall.bricks if "/" in b.call and b.first == 0]
    assert sorted(inside) == [0, 0, 1, 1, 2, 2]  # two kernels
    assert [(b.unit, b.iteration) for b in wall.host] == [(wall.units, n) for n in range(3)]
    assert any(g.cause == "library" for g in wall.gaps)
    assert places(wall) == places(executable.planned_wall({}))
    assert max(b.end_us for b in wall.bricks) <= wall.total_us and len(wall.cuts_us) == 6


def places(wall):
    """Which bricks there are, wherever they stand."""
    found = wall.everything
    return sorted((b.unit, b.call, b.first, b.last, b.iteration, b.program) for b in found)


def test_a_loop_is_planned_trip_by_trip_where_its_count_is_a_constant():
    model = Model()
    body = simple_loop(model, lambda b, i, going, s: [going, b.flip(b.flip(s))])
    x = Var("x", VECTOR)
    trip = model.constant(np.array(5))
    program = model.program((x,), lambda b, x: [b.flip(b.loop(body, trip, None, [b.flip(x)]))])
    executable = Executable(program, model.codes, DEVICE)
    planned, measured = executable.planned_wall({}), executable.measured_wall(inputs_of(program, N))
    assert places(planned) == places(measured)
    for wall in (planned, measured):
        busy = sum(b.end_us - b.start_us for b in wall.bricks)
        idle = sum(g.end_us - g.start_us for g in wall.gaps)
        assert busy + idle == pytest.approx(wall.units * wall.total_us, rel=1e-6)


def test_a_loop_that_an_input_counts_is_planned_with_one_trip_and_a_branch_with_its_longer_way():
    model = Model()
    one = model.function("one", params(model, VECTOR), lambda b, x: [b.flip(x)])
    two = model.function("two", params(model, VECTOR), lambda b, x: [b.flip(b.flip(x))])
    body = simple_loop(
        model, lambda b, i, going, s: [going, b.branch(b.test(s), one, two, [s], VECTOR)]
    )
    x = Var("x", VECTOR)
    t = Var("t", Tensor((), "int64"))
    program = model.program((x, t), lambda b, x, t: [b.flip(b.loop(body, t, None, [x]))])
    wall = Executable(program, model.codes, DEVICE).planned_wall({})
    assert len({b.call for b in wall.bricks}) == 1 + 2 + 1
    assert {b.program for b in wall.bricks} == {0, 2, 3}  # launch 1 is the shorter way
    assert all(0 <= b.start_us < b.end_us <= wall.total_us for b in wall.bricks)
