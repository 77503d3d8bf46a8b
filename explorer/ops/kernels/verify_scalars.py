"""Checks of scalar functions of kernels: the number of arguments and their dtypes.

There are no implicit conversions: mixed dtypes are an error.
"""

from __future__ import annotations

from collections.abc import Sequence

from explorer.ir.dtypes import ITEM_BYTES, DType, is_float
from explorer.ir.scalar_functions import CONVERSIONS, SCALAR_FUNCTIONS
from explorer.ir.shapes.dims import Dim


def constant_problem(value: float | int | bool | Dim, dtype: DType) -> str:
    """Return what is wrong with a number of a dtype, in words, or ""."""
    if dtype not in ITEM_BYTES:
        return f"a constant of the unknown dtype {dtype!r}"
    if isinstance(value, float) and not is_float(dtype) and not value.is_integer():
        return f"a constant of {dtype} is {value}"
    return ""


def result_of(op: str, dtypes: Sequence[DType]) -> tuple[DType, str]:
    """Return the dtype of a scalar function's result, and what is wrong with its arguments.

    The problem is in words, "" if there is none.
    """
    if op.startswith(CONVERSIONS) and op[5:] in ITEM_BYTES:
        return op[5:], _conversion(op, dtypes)
    if op not in SCALAR_FUNCTIONS:
        return "", f"{op!r} is not a scalar function"
    record = SCALAR_FUNCTIONS[op]
    count = record.arity
    if len(dtypes) != count:
        many = "one argument" if count == 1 else f"{count} arguments"
        return "", f"{op!r} takes {many} and has {len(dtypes)}"
    chosen, same = (dtypes[:1], dtypes[1:]) if op == "where" else ((), dtypes)
    operand = same[0]
    if set(chosen) - {"bool"} or len(set(same)) > 1 or not record.is_defined_on(operand):
        return "", f"{op!r} of {', '.join(dtypes)}"
    return ("bool" if record.gives == "bool" else operand), ""


def _conversion(op: str, dtypes: Sequence[DType]) -> str:
    if len(dtypes) != 1:
        return f"{op!r} takes one argument and has {len(dtypes)}"
    if op.startswith("bits_") and ITEM_BYTES[dtypes[0]] != ITEM_BYTES[op[5:]]:
        return f"{op!r} of {dtypes[0]}, which has another number of bytes"
    return ""
