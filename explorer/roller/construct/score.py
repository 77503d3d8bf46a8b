"""Scores of axes to enlarge, those of Roller's paper (section 3.3) and of its artifact."""

from __future__ import annotations

from typing import Literal

from explorer.roller.construct.rtile import RTile, intensity, whole_tile

Score = Literal["paper", "artifact"]
SCORES: tuple[Score, ...] = ("paper", "artifact")


def reuse_scores(tile: RTile, larger: tuple[int | None, ...], rule: Score) -> tuple[float, ...]:
    """Return the score of enlarging each axis; `larger` are the next aligned sizes.

    "paper": S = (Q(T) - Q(T')) / (F(T') - F(T)), bytes of the operator's traffic saved for each
    byte of room. "artifact": operations a byte of traffic after one step along the axis.
    """
    axes = range(len(tile.shape))
    if rule == "artifact":
        e, shape = tile.expression, tile.shape
        return tuple([intensity(e, (*shape[:d], shape[d] + 1, *shape[d + 1 :])) for d in axes])
    return tuple(0.0 if size is None else _saved(tile, d, size) for d, size in enumerate(larger))


def _saved(tile: RTile, axis: int, size: int) -> float:
    grown = tile.with_size(axis, size)
    saved = operator_traffic(tile) - operator_traffic(grown)
    room = grown.footprint_bytes - tile.footprint_bytes
    if room <= 0:
        return float("inf") if saved > 0 else 0.0
    return saved / room


def operator_traffic(tile: RTile) -> int:
    """Return the bytes that the full operator moves if it is cut into such tiles."""
    return tile.traffic_bytes * whole_tile(tile.expression).count(tile)
