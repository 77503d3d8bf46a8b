"""Memory levels in which tiles grow, farthest from the registers first, and their rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from explorer.roller.construct.alignment import RuleCheck
from explorer.roller.construct.rtile import RTile

Larger = tuple[int | None, ...]  # the next aligned size of each axis, None at the last


@dataclass(frozen=True, slots=True)
class TileLevel:
    """A memory that holds a tile, and the one that feeds it.

    `capacity` counts `counted` ("bytes", or registers of a thread or core). `gb_per_s` is the
    bandwidth of one unit from `source`; `transaction_bytes` is the size of one transfer.
    """

    name: str
    source: str
    capacity: int
    counted: str
    gb_per_s: float
    transaction_bytes: int


@dataclass(frozen=True, slots=True)
class Room:
    """The use of one limit by a tile: shared bytes, registers of a block, threads of a block."""

    limit: str
    used: int
    capacity: int

    @property
    def fits(self) -> bool:
        """Return True if the use is within the capacity."""
        return self.used <= self.capacity


class LevelRules(Protocol):
    """The rules of hardware for tiles.

    `tiles` are those of a level and of all nearer ones, the unit tile last; `level` counts from the
    farthest.
    """

    @property
    def levels(self) -> tuple[TileLevel, ...]:
        """The levels, farthest first."""

    @property
    def eps_step(self) -> float:
        """The step in which the allowed waste grows from round to round."""

    @property
    def choice_eps(self) -> float:
        """The waste that is allowed for more results than one."""

    @property
    def kept_tiles(self) -> int:
        """The nearest tiles that stay as they are where operators are cut finer."""

    def sizes(self, base: RTile, level: int) -> tuple[tuple[int, ...], ...]:
        """Return the aligned sizes of every axis, increasing, from the next nearer level's tile."""

    def clips(self, level: int) -> bool:
        """Return True if tiles of a level end with the tensor, so that no size wastes anything."""

    def stored(self, tiles: tuple[RTile, ...], level: int) -> RTile:
        """Return the first of the tiles with its storage padding."""

    def rooms(self, tiles: tuple[RTile, ...], level: int) -> tuple[Room, ...]:
        """Return the tile's use of each limit."""

    def aligned(self, tiles: tuple[RTile, ...], level: int) -> RuleCheck:
        """Check that the tile fills execution units."""

    def saturated(self, tiles: tuple[RTile, ...], level: int, larger: Larger) -> bool:
        """Return True if growth may stop here: the tile is worth the level that it is in.

        `larger` are the sizes that its axes would be enlarged to.
        """

    def compute_us(self, tile: RTile, level: int) -> float:
        """Return one unit's time to compute the tile over the full reduction."""

    def memory_us(self, tile: RTile, level: int) -> float:
        """Return one unit's time to load and store the tile at that level."""

    def order(self, tile: RTile, scores: tuple[float, ...], level: int) -> tuple[int, ...]:
        """Return the axes in the order in which to enlarge them."""
