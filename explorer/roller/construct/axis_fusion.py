"""Fusion of neighbouring axes, so that short axes waste less, and convolutions as products.

Axes are fused if every tensor iterates over them as one (Roller, section 3.2: tensor shape
alignment). A convolution becomes a matrix product over fused axes (implicit GEMM).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from explorer.ir.affine import Affine
from explorer.ir.dims import Sizes, evaluate_dim
from explorer.ir.kernel import Axis, Compute, Kernel, Read
from explorer.ir.kernels.contraction import Contraction
from explorer.ir.types import ITEM_BYTES
from explorer.roller.construct.expression import Expression, TensorAccess, Walk, reads_of


@dataclass(frozen=True, slots=True)
class Fused:
    """An expression with fused axes, and the axes that each of them was made of, in order."""

    expression: Expression
    groups: tuple[tuple[str, ...], ...]


def fuse_axes(expression: Expression) -> Fused:
    """Fuse neighbouring axes.

    After: no two neighbouring axes are adjacent, or both absent, in every tensor. y[17, 11, 3] =
    f(x[17, 11, 3]) becomes y[561] = f(x[561]): the same elements in the same order.
    """
    groups: list[tuple[str, ...]] = [(a,) for a in expression.axes]
    first = 0
    while first < len(expression.axes) - 1:
        if _fusible(expression, first):
            expression = _merged(expression, first)
            groups[first : first + 2] = [groups[first] + groups[first + 1]]
        else:
            first += 1
    return Fused(expression, tuple(groups))


def unfused(expression: Expression) -> Fused:
    """Return the expression without fusion."""
    return Fused(expression, tuple((a,) for a in expression.axes))


def _fusible(e: Expression, first: int) -> bool:
    """Return True if an axis and the next one can be fused.

    Both are in the output or both reduced, and iterate over neighbouring dims of every tensor that
    has one of them.
    """
    if first + 1 == e.spatial:
        return False
    return all(_is_adjacent(a, first, e.extents[first + 1]) for a in reads_of(e))


def _is_adjacent(access: TensorAccess, first: int, inner: int) -> bool:
    outer_dims = [d for d, walk in enumerate(access.dims) if any(x == first for x, _ in walk)]
    inner_dims = [d for d, walk in enumerate(access.dims) if any(x == first + 1 for x, _ in walk)]
    if not outer_dims and not inner_dims:
        return True
    if len(outer_dims) != 1 or inner_dims != [outer_dims[0] + 1]:
        return False
    d = outer_dims[0]
    bare = access.dims[d] == ((first, 1),) and access.dims[d + 1] == ((first + 1, 1),)
    return bare and not any(access.needs_full[d : d + 2]) and access.shape[d + 1] == inner


def _merged(e: Expression, first: int) -> Expression:
    name = f"{e.axes[first]}*{e.axes[first + 1]}"
    extent = e.extents[first] * e.extents[first + 1]
    return replace(
        e,
        axes=(*e.axes[:first], name, *e.axes[first + 2 :]),
        extents=(*e.extents[:first], extent, *e.extents[first + 2 :]),
        spatial=e.spatial - (first + 1 < e.spatial),
        inputs=tuple(_with_fused_axes(a, first) for a in e.inputs),
        output=_with_fused_axes(e.output, first),
    )


def _with_fused_axes(access: TensorAccess, first: int) -> TensorAccess:
    """Return the access with an axis and the next one fused, and later axes moved down."""
    gone = next((d for d, walk in enumerate(access.dims) if walk == ((first + 1, 1),)), None)
    dims = [tuple((x - (x > first), s) for x, s in walk) for walk in access.dims]
    if gone is None:
        return replace(access, dims=tuple(dims))
    shape, needs_full = list(access.shape), list(access.needs_full)
    shape[gone - 1 : gone + 1] = [shape[gone - 1] * shape[gone]]
    del dims[gone], needs_full[gone]
    return replace(access, dims=tuple(dims), shape=tuple(shape), needs_full=tuple(needs_full))


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
