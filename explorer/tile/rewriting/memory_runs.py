"""Axes whose elements follow one another in memory, in whatever order they are iterated over."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.ir.shapes.dims import Dim
from explorer.tile.rewriting.vectorise import SIDES

MOST_INSIDE_ELEMENTS = 25  # in one step of the outermost axis: a bound on code size, chosen


def memory_runs(steps: Sequence[Dim], sizes: Sequence[Dim]) -> tuple[int, ...] | None:
    """Of columns, first, and the axes of a depth, those that are one run of elements: their
    numbers, the outermost in memory first. It is the columns, which have no other place here, or
    the first whose steps cover many elements. None: no axis is inside of it, or no square block.

    Steps 4608, 3, 1, 9 and sizes 32, 3, 3, 512: 3, 1, 2. Steps 9, 3, 1, 4608: 0, 1, 2.
    """
    found: list[int] = []
    step = 1
    while True:
        axes = (n for n, (s, size) in enumerate(zip(steps, sizes)) if s == step and size != 1)
        here = next(axes, None)
        if here is None:
            return None
        found.append(here)
        size = sizes[here]
        if here == 0 or not isinstance(size, int) or step * size > MOST_INSIDE_ELEMENTS:
            break
        step *= size
    if len(found) == 1 or (isinstance(size, int) and size < SIDES[4]):
        return None
    return tuple(reversed(found))
