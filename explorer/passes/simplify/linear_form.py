"""Linear forms `scale * x + shift` with a known scale and shift for each channel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.ir.affine import Affine
from explorer.ir.kernel import Apply, Const, Expr, Read
from explorer.ops.kernels.scalar import call


@dataclass(frozen=True, slots=True)
class Linear:
    """`scale * x + shift`; each a number or an array over channels, in double precision."""

    scale: Any
    shift: Any

    def then(self, after: Linear) -> Linear:
        """Compose this form with a form applied to its result."""
        return Linear(self.scale * after.scale, self.shift * after.scale + after.shift)


def linear_form(
    expr: Expr, x: Read, channel: str | None, constants: Mapping[str, np.ndarray]
) -> Linear | None:
    """Return the linear form of an expression in one read, or None if it is not linear.

    Args:
        expr: the expression.
        x: the read that the form is linear in.
        channel: the axis that the constants may vary along.
        constants: arrays by tensor name.
    """
    match expr:
        case Read() if expr == x:
            return Linear(1.0, 0.0)
        case Read(tensor, index, None) if tensor in constants:
            value = _along(constants[tensor], index, channel)
            return None if value is None else Linear(0.0, value)
        case Const(value, dtype) if isinstance(value, int | float) and dtype == "float32":
            return Linear(0.0, float(value))
        case Apply(op, args):
            parts = [linear_form(a, x, channel, constants) for a in args]
            forms = [p for p in parts if p is not None]
            return _apply(op, forms) if len(forms) == len(args) else None
    return None


def _along(array: np.ndarray, index: tuple[Affine | Expr, ...], channel: str | None) -> Any:
    """Return a constant as an array over the channel axis, or None if it varies along others."""
    picked: list[int | slice] = []
    for entry in index:
        if not isinstance(entry, Affine):
            return None
        if not entry.terms and isinstance(entry.const, int):
            picked.append(entry.const)
        elif channel is not None and entry.bare == channel:
            picked.append(slice(None))
        else:
            return None
    values = array[tuple(picked)].astype(np.float64)
    return values if values.ndim < 2 else None


def _apply(op: str, parts: list[Linear]) -> Linear | None:
    if all(_is_constant(p) for p in parts):
        with np.errstate(all="ignore"):
            return Linear(0.0, call(op, [p.shift for p in parts]))
    match op, parts:
        case "add", [a, b]:
            return Linear(a.scale + b.scale, a.shift + b.shift)
        case "sub", [a, b]:
            return Linear(a.scale - b.scale, a.shift - b.shift)
        case "neg", [a]:
            return Linear(-a.scale, -a.shift)
        case "mul", [a, b] if _is_constant(b):
            return Linear(a.scale * b.shift, a.shift * b.shift)
        case "mul", [a, b] if _is_constant(a):
            return Linear(b.scale * a.shift, b.shift * a.shift)
        case "div", [a, b] if _is_constant(b):
            with np.errstate(all="ignore"):
                return Linear(a.scale / b.shift, a.shift / b.shift)
    return None


def _is_constant(form: Linear) -> bool:
    return bool(np.all(form.scale == 0.0))
