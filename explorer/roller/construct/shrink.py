"""Small operators are cut finer until every unit has work (Roller, section 3.3; 5.4 in its
evaluation).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from math import prod

from explorer.roller.construct.rtile import RTile, TiledProgram
from explorer.roller.construct.score import reuse_scores


def shrunk(program: TiledProgram, units: int, kept: int = 0) -> TiledProgram:
    """After: as many tiles as units, or tiles that cannot be cut. The axis that reuses least is
    halved first, in all levels but the `kept` nearest ones, of whose tiles the others are whole
    multiples.
    """
    axes = range(program.tiles[0].expression.spatial)
    return deque(finer(program, units, axes, kept), 1)[0]


def finer(
    program: TiledProgram, units: int, axes: Sequence[int], kept: int = 0
) -> Iterator[TiledProgram]:
    """The program, and each that is cut finer on the way to as many tiles as units along the axes
    that these may share out.
    """
    first, now = program.tiles, program
    yield now
    halved = True
    while halved:
        halved = False
        for axis in _least_reuse_first(now.tiles[0], axes):
            if _copies(now, axes) >= units:
                return
            halves = _halves(now.tiles, axis, kept)
            if halves[0] != now.tiles[0]:
                now, halved = TiledProgram(halves, program.border, first), True
                yield now


def _copies(program: TiledProgram, axes: Sequence[int]) -> int:
    """Tiles along some axes: how many units have work where they share out these."""
    tile = program.tiles[0]
    return prod(-(-tile.expression.extents[d] // tile.shape[d]) for d in axes)


def _least_reuse_first(tile: RTile, axes: Sequence[int]) -> list[int]:
    scores = reuse_scores(tile, (None,) * len(tile.shape), "artifact")
    return sorted(axes, key=lambda d: scores[d])


def _halves(tiles: tuple[RTile, ...], axis: int, kept: int) -> tuple[RTile, ...]:
    """The tiles with an axis halved: never below one, or the tile that is kept."""
    base = tiles[-kept].shape[axis] if kept else 1
    changed = len(tiles) - kept
    return (*(_halved(t, axis, base) for t in tiles[:changed]), *tiles[changed:])


def _halved(tile: RTile, axis: int, base: int) -> RTile:
    half = -(-tile.shape[axis] // (2 * base)) * base
    return tile.with_size(axis, max(base, half)).padded(tile.padding)
