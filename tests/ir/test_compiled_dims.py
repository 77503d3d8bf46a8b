"""Compiled dims count as `evaluate_dim` does, in any binding."""

import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from explorer.ir.shapes.compiled_dims import compile_dims
from explorer.ir.shapes.dims import evaluate_dim, floor_div, simplify, symbol

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


DIMS = st.recursive(ATOMS, grown, max_leaves=6).map(
    lambda d: simplify(d) if not isinstance(d, int) else d
)


@given(st.lists(DIMS, max_size=5), st.integers(0, 1 << 40), st.integers(0, 97))
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
