"""The parts of tensors and of axes that one task has, as numbers that a binding gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple, TypeAlias

from explorer.devices.model import LINE_BYTES, PAGE_BYTES
from explorer.ir.patterns.regions import Interval
from explorer.ir.shapes.dims import Dim

Numbers: TypeAlias = Sequence[int]  # the dims of a kernel under one binding
Short: TypeAlias = Mapping[str, int]  # by tile variable: how much shorter than a whole tile


def place(dims: list[Dim], dim: Dim) -> int:
    """Where a dim's number will be."""
    dims.append(dim)
    return len(dims) - 1


class Side(NamedTuple):
    """An axis in a task: where its extent is, that of its tile where it has one (else -1), and by
    how much each tile variable moves it.
    """

    extent: int
    tile: int
    moves: tuple[tuple[str, int], ...] = ()

    def of(self, numbers: Numbers, short: Short) -> int:
        """How many values of the axis a task has."""
        extent = numbers[self.extent]
        if self.tile < 0:
            return extent
        size = numbers[self.tile]
        if short:
            for variable, factor in self.moves:
                size -= factor * short.get(variable, 0)
        return max(1, min(extent, size))


def side(extent: Dim, interval: Interval | None, dims: list[Dim]) -> Side:
    """An axis whose tile is an interval of it, or all of it."""
    if interval is None:
        return Side(place(dims, extent), -1)
    moves = [(n, abs(k)) for n, k in interval.lo.terms if isinstance(k, int)]
    return Side(place(dims, extent), place(dims, interval.size), tuple(moves))


class Part(NamedTuple):
    """The part of a tensor that a task touches; of one whose elements go where data says, as much
    as the task has of the axes that data selects along.
    """

    item_bytes: int
    sides: tuple[Side, ...]
    inside: bool
    written: bool
    constant: bool = False
    selected: tuple[Side, ...] = ()

    def shape_of(self, numbers: Numbers, short: Short) -> tuple[int, ...]:
        """The extents of the part."""
        return tuple([one.of(numbers, short) for one in self.sides])

    def moved(self, numbers: Numbers, short: Short) -> tuple[int, float]:
        """Bytes of the part, in whole lines where a task takes a few elements of each row; and how
        often it goes on in another page, where nothing was fetched ahead.
        """
        run = rows = whole = 1
        stride = 0
        for one in reversed(self.sides):
            n, extent = one.of(numbers, short), numbers[one.extent]
            if stride:
                rows *= n
            else:
                run, whole = run * n, whole * extent
                stride = whole * self.item_bytes if n != extent else 0
        size = run * self.item_bytes
        if not stride or self.inside:
            return self._share(rows * size, numbers, short), 0.0
        lines = -(-size // LINE_BYTES)
        moved = self._share(rows * lines * LINE_BYTES, numbers, short)
        return moved, rows * min(1.0, stride / PAGE_BYTES)

    def _share(self, count: int, numbers: Numbers, short: Short) -> int:
        for one in self.selected:
            count = -(-count * one.of(numbers, short) // max(1, numbers[one.extent]))
        return count

    def whole_bytes(self, numbers: Numbers) -> int:
        """Of the whole tensor."""
        return prod([numbers[one.extent] for one in self.sides]) * self.item_bytes
