"""Contractions as matrix products with one axis each of rows, columns and depth.

So a convolution is tiled like a matrix product (Roller, section 5.1: implicit GEMM with fused
axes).
"""

from __future__ import annotations

from math import prod

from explorer.ir.affine import Affine
from explorer.ir.kernel import Axis, Compute, Kernel, Read
from explorer.ir.patterns.contraction import Contraction
from explorer.ir.shapes.dims import Sizes, evaluate_dim
from explorer.ir.types import ITEM_BYTES
from explorer.roller.construct.axis_fusion import Fused
from explorer.roller.construct.expression import Expression, TensorAccess, Walk


def as_matmul(kernel: Kernel, c: Compute, match: Contraction, sizes: Sizes) -> Fused:
    """Return a contraction as a matrix product.

    `out[batch, rows, column] = sum over depth of a[batch, rows, depth] * b[batch, depth, column]`:
    a window that is read several times counts each time, as if it were unfolded.
    """
    groups = (
        *((x,) for x in match.batch),
        *((match.rows,) if match.rows else ()),
        (match.column,),
        match.depth,
    )
    extents = tuple(prod(_extent(x, sizes) for x in group) for group in groups)
    batch, depth = tuple(range(len(match.batch))), len(groups) - 1
    rows = (len(batch),) if match.rows else ()
    inner_a = _inner(match.a, match.depth)
    inner_b = _inner(match.b, (match.column,))
    a = (*rows, depth) if inner_a else (depth, *rows)
    b = (depth, depth - 1) if inner_b else (depth - 1, depth)
    expression = Expression(
        kernel.name,
        tuple("*".join(x.name for x in group) for group in groups),
        extents,
        depth,
        (
            _matrix(kernel, match.a.tensor, (*batch, *a), extents),
            _matrix(kernel, match.b.tensor, (*batch, *b), extents),
        ),
        _matrix(kernel, c.out, (*batch, *rows, depth - 1), extents),
    )
    return Fused(expression, tuple(tuple(x.name for x in group) for group in groups))


def _extent(axis: Axis, sizes: Sizes) -> int:
    return max(1, evaluate_dim(axis.extent, sizes))


def _inner(read: Read, axes: tuple[Axis, ...]) -> bool:
    """Return True if one of the axes iterates over the tensor's last dim."""
    last = read.index[-1]
    return isinstance(last, Affine) and any(x.name in last.variables for x in axes)


def _matrix(
    kernel: Kernel, tensor: str, axes: tuple[int, ...], extents: tuple[int, ...]
) -> TensorAccess:
    dims: tuple[Walk, ...] = tuple(((x, 1),) for x in axes)
    shape = tuple(extents[x] for x in axes)
    return TensorAccess(tensor, dims, (False,) * len(axes), shape, ITEM_BYTES[kernel.dtype(tensor)])
