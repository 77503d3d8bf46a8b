"""What a view or a copy does, as a map from the indices of its result to those of its source, and
back.
"""

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
    """Where an element of the result is read: an index of the source, and what is outside of it."""

    index: Index
    fill: float | None


@dataclass(frozen=True, slots=True)
class ViewMap:
    """The same bytes, `offset` elements in."""

    source: Shape
    result: Shape
    offset: Dim = 0

    def origin(self, index: Index, fill: float | None, ranges: Ranges) -> Origin | Split | None:
        """Where the element of the result at `index` is in the source."""
        found = through_reshape(index, self.result, self.source, ranges, self.offset)
        return Origin(found, fill) if isinstance(found, tuple) else found

    def destination(self, index: Index, ranges: Ranges) -> Index | Split | None:
        """Where the element of the source at `index` is in the result; None where some are in no
        place.
        """
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
        """Where the element of the result at `index` is in the source."""
        outside = [
            d
            for d, (i, n) in enumerate(zip(index, self.result, strict=True))
            if fill is not None and not ranges.inside(i, n)
        ]
        if outside and self.fill not in (None, fill):
            return None
        if not all(self._leaves_with(d) for d in outside):
            return None
        values = solve(self.pattern, self.axes, self.result, index, ranges)
        if values is None or isinstance(values, Split):
            return values
        found = tuple(i.substitute(values) for i in self.index)
        if fill is None and all(map(ranges.inside, found, self.source)):
            return Origin(found, None)
        return Origin(found, self.fill if self.fill is not None else fill)

    def _leaves_with(self, d: int) -> bool:
        """Whether an index that leaves the result at dim `d` leaves the source too."""
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
        """Where the element of the source at `index` is in the result; None where some are in no
        place or in several.
        """
        if self.fill is not None:
            return None
        values = solve(self.index, self.axes, self.source, index, ranges)
        if values is None or isinstance(values, Split):
            return values
        return tuple(i.substitute(values) for i in self.pattern)


CopyMap: TypeAlias = ViewMap | AffineMap


@by_identity
def copy_map(binding: Binding) -> tuple[Var, CopyMap] | None:
    """The source and the map of a binding that moves elements and does nothing else."""
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
                    spec, entries = kernel.spec(tensor), _affine(index)
                    if entries is None or spec.dtype != result_spec.dtype:
                        return None
                    return arg, AffineMap(
                        spec.shape, result_spec.shape, c.axes, c.target, entries, fill
                    )
    return None


def _affine(index: tuple[object, ...]) -> Index | None:
    entries = tuple(i for i in index if isinstance(i, Affine))
    return entries if len(entries) == len(index) else None
