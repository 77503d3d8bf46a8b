"""Elements that are not stored as they are computed with, for which Numba's CUDA has no type: what
arrays hold of them, and how they are read and written. bfloat16 is the upper half of a float32;
integers of less than a byte take one, and wrap.
"""

from __future__ import annotations

from explorer.ir.dtypes import (
    NARROW_FLOATS,
    SMALL_INTEGERS,
    DType,
    computed,
    is_stored_otherwise,
)


def unprinted(dtype: DType) -> str:
    """Why elements of a dtype are not printed; empty where they are."""
    if dtype in NARROW_FLOATS - {"float16", "bfloat16"}:
        return f"Numba's CUDA has no elements of {dtype}"
    return ""


def held(dtype: DType) -> DType:
    """What arrays hold: a type that Numba knows, as wide."""
    if dtype == "bfloat16":
        return "uint16"
    return computed(dtype) if dtype in SMALL_INTEGERS else dtype


def decoded(x: str, dtype: DType) -> str:
    """The value of what an array holds."""
    if dtype == "bfloat16":
        return f"of_bfloat16({x})"
    if dtype in SMALL_INTEGERS:
        return _wrapped(x, dtype)
    return f"{computed(dtype)}({x})" if is_stored_otherwise(dtype) else x


def encoded(x: str, dtype: DType) -> str:
    """What an array holds of a value: the nearest bfloat16, of two the even one."""
    if dtype == "bfloat16":
        return f"to_bfloat16({x})"
    return _wrapped(x, dtype) if dtype in SMALL_INTEGERS else x


def rounded(x: str, dtype: DType) -> str:
    """A value of the computed type as the nearest one that can be stored."""
    return decoded(encoded(x, dtype), dtype) if dtype == "bfloat16" else encoded(x, dtype)


def _wrapped(x: str, dtype: DType) -> str:
    """The low bits as an integer, with their sign."""
    bits = SMALL_INTEGERS[dtype]
    low = f"({x} & {(1 << bits) - 1})"
    sign = 1 << (bits - 1)
    return f"uint8({low})" if dtype.startswith("uint") else f"int8(({low} ^ {sign}) - {sign})"
