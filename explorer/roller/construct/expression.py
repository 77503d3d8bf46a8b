"""Operators as Roller's tensor expressions: loop axes, and how they index every tensor.

From Roller, section 3.1: an index tensor expression and its shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from explorer.ir.affine import Affine
from explorer.ir.dims import Sizes, evaluate_dim, evaluate_shape
from explorer.ir.kernel import (
    Apply,
    Compute,
    Expr,
    IndexValue,
    Kernel,
    Read,
    operations_of,
    reads,
)
from explorer.ir.types import ITEM_BYTES

Walk = tuple[tuple[int, int], ...]  # (position of an axis, elements moved by one step of it)


@dataclass(frozen=True, slots=True)
class TensorAccess:
    """A read or write of a tensor: for each dim the axes that iterate over it.

    A dim that depends on data (Gather) has no axes and is needed in full: `needs_full` marks it.
    """

    tensor: str
    dims: tuple[Walk, ...]
    needs_full: tuple[bool, ...]
    shape: tuple[int, ...]
    item_bytes: int

    def tile(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the box of the tensor that a tile of these sizes touches."""
        box = []
        for d, walk in enumerate(self.dims):
            size = 1
            for axis, step in walk:
                size += step * (shape[axis] - 1)
            box.append(self.shape[d] if self.needs_full[d] else size)
        return tuple(box)


@dataclass(frozen=True, slots=True)
class Expression:
    """A compute over `axes`, the first `spatial` of them in the output, the others reduced."""

    name: str
    axes: tuple[str, ...]
    extents: tuple[int, ...]
    spatial: int
    inputs: tuple[TensorAccess, ...]
    output: TensorAccess
    operations: int = 2  # of one point: a multiplication and an addition

    @property
    def points(self) -> int:
        """The number of iterations of the loop nest."""
        return prod(self.extents)

    def position(self, axis: str) -> int:
        """Return the position of an axis."""
        return self.axes.index(axis)

    def nameless(self) -> Expression:
        """Return the expression without names, equal for all that differ in names alone."""
        inputs = tuple(replace(a, tensor="") for a in self.inputs)
        axes, output = ("",) * len(self.axes), replace(self.output, tensor="")
        return replace(self, name="", axes=axes, inputs=inputs, output=output)


def heaviest(kernel: Kernel, sizes: Sizes, among: Sequence[Compute] = ()) -> Compute:
    """Return the compute with the most work under a binding of the symbols, of some or of all."""
    return max(among or kernel.computes, key=lambda c: work_of(c, sizes))


def expression_of(kernel: Kernel, sizes: Sizes | None = None) -> Expression:
    """Return the heaviest compute of a kernel as an expression, axis for axis.

    Other operands of the kernel (a bias, a residual) are streamed once and form no tile.
    """
    binding = sizes or {}
    return of_compute(kernel, heaviest(kernel, binding), binding)


def of_compute(kernel: Kernel, c: Compute, sizes: Sizes) -> Expression:
    """Return one compute as an expression; equal reads count once."""
    loops = (*c.axes, *c.reduce)
    place = {a.name: n for n, a in enumerate(loops)}
    loads = tuple(dict.fromkeys((r.tensor, r.index) for r in reads(c.expr)))
    return Expression(
        kernel.name,
        tuple(place),
        tuple(max(1, evaluate_dim(a.extent, sizes)) for a in loops),
        len(c.axes),
        tuple(_access(kernel, tensor, index, place, sizes) for tensor, index in loads),
        _access(kernel, c.out, c.target, place, sizes),
        max(1, operations_of(c.expr) + (c.combiner is not None)),
    )


def work_of(c: Compute, sizes: Sizes) -> int:
    """Return the operations of all points of a compute, at least one a point."""
    points = prod(evaluate_dim(a.extent, sizes) for a in (*c.axes, *c.reduce))
    return points * max(1, operations_of(c.expr))


def _access(
    kernel: Kernel,
    tensor: str,
    index: tuple[Affine | Expr, ...],
    place: dict[str, int],
    sizes: Sizes,
) -> TensorAccess:
    spec = kernel.spec(tensor)
    shape = tuple(max(1, n) for n in evaluate_shape(spec.shape, sizes))
    dims = tuple(tuple(_walk(i, place, sizes)) for i in index)
    needs_full = tuple(not isinstance(i, (Affine, IndexValue)) for i in index)
    return TensorAccess(tensor, dims, needs_full, shape, ITEM_BYTES[spec.dtype])


def _walk(index: Affine | Expr, place: dict[str, int], sizes: Sizes) -> Iterator[tuple[int, int]]:
    match index:
        case Affine(terms):
            for name, factor in terms:
                yield place[name], abs(evaluate_dim(factor, sizes))
        case IndexValue(inner):
            yield from _walk(inner, place, sizes)
        case Read() | Apply():
            return


def reads_of(expression: Expression) -> Iterator[TensorAccess]:
    """Yield every tensor that the expression touches, the output last."""
    yield from expression.inputs
    yield expression.output
