"""Axes whose elements are contiguous in memory, in any loop order."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.ir.shapes.dims import Dim
from explorer.tile.rewriting.vectorise import SIDES

MOST_INSIDE_ELEMENTS = 25  # in one step of the outermost axis: a bound on code size, chosen


def memory_runs(steps: Sequence[Dim], sizes: Sequence[Dim]) -> tuple[int, ...] | None:
    """Return the axes that form one run of elements, outermost in memory first, by number.

    The axes are the columns, first, and those of a depth. The outermost is the columns' axis, which
    has no other place here, or the first whose steps cover many elements. None: no axis is inside
    of it, or no square block.

    Steps 4608, 3, 1, 9 and sizes 32, 3, 3, 512: 3, 1, 2. Steps 9, 3, 1, 4608: 0, 1, 2.
    """
    run: list[int] = []
    step = 1
    while True:
        axes = (n for n, (s, size) in enumerate(zip(steps, sizes)) if s == step and size != 1)
        axis = next(axes, None)
        if axis is None:
            return None
        run.append(axis)
        size = sizes[axis]
        if axis == 0 or not isinstance(size, int) or step * size > MOST_INSIDE_ELEMENTS:
            break
        step *= size
    if len(run) == 1 or (isinstance(size, int) and size < SIDES[4]):
        return None
    return tuple(reversed(run))
