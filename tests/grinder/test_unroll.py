"""Turns of several trips: what they make, which trips they do, and which loops make none."""

from dataclasses import replace

import numpy as np
import pytest

from explorer.grinder import ControlSchedules, LoopTask, Straight, on_host, uprogram
from explorer.grinder import Options as Grinder
from explorer.ir.calls import KernelCall, Var
from explorer.ir.decisions.decided import Decisions
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.types import Tensor
from explorer.ops.interpreter.evaluate import evaluate
from explorer.rammer import Options
from explorer.runtime.executable import Executable
from tests.runtime.programs import DEVICE, Model, inputs_of, kernel_of, vector
from tests.runtime.test_executable import same

N = 8
VECTOR, COUNT, TRUTH = vector(N), Tensor((), "int64"), Tensor((), "bool")
TABLE = Tensor((9, N), "int64")


def flips(b, i, going, s):
    return [going, b.flip(s)]


def looped(write=flips, trips=None, states=(VECTOR,), cond=False):
    """A loop whose length is a number, or else an input."""
    model = Model()
    body = model.function("body", tuple(map(model.var, (COUNT, TRUTH, *states))), write)
    given = tuple(Var(f"x{n}", t) for n, t in enumerate(states))
    limit = Var("trip", COUNT) if trips is None else model.constant(np.array(trips))

    def main(b, *given):
        found = b.loop(body, limit, b.test(given[0]) if cond else None, given[: len(states)])
        return [found] if isinstance(found, Var) else list(found)

    return model, model.program((*given, limit) if trips is None else given, main)


def loops(program, turn):
    return [
        p for p in uprogram(program, ControlSchedules(turn=turn)).parts if isinstance(p, LoopTask)
    ]


def operators(loop):
    return [o for part in loop.body if isinstance(part, Straight) for o in part.operators]


@pytest.mark.parametrize("trips", [0, 1, 2, 3, 7, 8, 9, None])
@pytest.mark.parametrize("turn", [2, 3, 8])
def test_turns_and_what_is_left_make_all_trips_and_no_more(trips, turn):
    _, program = looped(trips=trips)
    found = loops(program, turn)
    turned = [loop.turn for loop in found]
    if trips is None:
        assert turned == [turn, 1] and [loop.remainder_of for loop in found] == [0, turn]
        return
    first = min(turn, max(1, trips))
    assert turned[0] == first and [len(operators(loop)) for loop in found] == turned
    done = trips // first * first + (trips % first if found[1:] else 0)
    assert done == trips and (len(found) == 2) == bool(trips % first)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("turn", [2, 3, 8])
def test_every_length_that_an_input_gives_is_made(turn, threads):
    def write(b, i, going, s, t, one):
        counted = b.mix(one, b.view(i, (1,)))
        return [going, b.mix(t, s), b.flip(s), counted]

    states = (VECTOR, VECTOR, vector(1))
    model, program = looped(write, None, states)
    decided = Decisions(
        rammer=Options(threads=threads, brick_tasks=1), grinder=Grinder(alone="all")
    )
    program = replace(program, decisions=decided)
    executable = Executable(program, model.codes, DEVICE, ControlSchedules(turn=turn))
    for trips in (-1, 0, 1, 2, 3, 4, 7, 8, 9, 17):
        given = inputs_of(program, N, trips + 1) | {"trip": np.array(trips)}
        same(executable.run(given), evaluate(program, given))


def test_states_that_change_places_are_not_staged_in_turns_of_two():
    _, program = looped(lambda b, i, g, s, t: [g, t, b.flip(s)], 4, (VECTOR, VECTOR))
    staged = [[c.staging != "" for c in loops(program, turn)[0].carried] for turn in (1, 2)]
    assert staged == [[True, False], [False, False]]


def test_trips_that_need_nothing_of_each_other_are_one_wave():
    def write(b, i, going, s, one):
        return [going, b.flip(s), b.mix(one, b.view(i, (1,)))]

    def programs(turn):
        model, program = looped(write, 8, (VECTOR, vector(1)))
        found = Executable(program, model.codes, DEVICE, ControlSchedules(turn=turn)).plan({})
        return sum(len(s.placement.programs) for s in found.schedules.values())

    assert programs(4) <= 4 * programs(1)


REFUSED = {
    "its data end it": lambda b, i, g, s: [b.test(s), b.flip(s)],
    "it computes nothing": lambda b, i, g, s: [g, s],
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_loop_that_keeps_its_guard_makes_one_trip_a_turn(what):
    _, program = looped(REFUSED[what], 9)
    (loop,) = loops(program, 4)
    assert loop.turn == 1 and not loop.remainder_of


def test_a_loop_on_the_host_makes_one_trip_a_turn():
    _, program = looped(trips=9)
    (loop,) = uprogram(program, ControlSchedules(on_host, 4)).parts
    assert loop.turn == 1


@pytest.mark.parametrize("in_place", [True, False])
def test_a_state_that_is_written_over_is_gone_on_with_in_place_or_makes_one_trip(in_place):
    def write(b, i, going, s):
        kernel = replace(kernel_of("flip", N, (s,)), updates=(("out", "a"),))
        over = b.bind(KernelCall(kernel, (s,), Tiling()), VECTOR)
        return [going, over if in_place else b.flip(over)]

    _, program = looped(write, 9)
    loop, *left = loops(program, 4)
    assert (loop.turn, len(left)) == ((4, 1) if in_place else (1, 0))
    roots = {
        uprogram(program, ControlSchedules(turn=4)).values[o.results[0]].root
        for o in operators(loop)
    }
    assert (roots == {loop.carried[0].param}) == in_place


def test_of_loops_in_loops_the_innermost_are_unrolled():
    model = Model()
    given = tuple(map(model.var, (COUNT, TRUTH, VECTOR)))
    inner = model.function("inner", given, flips)
    five = model.constant(np.array(5))
    outer = model.function(
        "outer",
        tuple(map(model.var, (COUNT, TRUTH, VECTOR))),
        lambda b, i, g, s: [g, b.loop(inner, five, None, [s])],
    )
    program = model.program(
        (Var("x", VECTOR),), lambda b, x: [b.loop(outer, five, None, [b.flip(x)])]
    )
    (loop,) = loops(program, 2)
    assert loop.turn == 1
    assert [part.turn for part in loop.body] == [2, 1]


@pytest.mark.parametrize("trips", [3, 4, 9])
def test_rows_of_every_trip_of_a_turn_are_read_and_written_where_they_lie(trips):
    model = Model()
    params = tuple(map(model.var, (COUNT, TRUTH, VECTOR, TABLE)))

    def write(b, i, going, s, table):
        made = b.mix(s, b.row(table, i))
        return [going, made, b.flip(made)]

    body = model.function("body", params, write)
    limit = model.constant(np.array(trips))
    program = model.program(
        (Var("x", VECTOR), Var("table", TABLE)),
        lambda b, x, table: list(b.loop(body, limit, None, [x], [table], trips)),
    )
    found = uprogram(program, ControlSchedules(turn=3))
    for loop in found.parts:
        assert [o.call.kernel.name for o in operators(loop)] == ["mix", "flip"] * loop.turn
        for n, stacked in enumerate(loop.stacked):
            place = found.values[stacked.value]
            assert place.is_at(found.values[stacked.row])
            assert (place.offset, place.moves) == (n * N, ((loop.name, N),))
    executable = Executable(program, model.codes, DEVICE, ControlSchedules(turn=3))
    inputs = inputs_of(program, N)
    same(executable.run(inputs), evaluate(program, inputs))
