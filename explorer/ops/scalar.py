"""The scalar functions of kernels, as NumPy means them: NaN and infinity included."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from explorer.ir.dims import Dim, Sizes, evaluate_dim
from explorer.ir.dtypes import (
    NARROW_FLOATS,
    as_computed,
    computed,
    integer_limits,
    is_float,
    is_integer,
    numpy_dtype,
)

Value = Any  # an array or a NumPy scalar

_erf_each = np.frompyfunc(math.erf, 1, 1)


def erf(x: Value) -> Value:
    """The error function, rounded once from double precision."""
    x = np.asarray(x)
    return np.asarray(_erf_each(x.astype(np.float64)), np.float64).astype(x.dtype)


def sigmoid(x: Value) -> Value:
    """`1 / (1 + exp(-x))`, which overflows on neither side."""
    x = np.asarray(x)
    small = np.exp(-np.abs(x))
    return (np.where(x >= 0, x.dtype.type(1), small) / (1 + small)).astype(x.dtype, copy=False)


def divide(a: Value, b: Value) -> Value:
    """`a / b`; on integers rounded towards zero, as ONNX and C do, and 0 where `b` is 0."""
    kind = np.result_type(a, b)
    if not np.issubdtype(kind, np.integer):
        return np.divide(a, b)
    down = np.floor_divide(a, b)
    uneven = (np.asarray(a) < 0) != (np.asarray(b) < 0)
    return down + ((down * b != a) & uneven & (np.asarray(b) != 0)).astype(kind)


def power(x: Value, by: Value) -> Value:
    """`x ** by`; on integers 1 / x ** -by, rounded towards zero, where `by` is negative."""
    if np.result_type(x).kind not in "iu":
        return np.power(x, by)
    down = np.where(np.abs(x) == 1, np.where(np.asarray(by) % 2 == 0, 1, x), 0)
    return np.where(by < 0, down, np.power(x, np.maximum(by, 0))).astype(x.dtype)


def shift_left(x: Value, by: Value) -> Value:
    """Bits moved up; all are gone where the distance is negative or the width or more."""
    width = 8 * np.asarray(x).dtype.itemsize
    inside = (by >= 0) & (by < width)
    return np.where(inside, np.left_shift(x, np.where(inside, by, 0).astype(x.dtype)), 0).astype(
        x.dtype
    )


def shift_right(x: Value, by: Value) -> Value:
    """Bits moved down; copies of the sign are left where the distance is too large."""
    width = 8 * np.asarray(x).dtype.itemsize
    inside = (by >= 0) & (by < width)
    gone = np.where(x < 0, -1, 0) if np.issubdtype(x.dtype, np.signedinteger) else 0
    moved = np.right_shift(x, np.where(inside, by, 0).astype(x.dtype))
    return np.where(inside, moved, gone).astype(x.dtype)


def cast(x: Value, dtype: str) -> Value:
    """Elements as another dtype, in the type in which kernels compute with it.

    A float that is no element of an integer dtype wraps, as far as 32 bits hold it.
    """
    x = np.asarray(x)
    whole = np.issubdtype(x.dtype, np.floating) and is_integer(dtype)
    if whole and dtype not in ("int64", "uint64"):
        x = x.astype(np.int64 if dtype == "uint32" else np.int32)
    if x.dtype == np.float64 and dtype in NARROW_FLOATS - {"float16"}:
        x = x.astype(np.float32)
    return as_computed(x.astype(numpy_dtype(dtype)))


def same_bits(x: Value, dtype: str) -> Value:
    """The same bytes as another dtype."""
    return as_computed(np.ascontiguousarray(x).view(numpy_dtype(dtype)).reshape(np.shape(x)))


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": divide,
    "floordiv": np.floor_divide,
    "mod": np.mod,
    "pow": power,
    "max": np.maximum,
    "min": np.minimum,
    "neg": np.negative,
    "abs": np.abs,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "tanh": np.tanh,
    "erf": erf,
    "sigmoid": sigmoid,
    "sin": np.sin,
    "cos": np.cos,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "sign": np.sign,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
    "not": np.logical_not,
    "where": np.where,
    "bitand": np.bitwise_and,
    "bitor": np.bitwise_or,
    "bitxor": np.bitwise_xor,
    "bitnot": np.bitwise_not,
    "shl": shift_left,
    "shr": shift_right,
}

COMBINE: Mapping[str, np.ufunc] = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


def call(op: str, args: list[Value]) -> Value:
    """A function of `explorer.ir.kernel.SCALAR_FUNCTIONS`, or a conversion, on arrays."""
    if op.startswith("cast_"):
        return cast(args[0], op.removeprefix("cast_"))
    if op.startswith("bits_"):
        return same_bits(args[0], op.removeprefix("bits_"))
    return FUNCTIONS[op](*args)


def number(value: float | int | bool | Dim, dtype: str, sizes: Sizes) -> Value:
    """A constant of a kernel; a dim has its value under the binding."""
    plain = value if isinstance(value, (bool, int, float)) else evaluate_dim(value, sizes)
    if is_integer(dtype):
        low, high = integer_limits(dtype)
        plain = (int(plain) - low) % (high - low + 1) + low
    return as_computed(numpy_dtype(dtype).type(plain))


def identity(combiner: str, dtype: str) -> Value:
    """What a reduction over nothing gives."""
    kind = numpy_dtype(computed(dtype))
    if combiner in ("sum", "prod"):
        return kind.type(combiner == "prod")
    if is_float(dtype):
        return kind.type(-np.inf if combiner == "max" else np.inf)
    return kind.type(integer_limits(dtype)[combiner == "min"])
