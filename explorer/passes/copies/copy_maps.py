"""Index maps of views and copies, from result to source and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from explorer.ir.affine import Affine
from explorer.ir.by_identity import by_identity
from explorer.ir.calls import KernelCall, Var, View
from explorer.ir.kernel import Axis, Read
from explorer.ir.program import Binding
from explorer.ir.shapes.dims import Dim, Shape, product
from explorer.ir.types import Tensor
from explorer.passes.copies.index_maps import Index, Ranges, Split, solve, through_reshape


@dataclass(frozen=True, slots=True)
class Origin:
    """The source index of an element of the result, and the fill value outside of the source."""

    index: Index
    fill: float | None


@dataclass(frozen=True, slots=True)
class ViewMap:
    """A view of the same memory, starting at element `offset`."""

    source: Shape
    result: Shape
    offset: Dim = 0

    def origin(self, index: Index, fill: float | None, ranges: Ranges) -> Origin | Split | None:
        """Return the source index of the result element at `index`."""
        source_index = through_reshape(index, self.result, self.source, ranges, self.offset)
        return Origin(source_index, fill) if isinstance(source_index, tuple) else source_index

    def destination(self, index: Index, ranges: Ranges) -> Index | Split | None:
        """Return the result index of the source element at `index`; None if some have none."""
        if self.offset != 0 or product(self.source) != product(self.result):
            return None
        return through_reshape(index, self.source, self.result, ranges)


@dataclass(frozen=True, slots=True)
class AffineMap:
    """A kernel that only moves elements: `result[pattern(axes)] = source[index(axes)]`."""

    source: Shape
    result: Shape
    axes: tuple[Axis, ...]
    pattern: Index
    index: Index
    fill: float | None

    def origin(self, index: Index, fill: float | None, ranges: Ranges) -> Origin | Split | None:
        """Return the source index of the result element at `index`."""
        outside = [
            d
            for d, (i, n) in enumerate(zip(index, self.result, strict=True))
            if fill is not None and not ranges.is_inside(i, n)
        ]
        if outside and self.fill not in (None, fill):
            return None
        if not all(self._leaves_with(d) for d in outside):
            return None
        values = solve(self.pattern, self.axes, self.result, index, ranges)
        if values is None or isinstance(values, Split):
            return values
        source_index = tuple(i.substitute(values) for i in self.index)
        if fill is None and all(map(ranges.is_inside, source_index, self.source)):
            return Origin(source_index, None)
        return Origin(source_index, self.fill if self.fill is not None else fill)

    def _leaves_with(self, d: int) -> bool:
        """Return True if an index that leaves the result at dim `d` leaves the source too."""
        axis = self.pattern[d].bare
        if axis is None or sum(axis in i.variables for i in self.pattern) != 1:
            return False
        uses = [(i, n) for i, n in zip(self.index, self.source, strict=True) if axis in i.variables]
        if len(uses) != 1:
            return False
        entry, extent = uses[0]
        before, size = entry.const, self.result[d]
        if entry.terms != ((axis, 1),) or not isinstance(before, int):
            return False
        if before == 0 and extent == size:
            return True
        return (
            isinstance(extent, int)
            and isinstance(size, int)
            and before <= 0
            and extent - before <= size
        )

    def destination(self, index: Index, ranges: Ranges) -> Index | Split | None:
        """Return the result index of the source element at `index`; None if none or several."""
        if self.fill is not None:
            return None
        values = solve(self.index, self.axes, self.source, index, ranges)
        if values is None or isinstance(values, Split):
            return values
        return tuple(i.substitute(values) for i in self.pattern)


CopyMap: TypeAlias = ViewMap | AffineMap


@by_identity
def copy_map(binding: Binding) -> tuple[Var, CopyMap] | None:
    """Return the source and the map of a binding that only moves elements."""
    match binding.expr:
        case View(arg, offset):
            source, result = arg.type, binding.var.type
            if (
                isinstance(source, Tensor)
                and isinstance(result, Tensor)
                and source.is_known
                and result.is_known
            ):
                return arg, ViewMap(source.dims, result.dims, offset)
        case KernelCall(kernel, (arg,), _) if len(kernel.computes) == 1:
            c, result_spec = kernel.computes[0], kernel.spec(kernel.computes[0].out)
            match c.expr:
                case Read(tensor, index, fill) if c.combiner is None:
                    spec, entries = kernel.spec(tensor), _affine_index(index)
                    if entries is None or spec.dtype != result_spec.dtype:
                        return None
                    return arg, AffineMap(
                        spec.shape, result_spec.shape, c.axes, c.target, entries, fill
                    )
    return None


def _affine_index(index: tuple[object, ...]) -> Index | None:
    entries = tuple(i for i in index if isinstance(i, Affine))
    return entries if len(entries) == len(index) else None
