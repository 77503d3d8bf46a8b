"""What a tile must be before anybody computes with it: axes that there are, sizes that fit them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from explorer.ir.shapes.dims import Dim


def whole(value: object) -> int | None:
    """A whole number as Python's own, NumPy's taken along; None for all else, True among it."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        return None
    return int(value)


def tile_problem(tile: Any, axes: Mapping[str, Dim]) -> str:
    """The first rule that sizes by axis break, with the number; empty where they keep all.

    `axes` are those that may be cut, with their extents. An axis of unknown extent may have a tile
    of any size: how much room that takes is asked elsewhere.
    """
    wrong = form_problem(tile, axes)
    if wrong:
        return wrong
    for axis, given in tile:
        size, extent = int(given), axes[axis]
        most = max(1, extent) if isinstance(extent, int) else None
        if size < 1 or (most is not None and size > most):
            upto = "1 or more" if most is None else f"1 to {most}"
            return f"the tile of {axis} is {size}, and must be {upto}"
    return ""


def form_problem(tile: Any, axes: Mapping[str, Dim] | None = None) -> str:
    """The first rule of form that sizes by axis break: pairs, of an axis that there is where `axes`
    are given, each once, and a whole number; empty where they keep all.
    """
    if not isinstance(tile, Sequence) or isinstance(tile, str):
        return f"a tile is pairs of an axis and its size, found {type(tile).__name__}"
    seen: set[str] = set()
    for pair in tile:
        if not (isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[0], str)):
            return f"a tile is pairs of an axis and its size, found {str(pair)[:60]}"
        axis, given = pair
        if axes is not None and axis not in axes:
            there = ", ".join(axes) or "none"
            return f"there is no axis {axis[:60]} to tile: there are {there}"
        if axis in seen:
            return f"the tile names {axis} twice"
        seen.add(axis)
        if whole(given) is None:
            kind = type(given).__name__
            return f"the tile of {axis} is {str(given)[:60]} ({kind}), and must be a whole number"
    return ""
