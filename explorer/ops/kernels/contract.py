"""Sums of products as matrix products: axes sorted into batch, rows, columns and depth."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from explorer.ir.kernel import Apply, Expr, variables
from explorer.ops.kernels.strided import Array, Box


def is_contraction(expr: Expr, axes: Box, over: Box) -> bool:
    """Return True for a sum of products in which one operand lacks an output axis."""
    if not (isinstance(expr, Apply) and expr.op == "mul"):
        return False
    a, b = (variables(x) for x in expr.args)
    free = {s.name for s in axes if s.size > 1}
    return {s.name for s in over} <= a | b and bool((free & a) ^ (free & b))


def contract(a: Array, b: Array, axes: Box, over: Box) -> Array:
    """Return `sum over over of a * b` by `axes`.

    a, b and the result broadcast; a and b may also be single numbers.
    """
    dims, split = range(len(axes) + len(over)), len(axes)
    a, b = (np.reshape(x, np.shape(x) or (1,) * len(dims)) for x in (a, b))
    in_a, in_b = ({d for d in dims if x.shape[d] > 1} for x in (a, b))
    alone = [d for d in dims if d >= split and (d in in_a) != (d in in_b)]
    if alone and not (np.isfinite(a).all() and np.isfinite(b).all()):
        a, b = _spread(a, b, alone)  # inf * 1 + inf * -1 is NaN, and inf * (1 - 2) is not
        in_a, in_b = in_a.union(alone), in_b.union(alone)
    a = _sum_away(a, [d for d in alone if d not in in_b])
    b = _sum_away(b, [d for d in alone if d not in in_a])
    batch = [d for d in dims if d < split and d in in_a & in_b]
    depth = [d for d in dims if d >= split and d in in_a & in_b]
    rows = [d for d in dims if d < split and d in in_a - in_b]
    columns = [d for d in dims if d < split and d in in_b - in_a]
    left, right = _matrix(a, batch, rows, depth), _matrix(b, batch, columns, depth).swapaxes(-1, -2)
    result: Array = np.matmul(left, right)
    order = (*batch, *rows, *columns)
    result = result.reshape([(axes[d].size) for d in order])
    missing = [d for d in range(split) if d not in order]
    result = result.reshape(result.shape + (1,) * len(missing))
    return result.transpose(np.argsort((*order, *missing)))


def _spread(a: Array, b: Array, dims: Sequence[int]) -> tuple[Array, Array]:
    """Broadcast both operands against each other at these dims."""
    shapes = (list(a.shape), list(b.shape))
    for d in dims:
        for shape in shapes:
            shape[d] = max(a.shape[d], b.shape[d])
    return np.broadcast_to(a, shapes[0]), np.broadcast_to(b, shapes[1])


def _sum_away(x: Array, dims: Sequence[int]) -> Array:
    return x.sum(axis=tuple(dims), keepdims=True, dtype=x.dtype) if dims else x


def _matrix(x: Array, batch: Sequence[int], free: Sequence[int], depth: Sequence[int]) -> Array:
    """Return `x[batch, free, depth]`, each group one dim; if copied, along its densest dim."""
    sizes = [prod(x.shape[d] for d in group) for group in (batch, free, depth)]
    absent = [d for d in range(x.ndim) if d not in (*batch, *free, *depth)]
    densest = min((*free, *depth), key=lambda d: abs(x.strides[d]), default=-1)
    if densest in free:
        return (
            x.transpose(*absent, *batch, *depth, *free)
            .reshape(sizes[0], sizes[2], sizes[1])
            .swapaxes(1, 2)
        )
    matrix: Array = x.transpose(*absent, *batch, *free, *depth).reshape(sizes)
    return matrix
