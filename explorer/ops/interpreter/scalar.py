"""Scalar expressions of kernels in NumPy: functions, conversions, numbers, identities."""

from __future__ import annotations

import numpy as np

from explorer.ir.combiners import COMBINERS
from explorer.ir.dims import Dim, Sizes, evaluate_dim
from explorer.ir.dtypes import (
    NARROW_FLOATS,
    DType,
    as_computed,
    computed,
    integer_limits,
    is_float,
    is_integer,
    numpy_dtype,
)
from explorer.ir.kernel import Const
from explorer.ir.scalar_functions import SCALAR_FUNCTIONS, Value


def cast(x: Value, dtype: str) -> Value:
    """Convert elements to another dtype, in the type in which kernels compute with it.

    A float outside of an integer dtype wraps, as far as 32 bits hold it.
    """
    x = np.asarray(x)
    float_to_integer = np.issubdtype(x.dtype, np.floating) and is_integer(dtype)
    if float_to_integer and dtype not in ("int64", "uint64"):
        x = x.astype(np.int64 if dtype == "uint32" else np.int32)
    if x.dtype == np.float64 and dtype in NARROW_FLOATS - {"float16"}:
        x = x.astype(np.float32)
    return as_computed(x.astype(numpy_dtype(dtype)))


def same_bits(x: Value, dtype: str) -> Value:
    """Reinterpret the bytes as another dtype."""
    return as_computed(np.ascontiguousarray(x).view(numpy_dtype(dtype)).reshape(np.shape(x)))


def call(op: str, args: list[Value]) -> Value:
    """Apply a function of `SCALAR_FUNCTIONS`, or a conversion, to arrays."""
    if op.startswith("cast_"):
        return cast(args[0], op.removeprefix("cast_"))
    if op.startswith("bits_"):
        return same_bits(args[0], op.removeprefix("bits_"))
    return SCALAR_FUNCTIONS[op].numpy(*args)


def number(value: float | int | bool | Dim, dtype: str, sizes: Sizes) -> Value:
    """Return a constant of a kernel; a dim has its value under the binding."""
    plain = value if isinstance(value, (bool, int, float)) else evaluate_dim(value, sizes)
    if is_integer(dtype):
        low, high = integer_limits(dtype)
        plain = (int(plain) - low) % (high - low + 1) + low
    return as_computed(numpy_dtype(dtype).type(plain))


def identity(combiner: str, dtype: str) -> Value:
    """Return the result of a reduction over nothing."""
    return numpy_dtype(computed(dtype)).type(COMBINERS[combiner].identity(dtype))


def start_value(combiner: str, dtype: DType) -> Const:
    """Return the initial value of a combiner."""
    value = COMBINERS[combiner].identity(dtype)
    return Const(value, computed(dtype) if is_float(dtype) else dtype)
