"""Elements stored in another type than they are computed in, which Numba's CUDA does not have.

Arrays hold them encoded. bfloat16 is the upper half of a float32; integers of less than a byte take
one byte, and wrap.
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
    """Return why elements of a dtype are not printed; else an empty string."""
    if dtype in NARROW_FLOATS - {"float16", "bfloat16"}:
        return f"Numba's CUDA has no elements of {dtype}"
    return ""


def stored_dtype(dtype: DType) -> DType:
    """Return the dtype of arrays that store a dtype: a type of Numba of the same width."""
    if dtype == "bfloat16":
        return "uint16"
    return computed(dtype) if dtype in SMALL_INTEGERS else dtype


def decoded(x: str, dtype: DType) -> str:
    """Return the text of the value of an encoded element."""
    if dtype == "bfloat16":
        return f"of_bfloat16({x})"
    if dtype in SMALL_INTEGERS:
        return _wrapped(x, dtype)
    return f"{computed(dtype)}({x})" if is_stored_otherwise(dtype) else x


def encoded(x: str, dtype: DType) -> str:
    """Return the text of a value's encoded form: the nearest bfloat16, to even in a tie."""
    if dtype == "bfloat16":
        return f"to_bfloat16({x})"
    return _wrapped(x, dtype) if dtype in SMALL_INTEGERS else x


def rounded(x: str, dtype: DType) -> str:
    """Return the text of a computed value rounded to the nearest storable one."""
    return decoded(encoded(x, dtype), dtype) if dtype == "bfloat16" else encoded(x, dtype)


def _wrapped(x: str, dtype: DType) -> str:
    """Return the low bits as an integer, with their sign."""
    bits = SMALL_INTEGERS[dtype]
    low = f"({x} & {(1 << bits) - 1})"
    sign = 1 << (bits - 1)
    return f"uint8({low})" if dtype.startswith("uint") else f"int8(({low} ^ {sign}) - {sign})"
