"""Welder's decision: groups of kernels, and the tiles that pass between them."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.ir.decisions.candidate import Candidate
from explorer.ir.dims import Dim


@dataclass(frozen=True, slots=True)
class TileEdge:
    """An intermediate between two kernels, and the memory level through which its tile passes.

    `reuse_tile` has the extents of the part that passes at once: those of the whole tensor for the
    last level, () where they are not known.
    """

    source: str  # a binding name before fusion; in a `GroupPlan` a compute
    target: str
    tensor: str
    bytes: Dim
    level: str  # "register", "L1", "L2", "L3", "DRAM"; "register", "shared", "DRAM" on a GPU
    reuse_tile: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class OperatorTile:
    """The part of a tensor that one operator of a group reads or writes for one tile of a level.

    It is one rectangle of the picture.
    """

    node: str  # the compute, by the tensor that it writes
    tensor: str
    tile: tuple[int, ...]
    full: tuple[int, ...]  # the extents of the tensor
    bytes: int  # of the tile
    level: str  # the memory that holds it


@dataclass(frozen=True, slots=True)
class LevelBytes:
    """The use of one memory under a plan.

    It has the bytes of a unit's tile, the memory's capacity (None: all), and the bytes moved in
    total between it and the next farther memory. The farthest holds the group's inputs and outputs
    and has no traffic of its own.
    """

    level: str
    footprint: int
    capacity: int | None
    traffic: int

    @property
    def fits(self) -> bool:
        """Return True if the footprint is within the capacity."""
        return self.capacity is None or self.footprint <= self.capacity


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """A group's tiles over the memory levels of a device, under the hints of its symbols.

    `level` is the memory that holds a task's tile, `tile` its sizes by axis of the output, `grid`
    the number of tasks, and `waves` the number of times that all units take one task each. `levels`
    and `tiles` are nearest memory first. `recompute` is the work of all tasks, recomputed halos
    included, over the work without them (1.0: nothing is done twice).
    """

    level: str
    tile: tuple[tuple[str, int], ...]
    grid: int
    waves: int
    levels: tuple[LevelBytes, ...]
    tiles: tuple[OperatorTile, ...]
    edges: tuple[TileEdge, ...]
    recompute: float
    predicted_us: float

    @property
    def fits(self) -> bool:
        """Return True if the tile fits every memory."""
        return all(m.fits for m in self.levels)

    def at(self, level: str) -> LevelBytes:
        """Return the use of one memory."""
        return next(m for m in self.levels if m.level == level)


@dataclass(frozen=True, slots=True)
class FusionGroup:
    """Kernels that were fused into one: their names in order, and memory traffic before and after.

    The traffic is in bytes to and from main memory.
    """

    name: str  # the binding after fusion
    members: tuple[str, ...]
    kinds: tuple[str, ...]
    bytes_before: int
    bytes_after: int
    steps: tuple[Candidate[bool], ...] = ()  # each merge that was weighed, with its terms
    origin: frozenset[str] = frozenset()
    plan: GroupPlan | None = None  # tiles at the memory levels


@dataclass(frozen=True, slots=True)
class TileGraph:
    """Groups and the edges between and inside of them."""

    groups: tuple[FusionGroup, ...]
    edges: tuple[TileEdge, ...]
    policy: str = ""
