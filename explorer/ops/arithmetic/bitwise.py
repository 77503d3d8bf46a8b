"""Bitwise operators of integers: and, or, exclusive or, not, and shifts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from explorer.ir.kernel import Expr
from explorer.ir.scalar_functions import shift_left, shift_right
from explorer.ir.types import DType
from explorer.ops.arithmetic.arithmetic import binary, broadcasting
from explorer.ops.arithmetic.elementwise import call, unary
from explorer.ops.site import Site


def _shift(site: Site, xs: list[Expr], t: DType) -> Expr:
    return call("shl" if _is_left(site.text("direction", "")) else "shr", *xs)


def _is_left(direction: str) -> bool:
    return direction.upper() == "LEFT"


def _shift_reference(attrs: Mapping[str, Any], args: Any) -> Any:
    return (shift_left if _is_left(attrs["direction"]) else shift_right)(*args)


RECORDS = (
    binary("BitwiseAnd", "bitand", np.bitwise_and),
    binary("BitwiseOr", "bitor", np.bitwise_or),
    binary("BitwiseXor", "bitxor", np.bitwise_xor),
    unary("BitwiseNot", lambda site, x, t: call("bitnot", x), lambda a, v: np.bitwise_not(v[0])),
    broadcasting("BitShift", _shift, _shift_reference),
)
