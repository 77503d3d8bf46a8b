"""A contraction as the matrix product that it is: rows, columns and depth are one axis each, so a
convolution is tiled like a matrix product (Roller, section 5.1: implicit GEMM with fused axes).
"""

from __future__ import annotations

from math import prod

from explorer.ir.affine import Affine
from explorer.ir.kernel import Axis, Compute, Kernel, Read
from explorer.ir.patterns.contraction import Contraction
from explorer.ir.shapes.dims import Sizes, evaluate_dim
from explorer.ir.types import ITEM_BYTES
from explorer.roller.construct.axis_fusion import Fused
from explorer.roller.construct.expression import Access, Expression, Walk


def as_matmul(kernel: Kernel, c: Compute, found: Contraction, sizes: Sizes) -> Fused:
    """`out[batch, rows, column] = sum over depth of a[batch, rows, depth] * b[batch, depth,
    column]`, where a window that is read several times counts each time, as if it were unfolded.
    """
    groups = (
        *((x,) for x in found.batch),
        *((found.rows,) if found.rows else ()),
        (found.column,),
        found.depth,
    )
    extents = tuple(prod(_extent(x, sizes) for x in group) for group in groups)
    batch, depth = tuple(range(len(found.batch))), len(groups) - 1
    rows = (len(batch),) if found.rows else ()
    inner_a = _inner(found.a, found.depth)
    inner_b = _inner(found.b, (found.column,))
    a = (*rows, depth) if inner_a else (depth, *rows)
    b = (depth, depth - 1) if inner_b else (depth - 1, depth)
    expression = Expression(
        kernel.name,
        tuple("*".join(x.name for x in group) for group in groups),
        extents,
        depth,
        (
            _matrix(kernel, found.a.tensor, (*batch, *a), extents),
            _matrix(kernel, found.b.tensor, (*batch, *b), extents),
        ),
        _matrix(kernel, c.out, (*batch, *rows, depth - 1), extents),
    )
    return Fused(expression, tuple(tuple(x.name for x in group) for group in groups))


def _extent(axis: Axis, sizes: Sizes) -> int:
    return max(1, evaluate_dim(axis.extent, sizes))


def _inner(read: Read, axes: tuple[Axis, ...]) -> bool:
    """Whether the tensor's last dim is iterated over by one of the axes."""
    last = read.index[-1]
    return isinstance(last, Affine) and any(x.name in last.variables for x in axes)


def _matrix(kernel: Kernel, tensor: str, axes: tuple[int, ...], extents: tuple[int, ...]) -> Access:
    dims: tuple[Walk, ...] = tuple(((x, 1),) for x in axes)
    shape = tuple(extents[x] for x in axes)
    return Access(tensor, dims, (False,) * len(axes), shape, ITEM_BYTES[kernel.dtype(tensor)])
