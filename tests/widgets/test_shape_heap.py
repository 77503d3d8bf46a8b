"""The shape heap as rows: slots, what fills them, and what a wrong input comes to."""

from dataclasses import replace

import numpy as np
import pytest

from explorer.errors import IronworksError
from explorer.ir.calls import MatchCast, Var
from explorer.ir.dims import Dim, ShapeEnv, SymbolBound, symbol
from explorer.ir.program import Binding, Function, Program
from explorer.ir.types import Annotation, Object, Tensor, TupleType
from explorer.ops.interpreter.frame import bind_sizes
from tests.widgets.drawn_geometry import ALL_SIZES, SIZES, problems
from widgets.relax import shape_heap
from widgets.relax.shape_heap import HeapRows

n, m, k = symbol("n"), symbol("m"), symbol("k")
ENV = ShapeEnv((SymbolBound("n", 1, 64, 2), SymbolBound("m", 0), SymbolBound("k", 0, None, 5)))


def f32(*dims: Dim) -> Tensor:
    return Tensor(dims, "float32")


def program(*params: Annotation, cast: Annotation | None = None) -> Program:
    given = tuple(Var(f"x{i}", p) for i, p in enumerate(params))
    body = (Binding((Var("z", cast),), MatchCast(given[-1])),) if cast else ()
    out = body[-1].var if body else given[-1]
    return Program((Function("main", given, body, (out,)),), env=ENV)


PAPER = program(f32(n, m), Tensor(None, "float32", 3), cast=f32(k, m, k + 1))


def wrong(rows: HeapRows) -> dict[str, tuple[str, str]]:
    return {w.what: (w.step.op, w.step.wrong) for w in rows.wrong}


def test_slots_say_their_value_and_what_filled_them() -> None:
    rows = shape_heap.data(PAPER, {"n": 3, "m": 7})
    assert [(s.text, s.value, s.filled, s.assumed) for s in rows.slots] == [
        ("n", 3, "STORE at entry of 'main'", False),
        ("m", 7, "STORE at entry of 'main'", False),
        ("k", 5, "STORE at match_cast 'z'", True),
        ("k + 1", 6, "COMPUTE at match_cast 'z'", True),
    ]


def test_instructions_stand_in_the_order_of_the_run() -> None:
    rows = shape_heap.data(PAPER, {"n": 3, "m": 7})
    points = list(dict.fromkeys(s.point for s in rows.steps))
    assert points == ["entry of 'main'", "match_cast 'z'", "return of 'main'"]
    cast = [s.op for s in rows.steps if s.point == "match_cast 'z'"]
    assert cast[1:6] == ["STORE", "ASSERT_EQ_LOAD", "NO_OP", "COMPUTE", "ASSERT_EQ_LOAD"]
    assert not any(s.wrong for s in rows.steps)


def test_each_kind_of_wrong_input_names_what_fails() -> None:
    rows = shape_heap.data(program(f32(n, 4), f32(n, n + 1)), {"n": 3})
    found = wrong(rows)
    assert found["an input, one longer in an extent that is a number"] == (
        "ASSERT_EQ_IMM",
        "dim 1 of the input 'x0' must be 4 and is 5",
    )
    op, said = found["an input, one longer in an extent that is known from another extent"]
    assert op == "ASSERT_EQ_LOAD" and "x1" in said
    assert found["a symbol above its bound"][0] == "BOUND"
    assert found["a symbol below its bound"][0] == "BOUND"
    assert "int32" in found["an input of another dtype"][1]
    assert "[3, 4, 1]" in found["an input with one dim more"][1]


def test_the_sentence_is_the_one_that_a_run_gives() -> None:
    made = program(f32(n, 4), f32(n, 2))
    rows = shape_heap.data(made, {"n": 3})
    said = "".join(w.step.wrong for w in rows.wrong if "known from another" in w.what)
    try:
        bind_sizes(made, {"x0": np.zeros((3, 4), "f4"), "x1": np.zeros((4, 2), "f4")})
    except IronworksError as error:
        assert said == error.sentence
    else:
        raise AssertionError("the run took it")


def test_a_wrong_value_of_the_run_fails_at_its_match_cast() -> None:
    (found,) = (w for w in shape_heap.data(PAPER, {"n": 3, "m": 7}).wrong if "run found" in w.what)
    assert found.step.point == "match_cast 'z'" and found.step.slot == 1
    assert dict(found.filled) == {0: 3, 1: 7, 2: 5}


def test_the_failing_slot_is_crossed_and_in_the_colour_of_faults() -> None:
    rows = shape_heap.data(program(f32(n), f32(n)), {"n": 3})
    body = shape_heap.figure(rows, SIZES[0]).body
    crossed = {(w.step.op, w.step.text) for w in rows.wrong if w.step.slot is not None}
    assert body.count('data-wrong="slot"') == len(crossed) > 0
    assert body.count("var(--bad)") >= 2 * len(rows.wrong)


def test_a_function_without_symbols_and_one_without_tensors_have_a_picture() -> None:
    plain = shape_heap.data(program(f32(2, 3)), {})
    assert not plain.slots and len(plain.wrong) == 3
    plain_figure = shape_heap.figure(plain, SIZES[0])
    assert "every extent that is checked is a number" in plain_figure.body
    odd = shape_heap.data(program(TupleType((f32(n), f32(n))), Object()), {"n": 0})
    assert [s.value for s in odd.slots] == [0]
    assert [w.what for w in odd.wrong] == ["a symbol above its bound", "a symbol below its bound"]


@pytest.mark.parametrize("size", ALL_SIZES)
@pytest.mark.parametrize("inputs", [1, 3, 12])
def test_a_heap_can_be_read_however_large_it_is(size: tuple[int, int], inputs: int) -> None:
    many = [f32(symbol(f"a_long_extent_{i}"), symbol(f"b{i}") + 1) for i in range(inputs)]
    bounds = tuple(
        SymbolBound(str(d), 1, 64, 2)
        for i in range(inputs)
        for d in (symbol(f"a_long_extent_{i}"), symbol(f"b{i}"))
    )
    rows = shape_heap.data(replace(program(*many), env=ShapeEnv(bounds)), {})
    figure = shape_heap.figure(rows, size)
    assert len(rows.slots) > inputs and problems(figure) == []
    writes = figure.body.count('data-k="write')
    assert writes - 1 == sum(s.op in shape_heap.FILLS for s in rows.steps) or "more" in figure.body
