"""Parts of tensors and axes in one task, as slots of numbers that a binding fills.

Windows read patches, and rows that data selects are read one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple, TypeAlias

from explorer.devices.model import LINE_BYTES, PAGE_BYTES
from explorer.ir.affine import Affine
from explorer.ir.by_identity import by_identity
from explorer.ir.dims import Dim, simplify
from explorer.ir.kernel import Expr, Kernel, Read, reads
from explorer.ir.kernels.regions import Interval, Region, Regions, box
from explorer.ir.kernels.scatter import patch

Numbers: TypeAlias = Sequence[int]  # the dims of a kernel under one binding
Short: TypeAlias = Mapping[str, int]  # by tile variable: how much shorter than a full tile


def add_dim(dims: list[Dim], dim: Dim) -> int:
    """Append a dim and return its slot."""
    dims.append(dim)
    return len(dims) - 1


class TaskAxis(NamedTuple):
    """An axis in a task.

    The slot of its extent, that of its tile (-1: none), and by how much each tile variable moves
    it.
    """

    extent: int
    tile: int
    moves: tuple[tuple[str, int], ...] = ()

    def of(self, numbers: Numbers, short: Short) -> int:
        """Return the number of the axis's values in a task."""
        extent = numbers[self.extent]
        if self.tile < 0:
            return extent
        size = numbers[self.tile]
        if short:
            for variable, factor in self.moves:
                size -= factor * short.get(variable, 0)
        return max(1, min(extent, size))


def task_axis(extent: Dim, interval: Interval | None, dims: list[Dim]) -> TaskAxis:
    """Build an axis whose tile is an interval of it, or all of it."""
    if interval is None:
        return TaskAxis(add_dim(dims, extent), -1)
    moves = [(n, abs(k)) for n, k in interval.lo.terms if isinstance(k, int)]
    return TaskAxis(add_dim(dims, extent), add_dim(dims, interval.size), tuple(moves))


class TensorPart(NamedTuple):
    """The part of a tensor that a task touches.

    Of a tensor whose elements data selects, it is as much as the task has of the selecting axes.
    """

    item_bytes: int
    axes: tuple[TaskAxis, ...]
    inside: bool
    written: bool
    constant: bool = False
    selected: tuple[TaskAxis, ...] = ()

    def shape_of(self, numbers: Numbers, short: Short) -> tuple[int, ...]:
        """Return the extents of the part."""
        return tuple([axis.of(numbers, short) for axis in self.axes])

    def moved(self, numbers: Numbers, short: Short) -> tuple[int, float]:
        """Return the bytes of the part, and the page changes without prefetch.

        Bytes are counted in full lines if a task takes a few elements of each row.
        """
        run = rows = row_length = 1
        stride = 0
        for axis in reversed(self.axes):
            n, extent = axis.of(numbers, short), numbers[axis.extent]
            if stride:
                rows *= n
            else:
                run, row_length = run * n, row_length * extent
                stride = row_length * self.item_bytes if n != extent else 0
        size = run * self.item_bytes
        if not stride or self.inside:
            return self._share(rows * size, numbers, short), 0.0
        lines = -(-size // LINE_BYTES)
        moved = self._share(rows * lines * LINE_BYTES, numbers, short)
        return moved, rows * min(1.0, stride / PAGE_BYTES)

    def _share(self, count: int, numbers: Numbers, short: Short) -> int:
        for axis in self.selected:
            count = -(-count * axis.of(numbers, short) // max(1, numbers[axis.extent]))
        return count

    def whole_bytes(self, numbers: Numbers) -> int:
        """Return the bytes of the full tensor."""
        return prod([numbers[axis.extent] for axis in self.axes]) * self.item_bytes


def narrow_to_patches(kernel: Kernel, regions: Regions) -> Regions:
    """Narrow the regions of a task to the parts that its updates change."""
    axes, tensors = list(regions.axes), dict(regions.tensors)
    for n, c in enumerate(kernel.computes):
        update = patch(kernel, c)
        if update is None:
            continue
        for part in update.parts:
            ranges = dict(axes[n])
            ranges[part.axis.name] = _at_most(ranges[part.axis.name], part.size)
            axes[n] = ranges
            dim = next(d for d, i in enumerate(c.target) if i.bare == part.axis.name)
            for name in (c.out, update.base):
                region = list(tensors[name])
                region[dim] = _at_most(region[dim], part.size)
                tensors[name] = tuple(region)
    return Regions(axes, tensors)


def _at_most(r: Interval, size: object) -> Interval:
    """Limit a range to `size` elements."""
    if isinstance(size, int) and (not isinstance(r.size, int) or r.size > size):
        return replace(r, size=size)
    return r


def gathered_regions(kernel: Kernel, kernel_regions: Regions) -> dict[str, Region]:
    """Return the regions of gathered tensors.

    Along a dim that data selects, a task reads at most as many positions as it has iterations of
    the axes that the data depend on. Tensors that are read in several ways are left out.
    """
    boxes: dict[str, set[Region]] = {}
    for number, r in _gather_reads(kernel):
        ranges = kernel_regions.axes[number]
        places = box(r.index, ranges, kernel.shape(r.tensor))
        region = tuple(
            place if isinstance(i, Affine) else Interval(Affine(), _iterations(i, ranges))
            for i, place in zip(r.index, places, strict=True)
        )
        boxes.setdefault(r.tensor, set()).add(region)
    return {name: next(iter(regions)) for name, regions in boxes.items() if len(regions) == 1}


@by_identity
def _gather_reads(kernel: Kernel) -> tuple[tuple[int, Read], ...]:
    """Return every read of tensors that data selects from, with the number of its compute."""
    every = [(n, r) for n, c in enumerate(kernel.computes) for r in reads(c.expr)]
    selected = {r.tensor for _, r in every if not all(isinstance(i, Affine) for i in r.index)}
    return tuple((n, r) for n, r in every if r.tensor in selected)


def _iterations(index: Expr, ranges: Mapping[str, Interval]) -> Dim:
    """Return the number of iterations of the axes that an index depends on."""
    every = {n for r in reads(index) for i in r.index if isinstance(i, Affine) for n, _ in i.terms}
    size: Dim = 1
    for name in sorted(every):
        size = size * ranges[name].size
    return simplify(size)
