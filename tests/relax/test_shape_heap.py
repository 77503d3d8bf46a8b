"""The shape heap: slots, the instructions that fill and check them, and what they say of a wrong
value.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.errors import BoundError, DtypeError, ShapeError
from explorer.ir.calls import MatchCast, Var
from explorer.ir.dims import Dim, ShapeEnv, SymbolBound, evaluate_dim, floor_div, symbol
from explorer.ir.program import Binding, Function
from explorer.ir.types import Annotation, Object, ShapeType, Tensor, TupleType
from explorer.ops.interpreter.frame import CallFrame, trace_heap
from explorer.ops.interpreter.shape_heap import CheckPoint, heap_of

n, m, k = symbol("n"), symbol("m"), symbol("k")
ANY = ShapeEnv(tuple(SymbolBound(s, 0) for s in "nmk"))


def f32(*dims: Dim) -> Tensor:
    return Tensor(dims, "float32")


def of(*shape: int, dtype: str = "float32") -> Any:
    return np.zeros(shape, dtype)


def function(
    params: dict[str, Annotation], casts: dict[str, Annotation], result: Annotation | None = None
) -> Function:
    """A function whose match_casts are all of its last parameter."""
    given = tuple(Var(name, type) for name, type in params.items())
    body = tuple(Binding((Var(v, t),), MatchCast(given[-1])) for v, t in casts.items())
    last = body[-1].var if body else given[-1]
    return Function("f", given, body, (last if result is None else Var(last.name, result),))


def steps(point: CheckPoint) -> list[str]:
    return [f"{i.op.value} {i.dim}" for i in point.instructions]


PAPER = function({"x": f32(n, m), "y": Tensor(None, "float32", 3)}, {"z": f32(k, m, k + 1)})


def test_there_is_one_slot_for_each_distinct_extent() -> None:
    assert heap_of(PAPER, ANY).slots == (n, m, k, k + 1)
    twice = function({"x": f32(n + 1, n, n + 1), "y": f32(2, n)}, {})
    assert heap_of(twice, ANY).slots == (n + 1, n)


def test_a_match_cast_stores_asserts_and_checks_the_rest_in_a_second_round() -> None:
    heap = heap_of(PAPER, ShapeEnv())
    assert steps(heap.entry) == ["STORE n", "STORE m"]
    assert steps(heap.casts["z"]) == [
        "STORE k",
        "ASSERT_EQ_LOAD m",
        "NO_OP k + 1",
        "COMPUTE k + 1",
        "ASSERT_EQ_LOAD k + 1",
    ]
    assert steps(heap.leave) == ["ASSERT_EQ_LOAD k", "ASSERT_EQ_LOAD m", "ASSERT_EQ_LOAD k + 1"]


def test_a_number_is_compared_with_the_instruction_itself() -> None:
    assert steps(heap_of(function({"x": f32(3, n)}, {}), ShapeEnv()).entry) == [
        "ASSERT_EQ_IMM 3",
        "STORE n",
    ]


def test_a_symbol_with_a_bound_is_checked_where_it_is_defined() -> None:
    env = ShapeEnv((SymbolBound("n", 2, 8), SymbolBound("k", 1, 4)))
    frame = CallFrame.of(PAPER, env)
    with pytest.raises(BoundError, match=r"n is 9 and was bounded to 2 \.\. 8"):
        frame.enter([of(9, 3), of(2, 3, 3)])
    frame = CallFrame.of(PAPER, env)
    frame.enter([of(8, 3), of(5, 3, 6)])
    with pytest.raises(BoundError, match=r"k is 5 and was bounded to 1 \.\. 4"):
        frame.cast("z", of(5, 3, 6))


def test_a_heap_is_made_once_for_a_function() -> None:
    assert heap_of(PAPER, ANY) is heap_of(PAPER, ANY)
    assert heap_of(PAPER, ANY, {"n"}) is not heap_of(PAPER, ANY)


# What is wrong, and what is said of it.

WRONG: list[tuple[type[Exception], str, list[Any]]] = [
    (
        DtypeError,
        "the parameter 'x' of 'f' must be float32 and is int32",
        [of(2, 3, dtype="int32")],
    ),
    (DtypeError, "the parameter 'x' of 'f' must be float32 and is a list", [[1.0]]),
    (ShapeError, r"'x' of 'f' must have shape \[n, m\] and has \[2\]", [of(2)]),
    (ShapeError, r"'y' of 'f' must have 3 dims and has \[2, 3\]", [of(2, 3), of(2, 3)]),
]


@pytest.mark.parametrize(("kind", "words", "values"), WRONG, ids=[w[1][:40] for w in WRONG])
def test_a_wrong_argument_is_named(kind: type[Exception], words: str, values: list[Any]) -> None:
    with pytest.raises(kind, match=words):
        CallFrame.of(PAPER, ANY).enter([*values, of(2, 3, 3)][:2])


CASTS: list[tuple[str, Any]] = [
    ("dim 1 of the match_cast 'z' must be m = 3 and is 4", of(2, 4, 3)),
    (r"dim 2 of the match_cast 'z' must be k \+ 1 = 4 and is 5", of(3, 3, 5)),
    (r"the match_cast 'z' must have shape \[k, m, k \+ 1\] and has \[3\]", of(3)),
]


@pytest.mark.parametrize(("words", "value"), CASTS, ids=[c[0][:30] for c in CASTS])
def test_a_match_cast_that_fails_is_named(words: str, value: Any) -> None:
    frame = CallFrame.of(PAPER, ANY)
    frame.enter([of(2, 3), of(2, 3, 3)])
    with pytest.raises(ShapeError, match=words):
        frame.cast("z", value)


def test_a_result_that_is_not_what_was_declared_is_named() -> None:
    f = function({"x": f32(n, m), "y": Object()}, {}, f32(m, n))
    for value, words in [
        (of(1, 2), "dim 0 of the result 'y' of 'f' must be m = 2 and is 1"),
        (of(2, 1, 1), r"the result 'y' of 'f' must have shape \[m, n\] and has \[2, 1, 1\]"),
    ]:
        frame = CallFrame.of(f, ANY)
        frame.enter([of(1, 2), value])
        with pytest.raises(ShapeError, match=words):
            frame.leave([value])
    frame.leave([of(2, 1)])


def test_two_parameters_that_share_a_symbol_must_agree() -> None:
    f = function({"x": f32(n), "y": f32(n, 2)}, {})
    with pytest.raises(
        ShapeError, match="dim 0 of the parameter 'y' of 'f' must be n = 3 and is 4"
    ):
        CallFrame.of(f, ANY).enter([of(3), of(4, 2)])


def test_a_division_by_zero_is_named() -> None:
    f = function({"x": f32(n), "y": f32(m, floor_div(n, m))}, {})
    with pytest.raises(ShapeError, match=r"entry of 'f': one of floor\(n, m\) divides by zero"):
        CallFrame.of(f, ANY).enter([of(3), of(0, 4)])


# Symbols.


def test_an_expression_that_stands_before_its_symbol_is_checked_in_the_second_round() -> None:
    f = function({"x": f32(n + 1), "y": f32(n)}, {})
    frame = CallFrame.of(f, ANY)
    frame.enter([of(4), of(3)])
    assert frame.sizes == {"n": 3}
    with pytest.raises(ShapeError, match=r"dim 0 .* 'x' of 'f' must be n \+ 1 = 4 and is 5"):
        CallFrame.of(f, ANY).enter([of(5), of(3)])


def test_what_no_parameter_determines_is_judged_where_a_match_cast_does() -> None:
    f = function({"x": f32(n + 1), "y": f32(n + 1)}, {"z": f32(n)})
    frame = CallFrame.of(f, ANY)
    frame.enter([of(4), of(4)])
    assert frame.sizes == {}
    with pytest.raises(ShapeError, match=r"dim 0 .* 'x' of 'f' must be n \+ 1 = 6 and is 4"):
        frame.cast("z", of(5))
    with pytest.raises(ShapeError, match=r"dim 0 .* 'y' of 'f' must be n \+ 1 = 4 and is 5"):
        CallFrame.of(f, ANY).enter([of(4), of(5)])


def test_a_body_checks_the_symbols_of_its_caller_and_defines_its_own() -> None:
    body = function({"x": f32(n, k)}, {})
    frame = CallFrame.of(body, ANY, {"n": 3, "other": 9})
    frame.enter([of(3, 5)])
    assert frame.sizes == {"n": 3, "other": 9, "k": 5}
    with pytest.raises(ShapeError, match="must be n = 3 and is 4"):
        CallFrame.of(body, ANY, {"n": 3}).enter([of(4, 5)])


def test_an_expression_over_the_callers_symbols_is_computed_on_entry() -> None:
    body = function({"x": f32(n + m, k)}, {})
    CallFrame.of(body, ANY, {"n": 3, "m": 2}).enter([of(5, 1)])
    with pytest.raises(ShapeError, match=r"must be m \+ n = 5 and is 6"):
        CallFrame.of(body, ANY, {"n": 3, "m": 2}).enter([of(6, 1)])


def test_the_elements_of_a_tensor_are_the_dims_of_a_shape() -> None:
    f = function({"x": Tensor(None, "int64")}, {"z": ShapeType((n, m, n * m))})
    for value in (np.array([2, 3, 6]), np.array([[2], [3], [6]]), (2, 3, 6)):
        frame = CallFrame.of(f, ANY)
        found = frame.cast("z", value)
        assert frame.sizes == {"n": 2, "m": 3}
        assert found.tolist() == [2, 3, 6]
        assert found.dtype == np.int64
    with pytest.raises(ShapeError, match=r"dim 2 of the match_cast 'z' must be m\*n = 6 and is 7"):
        CallFrame.of(f, ANY).cast("z", np.array([2, 3, 7]))
    with pytest.raises(ShapeError, match=r"'z' must have shape \[n, m, m\*n\] and has \[2\]"):
        CallFrame.of(f, ANY).cast("z", np.array([2]))
    with pytest.raises(DtypeError, match="'z' must be a shape or an integer tensor and is float64"):
        CallFrame.of(f, ANY).cast("z", np.array([2.0, 3, 6]))


def test_tuples_are_checked_item_by_item() -> None:
    f = function({"x": TupleType((f32(n), TupleType((f32(n + 1), Object()))))}, {})
    frame = CallFrame.of(f, ANY)
    frame.enter([(of(2), (of(3), None))])
    assert frame.sizes == {"n": 2}
    with pytest.raises(ShapeError, match=r"dim 0 .*'x' at 1 at 0 of 'f' must be n \+ 1 = 3"):
        CallFrame.of(f, ANY).enter([(of(2), (of(9), None))])


@given(st.integers(0, 9), st.integers(0, 9), st.integers(-1, 1))
def test_what_the_heap_holds_is_what_the_dims_are(a: int, b: int, off: int) -> None:
    dims = (n * m + 1, floor_div(n + 3, 2), n**2 - n * 1, 4)
    f = function({"x": f32(*dims), "y": f32(n, m)}, {})
    sizes = {"n": a, "m": b}
    shape = [evaluate_dim(d, sizes) for d in dims]
    shape[a % 4] += off
    frame = CallFrame.of(f, ANY)
    if off and shape[a % 4] >= 0:
        with pytest.raises(ShapeError, match=f"dim {a % 4} of the parameter 'x'"):
            frame.enter([of(*shape), of(a, b)])
    elif not off:
        frame.enter([of(*shape), of(a, b)])
        assert frame.sizes == sizes
        assert [evaluate_dim(d, sizes) for d in frame.heap.slots] == frame.slots


# Pictures.


def test_a_trace_shows_each_slot_as_it_is_filled() -> None:
    found = trace_heap(heap_of(PAPER, ANY), {"x": (2, 3), "y": (5, 3, 6), "z": (5, 3, 6)})
    assert all(s.ok for s in found)
    cast = [(s.text.split(" <- ")[0], s.slot, s.value) for s in found if "match_cast" in s.point]
    assert cast == [
        ("CHECK the match_cast 'z': float32[k, m, k + 1]", None, None),
        ("STORE k", 2, 5),
        ("ASSERT_EQ_LOAD m", 1, 3),
        ("NO_OP k + 1", 3, None),
        ("COMPUTE k + 1", 3, 6),
        ("ASSERT_EQ_LOAD k + 1", 3, 6),
        ("BOUND 0 <= k <= any", 2, 5),
    ]


def test_a_trace_ends_at_the_first_failure_and_shows_it() -> None:
    found = trace_heap(heap_of(PAPER, ANY), {"x": (2, 3), "y": (3, 3, 5), "z": (3, 3, 5)})
    assert [s.ok for s in found[:-1]] == [True] * (len(found) - 1)
    assert found[-1].slot == 3
    assert found[-1].value == 4
    assert found[-1].message == "dim 2 of the match_cast 'z' must be k + 1 = 4 and is 5"


def test_a_trace_ends_where_a_shape_is_not_given() -> None:
    assert {s.point for s in trace_heap(heap_of(PAPER, ANY), {"x": (2, 3), "y": (5, 3, 6)})} == {
        "entry of 'f'"
    }
    wrong = trace_heap(heap_of(PAPER, ANY), {"x": of(2, 3, dtype="int32"), "y": (5, 3, 6)})
    assert [s.ok for s in wrong] == [False]
    given = trace_heap(heap_of(PAPER, ANY, {"n"}), {"x": (2, 3), "y": (5, 3, 6)}, {"n": 7})
    assert (given[0].text, given[0].value) == ("GIVEN n", 7)
    assert given[-1].message == "dim 0 of the parameter 'x' of 'f' must be n = 7 and is 2"
