"""Arithmetic, comparisons and extremes of dims, for shape computations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from explorer.ir.shapes.algebra import sympy
from explorer.ir.shapes.dims import Dim, ShapeEnv, floor_div, simplify
from explorer.ops.record import Fold
from explorer.ops.site import Array, Site

FoldEach = Callable[[ShapeEnv, list[Dim]], "Dim | bool | None"]


def fold_each(each: FoldEach) -> Fold:
    """Return a fold of an operator on dims, elementwise; unknown if one element is."""

    def fold(site: Site) -> tuple[Array | None, ...]:
        operands = [v for v in site.values if v is not None]
        if len(operands) < len(site.args):
            return (None,)
        arrays = np.broadcast_arrays(*operands)
        out = np.empty(arrays[0].shape, dtype=object)
        for at in np.ndindex(out.shape):
            value = each(site.env, [a[at] for a in arrays])
            if value is None:
                return (None,)
            out[at] = value if isinstance(value, bool) else simplify(value)
        return (out,)

    return fold


def total(env: ShapeEnv, v: list[Dim]) -> Dim:
    """Return the sum of dims."""
    return simplify(sum(v[1:], v[0]))


def times(env: ShapeEnv, v: list[Dim]) -> Dim:
    """Return the product of two dims."""
    return simplify(v[0] * v[1])


def quotient(env: ShapeEnv, v: list[Dim]) -> Dim | None:
    """Return the quotient towards zero as in ONNX; a floor if neither operand is negative."""
    a, b = v
    if isinstance(a, int) and isinstance(b, int):
        return (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1) if b else None
    positive = env.bounds(a)[0] >= 0 and env.bounds(b)[0] > 0
    return floor_div(a, b) if positive else None


def remainder(env: ShapeEnv, v: list[Dim]) -> Dim | None:
    """Return `a % b` of dims, if b is positive."""
    a, b = v
    if isinstance(a, int) and isinstance(b, int):
        return a % b if b else None
    return simplify(a - floor_div(a, b) * b) if env.bounds(b)[0] > 0 else None


def truncated_remainder(env: ShapeEnv, v: list[Dim]) -> Dim | None:
    """Return the remainder of division towards zero, with the sign of the dividend."""
    a, b = v
    if isinstance(a, int) and isinstance(b, int):
        return (abs(a) % abs(b)) * (-1 if a < 0 else 1) if b else None
    return remainder(env, v) if env.bounds(a)[0] >= 0 else None


def most(env: ShapeEnv, v: Sequence[Dim]) -> Dim:
    """Return the greatest of several dims, without a Max if bounds decide."""
    return reduce(lambda a, b: _choose(env, a, b, sympy.Max), v)


def least(env: ShapeEnv, v: Sequence[Dim]) -> Dim:
    """Return the least of several dims, without a Min if bounds decide."""
    return reduce(lambda a, b: _choose(env, a, b, sympy.Min), v)


def _choose(env: ShapeEnv, a: Dim, b: Dim, kind: Any) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b) if kind is sympy.Max else min(a, b)
    low, high = env.bounds(simplify(a - b))
    if low >= 0:
        return a if kind is sympy.Max else b
    if high is not None and high <= 0:
        return b if kind is sympy.Max else a
    chosen: Dim = kind(a, b)
    return chosen


def compare(decide: Callable[[int, int | None], bool | None]) -> FoldEach:
    """Return a comparison of dims by the bounds of their difference."""

    def fold(env: ShapeEnv, v: list[Dim]) -> bool | None:
        return decide(*env.bounds(simplify(v[0] - v[1])))

    return fold


def is_equal(low: int, high: int | None) -> bool | None:
    """Return True if a difference within these bounds is zero, None if it is open."""
    if low == high == 0:
        return True
    return False if low > 0 or (high is not None and high < 0) else None


def is_less(low: int, high: int | None) -> bool | None:
    """Return True if a difference within these bounds is negative, None if it is open."""
    return True if high is not None and high < 0 else (False if low >= 0 else None)


def is_at_most(low: int, high: int | None) -> bool | None:
    """Return True if a difference within these bounds is not positive, None if it is open."""
    return True if high is not None and high <= 0 else (False if low > 0 else None)


def negate(truth: bool | None) -> bool | None:
    """Return the negation of a truth value that may be unknown."""
    return None if truth is None else not truth
