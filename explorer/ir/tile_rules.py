"""Validation of tiles: pairs of an axis that exists and a size within its extent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from explorer.ir.dims import Dim


def as_integer(value: object) -> int | None:
    """Convert an integer of Python or NumPy to int; return None for anything else, also bool."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        return None
    return int(value)


def tile_problem(tile: Any, axes: Mapping[str, Dim]) -> str:
    """Return the first rule that a tile breaks, with the number; "" if it is valid.

    `axes` are those that may be tiled, with their extents. An axis of unknown extent may have a
    tile of any size: capacity is checked elsewhere.
    """
    problem = form_problem(tile, axes)
    if problem:
        return problem
    for axis, value in tile:
        size, extent = int(value), axes[axis]
        most = max(1, extent) if isinstance(extent, int) else None
        if size < 1 or (most is not None and size > most):
            upto = "1 or more" if most is None else f"1 to {most}"
            return f"the tile of {axis} is {size}, and must be {upto}"
    return ""


def form_problem(tile: Any, axes: Mapping[str, Dim] | None = None) -> str:
    """Return the first rule of form that a tile breaks; "" if it is well formed.

    A tile is a sequence of (axis, size) pairs. Each axis occurs once, is in `axes` if they are
    given, and its size is an integer.
    """
    if not isinstance(tile, Sequence) or isinstance(tile, str):
        return f"a tile is pairs of an axis and its size, found {type(tile).__name__}"
    seen: set[str] = set()
    for pair in tile:
        if not (isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[0], str)):
            return f"a tile is pairs of an axis and its size, found {str(pair)[:60]}"
        axis, value = pair
        if axes is not None and axis not in axes:
            there = ", ".join(axes) or "none"
            return f"there is no axis {axis[:60]} to tile: there are {there}"
        if axis in seen:
            return f"the tile names {axis} twice"
        seen.add(axis)
        if as_integer(value) is None:
            kind = type(value).__name__
            return f"the tile of {axis} is {str(value)[:60]} ({kind}), and must be a whole number"
    return ""
