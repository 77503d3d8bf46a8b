"""Small operators are cut finer until every unit has work (Roller, section 3.3; 5.4 in its
evaluation).
"""

from __future__ import annotations

from explorer.roller.rtile import RTile, TiledProgram
from explorer.roller.score import reuse_scores


def shrunk(program: TiledProgram, units: int, kept: int = 0) -> TiledProgram:
    """After: as many tiles as units, or tiles that cannot be cut. The axis that reuses least is
    halved first, in all levels but the `kept` nearest ones, of whose tiles the others are whole
    multiples.
    """
    first, now = program.tiles, program
    while now.grid < units:
        for axis in _least_reuse_first(now.tiles[0]):
            halves = _halves(now.tiles, axis, kept)
            if halves[0] != now.tiles[0]:
                now = TiledProgram(halves, program.border, first)
            if now.grid >= units:
                break
        else:
            if all(_halves(now.tiles, d, kept)[0] == now.tiles[0] for d in _spatial(now)):
                break
    return now


def _spatial(program: TiledProgram) -> range:
    return range(program.tiles[0].expression.spatial)


def _least_reuse_first(tile: RTile) -> list[int]:
    scores = reuse_scores(tile, (None,) * len(tile.shape), "artifact")
    return sorted(range(tile.expression.spatial), key=lambda d: scores[d])


def _halves(tiles: tuple[RTile, ...], axis: int, kept: int) -> tuple[RTile, ...]:
    """The tiles with an axis halved: never below one, or the tile that is kept."""
    base = tiles[-kept].shape[axis] if kept else 1
    changed = len(tiles) - kept
    return (*(_halved(t, axis, base) for t in tiles[:changed]), *tiles[changed:])


def _halved(tile: RTile, axis: int, base: int) -> RTile:
    half = -(-tile.shape[axis] // (2 * base)) * base
    return tile.with_size(axis, max(base, half)).padded(tile.padding)
