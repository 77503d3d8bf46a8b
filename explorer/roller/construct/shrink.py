"""Shrinking of small operators' tiles until every unit has work (Roller, sections 3.3 and 5.4).

`Waves` tells how evenly a tile fills the units of a device.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from explorer.roller.construct.enlarge import reuse_scores
from explorer.roller.construct.rtile import RTile, TiledProgram


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


@dataclass(frozen=True, slots=True)
class Waves:
    """`grid` copies over `units` units that hold `per_unit` copies each."""

    grid: int
    units: int
    per_unit: int = 1

    @property
    def places(self) -> int:
        """The number of copies that run at the same time."""
        return self.units * self.per_unit

    @property
    def waves(self) -> int:
        """The number of times that the units are filled."""
        return -(-self.grid // self.places)

    @property
    def last(self) -> int:
        """The number of copies in the last wave."""
        return self.grid - (self.waves - 1) * self.places if self.grid else 0

    @property
    def efficiency(self) -> float:
        """The share of the peak that is left: full waves reach all of it."""
        return self.grid / (self.waves * self.places) if self.grid else 0.0

    def copies(self, wave: int) -> int:
        """Return the number of copies of a wave."""
        return self.last if wave == self.waves - 1 else self.places
