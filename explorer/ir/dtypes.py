"""Element types: their size in bytes, and the type in which kernels compute with them.

Narrow floats are computed in float32 and rounded where they are stored, as onnxruntime does on a
CPU; integers of less than a byte take a byte each, and wrap where they are stored.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeAlias

import ml_dtypes as ml_dtypes  # its names become names of NumPy's
import numpy as np

DType: TypeAlias = (
    str  # "float32", "bfloat16", "int4", "bool", ...: the names of NumPy and ml_dtypes
)

ITEM_BYTES: dict[DType, int] = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "float16": 2,
    "bfloat16": 2,
    "int32": 4,
    "uint32": 4,
    "float32": 4,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
    "int2": 1,
    "uint2": 1,
    "int4": 1,
    "uint4": 1,
    "float4_e2m1fn": 1,
    "float8_e4m3fn": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2": 1,
    "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
}

HOST_DTYPES = frozenset({"string", "complex64", "complex128"})
"""Elements that no kernel computes with: their values live in Python, as NumPy arrays."""

EIGHT_BIT_FLOATS = {
    "float8_e4m3fn": 448.0,
    "float8_e4m3fnuz": 240.0,
    "float8_e5m2": 57344.0,
    "float8_e5m2fnuz": 57344.0,
}  # their largest finite elements
HALF_FLOATS: tuple[DType, ...] = ("float16", "bfloat16")  # matrix units sum them in float32
NARROW_FLOATS = frozenset(
    {"float16", "bfloat16", "float4_e2m1fn", "float8_e8m0fnu", *EIGHT_BIT_FLOATS}
)
SMALL_INTEGERS = {"int2": 2, "uint2": 2, "int4": 4, "uint4": 4}  # their bits


def computed(dtype: DType) -> DType:
    """Return the type in which kernels compute with elements of a dtype."""
    if dtype in NARROW_FLOATS:
        return "float32"
    if dtype in SMALL_INTEGERS:
        return "int8" if dtype.startswith("int") else "uint8"
    return dtype


def is_stored_otherwise(dtype: DType) -> bool:
    """Return True if elements have another type in memory than in kernels."""
    return dtype in NARROW_FLOATS or dtype in SMALL_INTEGERS


def is_float(dtype: DType) -> bool:
    """Return True if a dtype is a floating-point type."""
    return dtype.startswith("float") or dtype == "bfloat16"


def is_integer(dtype: DType) -> bool:
    """Return True if a dtype is an integer type; bool is none."""
    return dtype.startswith(("int", "uint"))


def integer_limits(dtype: DType) -> tuple[int, int]:
    """Return the least and the largest element of an integer dtype, or of bool."""
    if dtype == "bool":
        return 0, 1
    bits = SMALL_INTEGERS.get(dtype, 8 * ITEM_BYTES[dtype])
    if dtype.startswith("uint"):
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def numpy_dtype(dtype: DType) -> np.dtype[np.generic]:
    """Return NumPy's dtype of that name; strings are objects in NumPy."""
    return np.dtype(object) if dtype == "string" else np.dtype(dtype)


def dtype_of(array: Any) -> DType:
    """Return the name of an array's or a scalar's dtype."""
    return _name(array.dtype)


@lru_cache(256)
def _name(dtype: np.dtype[Any]) -> DType:
    """Return the name of a dtype, cached: NumPy builds the name anew each time, which is slow."""
    return "string" if dtype.kind in "OUS" else str(dtype.name)


def as_computed(array: Any) -> Any:
    """Convert an array or a scalar to the type in which kernels compute with it."""
    name = _name(array.dtype)
    return array.astype(computed(name)) if is_stored_otherwise(name) else array
