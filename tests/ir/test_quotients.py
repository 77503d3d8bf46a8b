"""A quotient by a number is the one that sympy makes, in a fifteenth of its time."""

from __future__ import annotations

import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from explorer.ir.shapes import dims
from explorer.ir.shapes.dims import (
    Dim,
    ShapeEnv,
    SymbolBound,
    evaluate_dim,
    floor_div,
    simplify,
    symbol,
)
from explorer.ops.arithmetic.dim_arithmetic import least

A, B = symbol("a"), symbol("b")
PARTS = (
    *(sympy.Integer(1), A, B, A * B, A**2),
    *(sympy.floor((A + 3) / 4), sympy.Max(A, B), sympy.Min(B, 7), sympy.Mod(A, 3)),
)
TERMS = st.tuples(st.integers(-70, 70), st.sampled_from(PARTS))
DIMS = st.lists(TERMS, min_size=1, max_size=4).map(
    lambda terms: simplify(sympy.Add(*(n * part for n, part in terms)))
)
NUMBERS = st.sampled_from((1, 2, 3, 4, 7, 8, 64))


@given(DIMS, NUMBERS)
def test_it_is_written_as_sympy_writes_it(a: Dim, b: int) -> None:
    found = floor_div(a, b)
    known = a // b if isinstance(a, int) else dims._divide_as_polynomials(a, b)
    assert found == known
    assert sympy.srepr(found) == sympy.srepr(known)


@given(DIMS, NUMBERS, st.integers(0, 50), st.integers(0, 50))
def test_it_is_the_quotient_at_every_binding(a: Dim, b: int, x: int, y: int) -> None:
    sizes = {"a": x, "b": y}
    assert evaluate_dim(floor_div(a, b), sizes) == evaluate_dim(a, sizes) // b


@given(DIMS, DIMS, DIMS, NUMBERS, st.integers(0, 50), st.integers(0, 50))
def test_bounds_of_sums_of_quotients_hold_at_every_binding(
    a: Dim, b: Dim, c: Dim, by: int, x: int, y: int
) -> None:
    env = ShapeEnv((SymbolBound("a", 0, 50), SymbolBound("b", 0, 50)))
    dim = simplify(floor_div(a, by) - floor_div(b, by) + c)
    low, high = env.bounds(dim)
    value = evaluate_dim(dim, {"a": x, "b": y})
    assert low <= value and (high is None or value <= high)


@pytest.mark.parametrize("by", [2, 3, 7])
def test_bounds_of_terms_that_depend_on_each_other_are_close(by: int) -> None:
    env = ShapeEnv((SymbolBound("a", 1),))
    assert env.bounds(simplify(floor_div(A, by) + 1 - floor_div(A + 1, by))) == (0, 1)
    assert env.bounds(simplify(A - by * floor_div(A, by))) == (0, by - 1)
    assert least(env, [floor_div(A + 1, by), floor_div(A, by) + 1]) == floor_div(A + 1, by)
