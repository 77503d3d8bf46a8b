"""Shrinking of small operators' tiles until every unit has work (Roller, sections 3.3 and 5.4)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from math import prod

from explorer.roller.construct.rtile import RTile, TiledProgram
from explorer.roller.construct.score import reuse_scores


def shrink_tiles(program: TiledProgram, units: int, kept_levels: int = 0) -> TiledProgram:
    """Shrink the tiles until there are as many as units.

    After: as many tiles as units, or tiles that cannot be cut. The axis that reuses least is halved
    first, in all levels but the `kept_levels` nearest. The others are multiples of these tiles.
    """
    axes = range(program.tiles[0].expression.spatial)
    return deque(finer(program, units, axes, kept_levels), 1)[0]


def finer(
    program: TiledProgram, units: int, axes: Sequence[int], kept_levels: int = 0
) -> Iterator[TiledProgram]:
    """Yield the program, and each finer cut of it until there are as many tiles as units.

    Tiles are counted along the axes that units may partition.
    """
    first, now = program.tiles, program
    yield now
    halved = True
    while halved:
        halved = False
        for axis in _least_reuse_first(now.tiles[0], axes):
            if _copies(now, axes) >= units:
                return
            halves = _halves(now.tiles, axis, kept_levels)
            if halves[0] != now.tiles[0]:
                now, halved = TiledProgram(halves, program.border, first), True
                yield now


def _copies(program: TiledProgram, axes: Sequence[int]) -> int:
    """Return the number of tiles along some axes, which is that of units with work."""
    tile = program.tiles[0]
    return prod(-(-tile.expression.extents[d] // tile.shape[d]) for d in axes)


def _least_reuse_first(tile: RTile, axes: Sequence[int]) -> list[int]:
    scores = reuse_scores(tile, (None,) * len(tile.shape), "artifact")
    return sorted(axes, key=lambda d: scores[d])


def _halves(tiles: tuple[RTile, ...], axis: int, kept_levels: int) -> tuple[RTile, ...]:
    """Return the tiles with an axis halved: never below one, or the nearest unchanged level."""
    base = tiles[-kept_levels].shape[axis] if kept_levels else 1
    changed = len(tiles) - kept_levels
    return (*(_halved(t, axis, base) for t in tiles[:changed]), *tiles[changed:])


def _halved(tile: RTile, axis: int, base: int) -> RTile:
    half = -(-tile.shape[axis] // (2 * base)) * base
    return tile.with_size(axis, max(base, half)).padded(tile.padding)
