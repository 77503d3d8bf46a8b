"""The memory levels that a device's tiles are grown in, farthest from the registers first."""

from __future__ import annotations

from dataclasses import dataclass


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
