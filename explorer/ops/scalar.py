"""The scalar functions of kernels, as NumPy means them: NaN and infinity included."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from explorer.ir.dims import Dim, Sizes, evaluate_dim
from explorer.ir.types import numpy_dtype

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
    """`a / b`; rounded towards zero on integers, as ONNX and C do."""
    if not np.issubdtype(np.result_type(a, b), np.integer):
        return np.divide(a, b)
    down = np.floor_divide(a, b)
    return down + ((down * b != a) & ((np.asarray(a) < 0) != (np.asarray(b) < 0)))


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": divide,
    "floordiv": np.floor_divide,
    "mod": np.mod,
    "pow": np.power,
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
}

COMBINE: Mapping[str, np.ufunc] = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


def call(op: str, args: list[Value]) -> Value:
    """A function of `explorer.ir.kernel.SCALAR_FUNCTIONS`, or a cast, on arrays."""
    if op.startswith("cast_"):
        return np.asarray(args[0]).astype(numpy_dtype(op.removeprefix("cast_")))
    return FUNCTIONS[op](*args)


def number(value: float | int | bool | Dim, dtype: str, sizes: Sizes) -> Value:
    """A constant of a kernel; a dim has its value under the binding."""
    plain = value if isinstance(value, (bool, int, float)) else evaluate_dim(value, sizes)
    return numpy_dtype(dtype).type(plain)


def identity(combiner: str, dtype: str) -> Value:
    """What a reduction over nothing gives."""
    if combiner in ("sum", "prod"):
        return numpy_dtype(dtype).type(combiner == "prod")
    if np.issubdtype(numpy_dtype(dtype), np.floating):
        return numpy_dtype(dtype).type(-np.inf if combiner == "max" else np.inf)
    if dtype == "bool":
        return np.bool_(combiner == "min")
    limits = np.iinfo(dtype)
    return numpy_dtype(dtype).type(limits.min if combiner == "max" else limits.max)
