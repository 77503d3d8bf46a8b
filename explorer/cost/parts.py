"""Parts of tensors and axes in one task, as slots of numbers that a binding fills."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple, TypeAlias

from explorer.devices.model import LINE_BYTES, PAGE_BYTES
from explorer.ir.patterns.regions import Interval
from explorer.ir.shapes.dims import Dim

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
