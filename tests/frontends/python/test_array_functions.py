"""Every function of `explorer.np` gives what NumPy gives, recorded and compiled."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import explorer
import explorer.np as enp
from explorer import np as xp
from explorer.errors import IronworksError
from explorer.ir.text.program_text import parse_program, print_program
from tests.frontends.python.array_functions import (
    ELEMENTWISE,
    INPUTS,
    LINALG,
    REDUCTIONS,
    SHAPES,
    SIZES,
    Case,
    arrays,
)

ALL = {**ELEMENTWISE, **REDUCTIONS, **SHAPES, **LINALG}
FAMILIES = {
    "elementwise": ELEMENTWISE,
    "reductions": REDUCTIONS,
    "shapes": SHAPES,
    "linalg": LINALG,
}


def on_numpy(case: Case, inputs: Mapping[str, np.ndarray]) -> Any:
    """What the text means on arrays."""
    with np.errstate(all="ignore"):
        return case(**inputs)


def check(found: np.ndarray, wanted: Any, what: str) -> None:
    assert found.dtype == np.asarray(wanted).dtype, what
    assert found.shape == np.shape(wanted), what
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5, err_msg=what)


@pytest.mark.parametrize("name", ALL)
def test_what_is_recorded_means_what_numpy_means(name: str) -> None:
    model = explorer.load(explorer.trace(ALL[name]), inputs=INPUTS)
    for n, m in SIZES:
        inputs = arrays(n, m)
        found = explorer.evaluate(model.program, inputs)["output"]
        check(found, on_numpy(ALL[name], inputs), f"{name} at {n} x {m}")


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_one_compilation_serves_every_size(family: str) -> None:
    cases = FAMILIES[family]
    model = explorer.trace(lambda x, y, v, k, b: {n: f(x, y, v, k, b) for n, f in cases.items()})
    compiled = explorer.compile(explorer.load(model, inputs=INPUTS))
    kernels = explorer.counters.kernel_compiles
    for n, m in (*SIZES, (1, 6), (5, 1)):
        inputs = arrays(n, m)
        found = compiled.run(inputs)
        for name, case in cases.items():
            check(found[name], on_numpy(case, inputs), f"{name} at {n} x {m}")
    assert explorer.counters.kernel_compiles == kernels


def test_the_texts_hold_every_name_of_the_module() -> None:
    written = " ".join(" ".join(case.__code__.co_names) for case in ALL.values()).split()
    operators = {
        "add", "subtract", "multiply", "divide", "true_divide", "floor_divide", "remainder", "mod",
        "power", "negative", "positive", "absolute", "equal", "not_equal", "less", "less_equal",
        "greater", "greater_equal", "bitwise_and", "bitwise_or", "bitwise_xor", "invert",
        "bitwise_not", "matrix_transpose", "copy", "identity", "atan", "acos", "asin", "acosh",
        "asinh", "atanh", "amax", "amin", "triu", "array", "concat", "permute_dims", "getitem",
        "setitem", "shape", "size", "ndim", "tan", "bitwise_left_shift", "bitwise_right_shift",
        "bitwise_invert",
    }  # fmt: skip
    elsewhere = {"nonzero", "flatnonzero", "argwhere", "unique", "compress", "array_split"}
    elsewhere |= {"unique_all", "unique_counts", "unique_inverse", "unique_values", "unstack"}
    values = {n for n in xp.__all__ if not callable(getattr(xp, n)) or hasattr(np.dtype, n)}
    dtypes = {n for n in xp.__all__ if isinstance(getattr(xp, n), type)}
    missing = set(xp.__all__) - set(written) - operators - elsewhere - values - dtypes
    assert not missing
    assert not set(xp.linalg.__all__) - set(written)


# Odd values and sizes.


def of_one(function: Case, x: np.ndarray, bounds: Any = None) -> np.ndarray:
    """A function of one array, recorded."""
    dims = [f"d{i}" for i in range(x.ndim)]
    model = explorer.load(
        explorer.trace(function),
        bounds={d: (0, None) for d in dims} if bounds is None else bounds,
        inputs={"x": explorer.tensor(x.dtype, *dims)},
    )
    return explorer.evaluate(model.program, {"x": x})["output"]


ODD = np.array([math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-30, 3e38, -1.5], np.float32)
ODD_CASES: dict[str, Case] = {
    name: ELEMENTWISE[name]
    for name in ("hypot", "floor_divide", "expm1", "log1p", "isfinite", "trunc", "sign", "rint")
}


@pytest.mark.parametrize("name", ODD_CASES)
def test_odd_values_mean_what_they_mean_in_numpy(name: str) -> None:
    x, y = (a.astype(np.float32) for a in np.meshgrid(ODD, ODD))
    zeros = np.zeros(x.shape, np.int64)
    inputs = {"x": x, "y": y, "v": ODD, "k": zeros, "b": zeros > 0}
    model = explorer.load(explorer.trace(ODD_CASES[name]), inputs=INPUTS)
    found = explorer.evaluate(model.program, inputs)["output"]
    wanted = on_numpy(ODD_CASES[name], inputs)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, err_msg=name)


def test_the_place_of_the_extreme_is_that_of_the_first_nan() -> None:
    @explorer.trace
    def model(x: explorer.tensor("float32", "n", "m")) -> Any:
        return x.argmax(1), x.argmin(1), xp.sort(x), xp.max(x, 1)

    x = np.stack([ODD, ODD[::-1], np.full(8, -math.inf, np.float32), ODD[1] * np.ones(8, "f4")])
    found = explorer.compile(model).run({"x": x})
    for name, wanted in zip(found, model(x), strict=True):
        np.testing.assert_array_equal(found[name], wanted)


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "max", "min", "logsumexp"])
def test_along_no_axes_a_reduction_leaves_what_it_is_given(name: str) -> None:
    """Of an array and of a number, eagerly and recorded."""
    for x in (np.arange(6, dtype=np.float32).reshape(2, 3), np.array(2.5, np.float32)):
        for keepdims in (False, True):

            def reduced(x: Any, keepdims: bool = keepdims) -> Any:
                return getattr(xp, name)(x, axis=(), keepdims=keepdims)

            check(np.asarray(reduced(x)), x, name)
            check(of_one(reduced, x), x, name)


def test_casts_to_bool_take_anything_but_zero_for_true() -> None:
    assert of_one(lambda x: x.astype(bool), ODD).tolist() == ODD.astype(bool).tolist()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sum(0),
        lambda x: x.all(axis=1),
        lambda x: x.any(axis=0),
        lambda x: xp.concatenate([x, x], 1),
        lambda x: x.reshape(x.shape[1], x.shape[0]),
        lambda x: x @ x.T,
        lambda x: xp.cumsum(x, 1),
        lambda x: xp.pad(x, 1),
        lambda x: x[::-1, 1:],
        lambda x: x[0::-1, 0::-2],
        lambda x: xp.roll(x, 1, axis=0),
        lambda x: xp.tile(x, (2, 2)),
        lambda x: xp.repeat(x, 2, axis=1),
    ],
)
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0), (1, 1)])
def test_arrays_of_no_elements(function: Case, shape: tuple[int, int]) -> None:
    x = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    check(of_one(function, x), function(x), str(shape))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "float64"])
def test_dtypes_are_numpys(dtype: str) -> None:
    x = np.arange(12).reshape(3, 4).astype(dtype)
    for function in (
        lambda x: x + 1,
        lambda x: x / 2,
        lambda x: x.sum(0),
        lambda x: x.mean(),
        lambda x: x.max(1) - x.min(),
        lambda x: x @ x.T,
        lambda x: xp.exp(x / 10),
        lambda x: xp.where(x > 3, x, 0),
        lambda x: x // 3 + x % 3,
        lambda x: x.prod(1),
        lambda x: xp.maximum(x, np.float32(2.5)),
    ):
        check(of_one(function, x), function(x), dtype)


# What NumPy itself makes of traced arrays, and the text of what is recorded.


def test_numpys_own_functions_take_traced_arrays() -> None:
    @explorer.trace
    def model(x: explorer.tensor("float32", "n", 3)) -> Any:
        table = np.arange(3, dtype=np.float32)
        return np.concatenate([np.tanh(table + x), np.where(x > 0, table, x)]) @ table

    x = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    found = explorer.evaluate(explorer.load(model).program, {"x": x})["output"]
    np.testing.assert_allclose(found, model(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_recorded_is_printed_and_read_back(family: str) -> None:
    for case in FAMILIES[family].values():
        program = explorer.load(explorer.trace(case), inputs=INPUTS).program
        assert parse_program(print_program(program), program.constants) == program


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint64"])
def test_integers_divide_near_their_limits_and_by_zero_as_in_numpy(dtype: str) -> None:
    limits = np.iinfo(dtype)
    near = (limits.min, limits.min + 1, -100, -1, 0, 1, 3, 100, limits.max)
    values = np.array([v for v in near if v >= limits.min], dtype)
    x, y = (a.copy() for a in np.meshgrid(values, values))
    kind = explorer.tensor(dtype, *x.shape)
    model = explorer.trace(lambda x, y: (x // y, x % y, x << 1, x >> y))(kind, kind)
    with np.errstate(all="ignore"):
        wanted = x // y, x % y, x << 1, x >> y
    interpreted = explorer.evaluate(model.program, {"x": x, "y": y})
    for found in (interpreted, explorer.compile(model).run(x, y)):
        for got, want in zip(found.values(), wanted, strict=True):
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (lambda x: xp.sum(x, where=True), "sum does not take these arguments .*'where'"),
        (lambda x: xp.add(x), "add takes 2 arrays, not 1"),
        (lambda x: xp.argmax(x, axis=(0, 1)), "argmax takes one axis"),
        (lambda x: xp.sum(x, axis="x"), "an axis must be an integer, not 'x'"),
        (lambda x: x.astype("int8") + 300, "the integer 300 does not fit int8"),
        (lambda x: x.astype("int8") ** -1, "no negative integer powers"),
        (lambda x: x[np.array([True, False])], "a mask of 2 elements selects from dim 0"),
        (lambda x: xp.max(x[:0]), "max of no elements has no value"),
        (lambda x: xp.argmin(x[:, :0], 1), "argmin of no elements has no value"),
        (lambda x: xp.take_along_axis(x, np.zeros((2, 1), int), 1), "dim 0 of .* differ"),
        (lambda x: xp.take_along_axis(x, np.zeros(3, int), 1), "indices of 2 dims"),
    ],
)
def test_what_numpy_refuses_is_refused_in_a_sentence(function: Case, sentence: str) -> None:
    with pytest.raises(IronworksError, match=sentence):
        explorer.load(explorer.trace(function), inputs={"x": explorer.tensor("float32", 3, 4)})


def test_variances_of_too_few_elements_are_no_numbers() -> None:
    for x, ddof in ((np.zeros(0, np.float32), 1), (np.array([1, 3], np.float32), 3)):
        with np.errstate(all="ignore"):
            wanted = np.var(x, ddof=ddof)
        kind = explorer.tensor("float32", *x.shape)
        model = explorer.trace(lambda x, ddof=ddof: xp.var(x, ddof=ddof))
        program = explorer.load(model, inputs={"x": kind}).program
        found = explorer.evaluate(program, {"x": x})["output"]
        check(found, wanted, str(ddof))


def test_unique_values_have_names_and_unstacked_rows_are_a_tuple() -> None:
    def model(x: Any) -> Any:
        found = xp.unique_all(x)
        return (*found, xp.unique_counts(x).counts, xp.unique_inverse(x).inverse_indices)

    x = np.array([3.0, 1.0, 3.0], np.float32)
    program = explorer.load(explorer.trace(model), inputs={"x": explorer.tensor("float32", 3)})
    found = list(explorer.evaluate(program.program, {"x": x}).values())
    for got, want in zip(found, model(x), strict=True):
        np.testing.assert_array_equal(got, want)
    rows = explorer.load(explorer.trace(xp.unstack), inputs={"x": explorer.tensor("float32", 3)})
    assert list(explorer.evaluate(rows.program, {"x": x}).values()) == [3, 1, 3]


def test_rounding_and_erf_of_few_bits() -> None:
    f = explorer.trace(lambda x: (enp.rint(x), enp.erf(x), enp.log_softmax(x, axis=0)))
    c = explorer.compile(f(explorer.tensor("bfloat16", 5)), check=True)
    x = np.array([-1.5, -0.4, 0.25, 0.5, 2.5], ml_dtypes.bfloat16)
    rounded, erf, logs = c.run(x).values()
    np.testing.assert_array_equal(rounded.astype(np.float32), [-2, 0, 0, 0, 2])
    assert {a.dtype for a in (rounded, erf, logs)} == {np.dtype(ml_dtypes.bfloat16)}
    assert abs(float(erf[2]) - 0.2763) < 2e-3
    assert abs(float(np.exp(logs.astype(np.float32)).sum()) - 1) < 2e-2


def test_a_dim_takes_every_operator_of_a_number() -> None:
    def numbers(x: Any) -> Any:
        n = x.shape[0]
        quotient, rest = divmod(n, 4)
        n += 1
        return xp.stack([quotient, rest, n & 3, n << 1, ~n, -n, 2 - n])

    model = explorer.load(explorer.trace(numbers), inputs={"x": explorer.tensor("float32", "n")})
    for n in (1, 6, 9):
        x = np.zeros(n, np.float32)
        found = explorer.evaluate(model.program, {"x": x})["output"]
        np.testing.assert_array_equal(found, numbers(x))


def test_numpy_arrays_are_not_changed_by_a_dim() -> None:
    def model(x: Any) -> Any:
        table = np.arange(3)
        table += x.shape[0]
        return x * table

    with pytest.raises(TypeError, match="__array_ufunc__"):
        explorer.load(explorer.trace(model), inputs={"x": explorer.tensor("float32", "n", 3)})
