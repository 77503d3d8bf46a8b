"""Scalar functions in CUDA C++, on special values too."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from explorer.codegen.cuda.build import print_block
from explorer.codegen.cuda.expressions import SPELLINGS
from explorer.errors import BadOption
from explorer.ir.dims import ShapeEnv
from explorer.ir.dtypes import integer_limits, is_integer
from explorer.ir.kernel import Apply, Compute, Kernel, TensorSpec, at, axes
from explorer.ir.scalar_functions import SCALAR_FUNCTIONS
from explorer.ops.interpreter.scalar import cast
from tests.codegen.cuda.launched import SMALL, launched

FLOATS = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -2.5, 3.0, 1e-40, 88.8, -104.0, 1e30]
DTYPES = ("float32", "float64", "int32", "int64", "int8", "uint8", "uint64", "bool")
OWN = [n for n, r in SCALAR_FUNCTIONS.items() if r.decompose is None]


def values_of(dtype: str) -> list[float]:
    if dtype == "bool":
        return [False, True]
    if is_integer(dtype):
        low, high = integer_limits(dtype)
        return [low, high, 0, 1, 2, 3, 7, *([-1, -2, -7] if low else [9])]
    return FLOATS


def applied(name: str, dtypes: tuple[str, ...], result: str, *values: np.ndarray) -> np.ndarray:
    """A function of arrays, by a thread block."""
    a = axes("a", (len(values[0]),))
    names = [f"x{n}" for n in range(len(values))]
    specs = [TensorSpec(x, (len(values[0]),), d) for x, d in zip(names, dtypes, strict=True)]
    c = Compute("y", a, Apply(name, tuple(at(x, a) for x in names)))
    y = TensorSpec("y", (len(values[0]),), result)
    k = Kernel("f", (*specs, y), (c,), tuple(names), ("y",))
    code = print_block(k, SMALL, ShapeEnv(), {})
    return launched(code, k, dict(zip(names, values, strict=True)), {})


def test_every_function_that_is_no_composition_is_spelled() -> None:
    assert {*SPELLINGS} == {*OWN}


@pytest.mark.few(23)
@pytest.mark.parametrize("name", OWN)
def test_a_spelling_means_what_the_record_means(name: str) -> None:
    record = SCALAR_FUNCTIONS[name]
    for dtype in filter(record.is_defined_on, DTYPES):
        first = ["bool"] if name == "where" else [dtype]
        dtypes = (*first, *[dtype] * (record.arity - 1))
        if dtype == "bool" and name in ("sub", "neg", "floordiv", "mod", "pow", "div", "sign"):
            continue  # NumPy has no meaning of it
        rows = [*product(*map(values_of, dtypes))]
        with np.errstate(all="ignore"):
            columns = [np.array(c).astype(d) for c, d in zip(zip(*rows), dtypes, strict=True)]
            want = np.asarray(record.numpy(*columns))
        found = applied(name, dtypes, str(want.dtype), *columns)
        if want.dtype.kind == "f":
            np.testing.assert_allclose(found, want, 2e-6, 1e-44, err_msg=f"{name} {dtype}")
        else:
            wrong = [r for r, f, w in zip(rows, found, want) if f != w]
            assert not wrong, f"{name} of {dtype}: {wrong[:5]}"


@pytest.mark.parametrize("target", ["float16", "float32", "int32", "uint8", "int64", "bool"])
@pytest.mark.parametrize("source", ["float32", "float64", "int64", "uint8", "bool"])
def test_conversions(source: str, target: str) -> None:
    x = np.array([0, 1, 2.5, -3.7, 200, 70000] if source[0] == "f" else [0, 1, 2, 3, 200])
    x = x.astype(source)
    with np.errstate(all="ignore"):
        want = cast(x, target)
    found = applied(f"cast_{target}", (source,), target, x)
    np.testing.assert_array_equal(found.astype(want.dtype), want)


SAME_WIDTH = (
    *(("float32", "int32"), ("float32", "uint32"), ("int32", "float32"), ("uint32", "float32")),
    *(("float64", "uint64"), ("int64", "float64"), ("int8", "uint8"), ("uint8", "int8")),
    *(("float32", "float32"), ("uint64", "int64"), ("int16", "uint16")),
)


@pytest.mark.parametrize(("source", "target"), SAME_WIDTH)
def test_bits_stay_what_they_are(source: str, target: str) -> None:
    with np.errstate(all="ignore"):
        x = np.array(values_of(source), source)
        found = applied(f"bits_{target}", (source,), target, x)
    assert found.tobytes() == x.tobytes()


def test_bits_that_numba_has_no_words_for_are_refused() -> None:
    with pytest.raises(BadOption, match="bits of bool are not printed for CUDA"):
        applied("bits_uint8", ("bool",), "uint8", np.array([True]))
    with pytest.raises(BadOption, match="bits of float16 are not printed for CUDA"):
        applied("bits_int16", ("float16",), "int16", np.ones(3, np.float16))
