"""Quotients and compiled dims are those of sympy, which is loaded only where it is needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from explorer.ir import dims
from explorer.ir.compiled_dims import compile_dims
from explorer.ir.dims import (
    Dim,
    ShapeEnv,
    SymbolBound,
    evaluate_dim,
    floor_div,
    is_symbol,
    is_symbolic,
    simplify,
    symbol,
)
from explorer.ops.shape_rules import least

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


PROGRAM = """
import sys
import numpy as np
import explorer
import widgets

@explorer.trace
def model(x: explorer.tensor("float32", SIZE, 8)):
    return explorer.np.tanh(x) + 1.0

c = explorer.compile(model)
c.run({"x": np.zeros((2, 8), "float32")})
widgets.data(c, "stages")
sys.exit("sympy" in sys.modules)
"""


@pytest.mark.few(1)
@pytest.mark.parametrize(("size", "loads"), [(2, False), ("batch", True)])
def test_programs_of_numbers_do_not_load_sympy(
    tmp_path: Path, size: int | str, loads: bool
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.replace("SIZE", repr(size)))
    done = subprocess.run([sys.executable, program], capture_output=True, text=True)
    assert done.returncode == int(loads) and not done.stderr, done.stderr


def test_a_symbol_is_symbolic_and_a_sum_of_it_is_no_symbol() -> None:
    n = symbol("n")
    assert is_symbol(n) and is_symbolic(n)
    assert is_symbolic(n + 1) and not is_symbol(n + 1)
    assert not is_symbolic(1) and not is_symbol("n")


N, M = symbol("n"), symbol('m"]; x')
ATOMS = st.one_of(st.integers(-3, 40), st.sampled_from([N, M, N + 1, 2 * N]))


def grown(dims):
    two = st.tuples(dims, dims)
    return st.one_of(
        two.map(lambda p: p[0] + p[1]),
        two.map(lambda p: p[0] * p[1]),
        two.map(lambda p: sympy.Max(*p)),
        two.map(lambda p: sympy.Min(*p)),
        st.tuples(dims, st.integers(1, 7)).map(lambda p: floor_div(*p)),
        st.tuples(dims, st.integers(1, 7)).map(lambda p: sympy.Mod(*p)),
        st.tuples(dims, st.integers(0, 3)).map(lambda p: p[0] ** p[1]),
    )


COMPILED = st.recursive(ATOMS, grown, max_leaves=6).map(
    lambda d: simplify(d) if not isinstance(d, int) else d
)


@given(st.lists(COMPILED, max_size=5), st.integers(0, 1 << 40), st.integers(0, 97))
def test_compiled_dims_are_what_the_interpreter_of_dims_says(dims, n, m):
    sizes = {"n": n, M.name: m}
    assert compile_dims(dims)(sizes) == tuple(evaluate_dim(d, sizes) for d in dims)


def test_a_symbol_that_is_missing_is_named():
    with pytest.raises(KeyError, match="n"):
        compile_dims([2 * N])({})


def test_no_name_of_a_model_becomes_code():
    evil = symbol("__import__('os').abort()")
    assert compile_dims([evil + 1])({evil.name: 2}) == (3,)


def test_numbers_stay_numbers():
    assert compile_dims([])({}) == () and compile_dims([7])({}) == (7,)
