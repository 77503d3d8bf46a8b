"""Small operators are cut finer until every unit has work (Roller, section 3.3; 5.4 in its
evaluation).
"""

from __future__ import annotations

from explorer.roller.rtile import RTile, TiledProgram
from explorer.roller.score import reuse_scores


def shrunk(program: TiledProgram, units: int) -> TiledProgram:
    """After: as many tiles as units, or tiles of one output. The axis that reuses least is halved
    first, in all levels.
    """
    tiles, now = program.tiles, program
    while now.grid < units and any(n > 1 for n in now.tiles[0].spatial):
        for axis in _least_reuse_first(now.tiles[0]):
            if now.tiles[0].shape[axis] == 1:
                continue
            halves = tuple(_halved(t, axis) for t in now.tiles)
            now = TiledProgram(halves, program.border, tiles)
            if now.grid >= units:
                break
    return now


def _least_reuse_first(tile: RTile) -> list[int]:
    scores = reuse_scores(tile, (None,) * len(tile.shape), "artifact")
    return sorted(range(tile.expression.spatial), key=lambda d: scores[d])


def _halved(tile: RTile, axis: int) -> RTile:
    half = tile.with_size(axis, -(-tile.shape[axis] // 2))
    return half.padded(tile.padding)
