"""Rows that move with a loop: which are read and written where they lie, and which are copied."""

import numpy as np
import pytest

from explorer.grinder import LoopTask, on_host, uprogram
from explorer.ir.calls import Var
from explorer.ir.types import Tensor
from tests.runtime.programs import Model, vector

N = 8
VECTOR, COUNT, TRUTH = vector(N), Tensor((), "int64"), Tensor((), "bool")
TABLE = Tensor((5, N), "int64")


def loop_of(write, trips, states=(VECTOR,), level=None):
    """A loop over a table, whose body is `write(body, i, going, *states, table)`; all values."""
    model = Model()
    params = tuple(map(model.var, (COUNT, TRUTH, *states, TABLE)))
    name = model.function("body", params, write)
    given = tuple(Var(f"x{n}", t) for n, t in enumerate((*states, TABLE)))
    limit = model.constant(np.array(trips))

    def main(b, *given):
        found = b.loop(name, limit, None, given[:-1], given[-1:], trips)
        return [found] if isinstance(found, Var) else list(found)

    program = model.program(given, main)
    found = uprogram(program) if level is None else uprogram(program, level)
    (loop,) = found.parts
    assert isinstance(loop, LoopTask)
    return loop, found.values


def kernels(loop):
    return [o.call.kernel.name for part in loop.body for o in part.operators]


def mixed(b, i, going, s, table):
    return [going, b.mix(s, b.row(table, i))]


@pytest.mark.parametrize("trips", [0, 1, 5])
def test_a_row_of_what_a_loop_does_not_change_is_read_where_it_lies(trips):
    loop, values = loop_of(mixed, trips)
    assert kernels(loop) == ["mix"]
    read = values[loop.body[0].operators[0].args[1]]
    assert (read.root, read.offset, read.moves) == ("x1", 0, ((loop.name, N),))


def test_more_trips_than_rows_leave_the_copy_which_stays_inside():
    assert kernels(loop_of(mixed, 6)[0]) == ["row", "mix"]


def test_the_host_follows_no_pointer():
    loop, values = loop_of(mixed, 3, level=on_host)
    assert kernels(loop) == ["row", "mix"] and not any(v.moves for v in values.values())


def test_a_row_of_a_state_is_copied_before_the_state_goes_on():
    def rows(b, i, going, t, table):
        return [going, b.view(b.flip(t), TABLE.dims), b.row(t, i)]

    loop, _ = loop_of(rows, 3, (TABLE,))
    assert "row" in kernels(loop)


def test_what_the_body_makes_is_written_into_its_row():
    loop, values = loop_of(lambda b, i, g, s, table: [g, b.flip(s), b.flip(b.flip(s))], 4)
    (stacked,) = loop.stacked
    assert values[stacked.value].is_at(values[stacked.row])
    assert values[stacked.row].moves == ((loop.name, N),)


@pytest.mark.parametrize("what", ["state", "count", "around", "part"])
def test_what_the_body_does_not_make_whole_is_copied_into_its_row(what):
    def write(b, i, going, s, table):
        made = b.flip(s)
        half = b.view(made, (N // 2,), N // 2)
        row = {"state": s, "count": i, "around": table, "part": half}[what]
        return [going, made, row]

    loop, values = loop_of(write, 4)
    (stacked,) = loop.stacked
    assert not values[stacked.value].is_at(values[stacked.row])


def test_one_value_lies_in_one_of_two_results():
    def write(b, i, going, s, table):
        made = b.flip(s)
        return [going, made, made, b.view(made, (N,))]

    loop, values = loop_of(write, 4)
    there = [values[s.value].is_at(values[s.row]) for s in loop.stacked]
    assert there == [True, False]


def test_rows_of_a_loop_in_a_loop_move_with_both():
    model = Model()
    inner = model.function(
        "inner",
        tuple(map(model.var, (COUNT, TRUTH, VECTOR))),
        lambda b, i, g, s: [g, b.flip(s), b.flip(b.flip(s))],
    )
    three, two = model.constant(np.array(3)), model.constant(np.array(2))

    def write(b, i, going, s):
        after, rows = b.loop(inner, three, None, [s], trips=3)
        return [going, after, rows]

    outer = model.function("outer", tuple(map(model.var, (COUNT, TRUTH, VECTOR))), write)
    x = Var("x", VECTOR)
    program = model.program((x,), lambda b, x: list(b.loop(outer, two, None, [x], trips=2)))
    found = uprogram(program)
    (loop,) = found.parts
    (part,) = loop.body
    operators = [o for p in part.body for o in p.operators]
    made = found.values[operators[-1].results[0]]
    assert made.root == found.outputs[1]
    assert made.moves == ((loop.name, 3 * N), (part.name, N))
