"""One operator as Roller sees it: its loop axes, and how every tensor is indexed by them (Roller,
section 3.1: an index tensor expression and its shape).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from explorer.ir.affine import Affine
from explorer.ir.kernel import Apply, Compute, Expr, IndexValue, Kernel, Read, reads
from explorer.ir.shapes.dims import Sizes, evaluate_dim, evaluate_shape
from explorer.ir.types import ITEM_BYTES

Walk = tuple[tuple[int, int], ...]  # (position of an axis, elements that one step of it moves by)


@dataclass(frozen=True, slots=True)
class Access:
    """How a tensor is read or written: for each dim the axes that iterate over it.

    A dim that depends on data (Gather) has no axes and is needed whole: `whole` marks it.
    """

    tensor: str
    dims: tuple[Walk, ...]
    whole: tuple[bool, ...]
    shape: tuple[int, ...]
    item_bytes: int

    def tile(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The box of the tensor that a tile of these sizes touches."""
        box = []
        for d, walk in enumerate(self.dims):
            size = 1
            for axis, step in walk:
                size += step * (shape[axis] - 1)
            box.append(self.shape[d] if self.whole[d] else size)
        return tuple(box)


@dataclass(frozen=True, slots=True)
class Expression:
    """A compute over `axes`, the first `spatial` of them in the output, the others reduced."""

    name: str
    axes: tuple[str, ...]
    extents: tuple[int, ...]
    spatial: int
    inputs: tuple[Access, ...]
    output: Access
    operations: int = 2  # of one point: a multiplication and an addition

    @property
    def points(self) -> int:
        """Iterations of the whole loop nest."""
        return prod(self.extents)

    def position(self, axis: str) -> int:
        """Where an axis stands."""
        return self.axes.index(axis)

    def nameless(self) -> Expression:
        """The same for all that differ in names alone."""
        inputs = tuple(replace(a, tensor="") for a in self.inputs)
        axes, output = ("",) * len(self.axes), replace(self.output, tensor="")
        return replace(self, name="", axes=axes, inputs=inputs, output=output)


def heaviest(kernel: Kernel, sizes: Sizes, among: Sequence[Compute] = ()) -> Compute:
    """The compute that does the most work under a binding of the symbols, of some or of all."""
    return max(among or kernel.computes, key=lambda c: work_of(c, sizes))


def expression_of(kernel: Kernel, sizes: Sizes | None = None) -> Expression:
    """The heaviest compute of a kernel, axis for axis.

    What the others read beside it (a bias, a residual) is streamed once and forms no tile.
    """
    known = sizes or {}
    return of_compute(kernel, heaviest(kernel, known), known)


def of_compute(kernel: Kernel, c: Compute, sizes: Sizes) -> Expression:
    """One compute as an expression; equal reads count once."""
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
    """Operations of all points of a compute, each at least one."""
    points = prod(evaluate_dim(a.extent, sizes) for a in (*c.axes, *c.reduce))
    return points * max(1, operations_of(c.expr))


def operations_of(expr: Expr) -> int:
    """Functions of scalars in an expression, however often one stands in it."""
    match expr:
        case Apply(_, args):
            return 1 + sum(operations_of(a) for a in args)
        case _:
            return 0


def _access(
    kernel: Kernel,
    tensor: str,
    index: tuple[Affine | Expr, ...],
    place: dict[str, int],
    sizes: Sizes,
) -> Access:
    spec = kernel.spec(tensor)
    shape = tuple(max(1, n) for n in evaluate_shape(spec.shape, sizes))
    dims = tuple(tuple(_walk(i, place, sizes)) for i in index)
    whole = tuple(not isinstance(i, (Affine, IndexValue)) for i in index)
    return Access(tensor, dims, whole, shape, ITEM_BYTES[spec.dtype])


def _walk(index: Affine | Expr, place: dict[str, int], sizes: Sizes) -> Iterator[tuple[int, int]]:
    match index:
        case Affine(terms):
            for name, factor in terms:
                yield place[name], abs(evaluate_dim(factor, sizes))
        case IndexValue(inner):
            yield from _walk(inner, place, sizes)
        case Read() | Apply():
            return


def reads_of(expression: Expression) -> Iterator[Access]:
    """Every tensor that the expression touches, the output last."""
    yield from expression.inputs
    yield expression.output
