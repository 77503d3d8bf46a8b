"""The memory levels that a device's tiles are grown in, farthest from the registers first, and what
a level asks of its tiles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from explorer.roller.construct.alignment import Answer
from explorer.roller.construct.rtile import RTile

Larger = tuple[int | None, ...]  # the next aligned size of each axis, None at the last


@dataclass(frozen=True, slots=True)
class TileLevel:
    """A memory that holds a tile, and the one that feeds it.

    `capacity` counts `counted` ("bytes", or registers of a thread or core); `gb_per_s` is what one
    unit gets from `source`; `transaction_bytes` is what moves at once.
    """

    name: str
    source: str
    capacity: int
    counted: str
    gb_per_s: float
    transaction_bytes: int


@dataclass(frozen=True, slots=True)
class Room:
    """How much of a limit a tile takes: shared bytes, registers of a block, threads of a block."""

    limit: str
    used: int
    capacity: int

    @property
    def fits(self) -> bool:
        """Whether there is room."""
        return self.used <= self.capacity


class LevelRules(Protocol):
    """What hardware asks of tiles. `tiles` are those of a level and of all nearer ones, the unit
    tile last; `level` counts from the farthest.
    """

    @property
    def levels(self) -> tuple[TileLevel, ...]:
        """Farthest first."""

    def sizes(self, base: RTile, level: int) -> tuple[tuple[int, ...], ...]:
        """The aligned sizes of every axis, increasing, from the tile of the next nearer level."""

    def clips(self, level: int) -> bool:
        """Whether tiles of a level end where the tensor does, so that their size wastes nothing."""

    def stored(self, tiles: tuple[RTile, ...], level: int) -> RTile:
        """The first of the tiles with its storage padding."""

    def rooms(self, tiles: tuple[RTile, ...], level: int) -> tuple[Room, ...]:
        """What the tile takes of each limit."""

    def aligned(self, tiles: tuple[RTile, ...], level: int) -> Answer:
        """Whether the tile fills execution units."""

    def saturated(self, tiles: tuple[RTile, ...], level: int, larger: Larger) -> bool:
        """Whether growth may stop here: the tile is worth the level that it is in. `larger` are the
        sizes that its axes would be enlarged to.
        """

    def compute_us(self, tile: RTile, level: int) -> float:
        """One unit's time to compute the tile over the whole reduction."""

    def memory_us(self, tile: RTile, level: int) -> float:
        """One unit's time to load and store it at that level."""

    def order(self, tile: RTile, scores: tuple[float, ...], level: int) -> tuple[int, ...]:
        """The axes, the one to enlarge first first."""
