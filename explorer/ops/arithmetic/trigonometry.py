"""Inverse and hyperbolic functions, elementwise."""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.ops.arithmetic.elementwise import call, unary
from explorer.ops.record import OperatorRecord

_FUNCTIONS = {
    "Acos": ("acos", np.arccos),
    "Asin": ("asin", np.arcsin),
    "Atan": ("atan", np.arctan),
    "Cosh": ("cosh", np.cosh),
    "Sinh": ("sinh", np.sinh),
    "Acosh": ("acosh", np.arccosh),
    "Asinh": ("asinh", np.arcsinh),
    "Atanh": ("atanh", np.arctanh),
}


def _record(name: str, op: str, function: Any) -> OperatorRecord:
    return unary(name, lambda site, x, dtype: call(op, x), lambda attrs, args: function(args[0]))


RECORDS = tuple(_record(name, op, function) for name, (op, function) in _FUNCTIONS.items())
