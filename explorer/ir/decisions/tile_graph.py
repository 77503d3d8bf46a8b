"""What Welder decided: groups of kernels, and the tiles that they hand over."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.ir.decisions.candidate import Candidate
from explorer.ir.shapes.dims import Dim


@dataclass(frozen=True, slots=True)
class TileEdge:
    """An intermediate between two kernels and the memory level at which its tile is handed over.

    `reuse_tile`: the extents of the part that is handed over at once; of all of it where the level
    is the last one, () where it is not known.
    """

    source: str  # binding names before welding; computes of the kernel in a `GroupPlan`
    target: str
    tensor: str
    bytes: Dim
    level: str  # "register", "L1", "L2", "L3", "DRAM"; "register", "shared", "DRAM" on a GPU
    reuse_tile: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class OperatorTile:
    """The part of a tensor that one operator of a group reads or writes for one tile of a level:
    one rectangle of the picture.
    """

    node: str  # the compute, by the tensor that it writes
    tensor: str
    tile: tuple[int, ...]
    full: tuple[int, ...]  # the extents of the tensor
    bytes: int  # of the tile
    level: str  # the memory that holds it


@dataclass(frozen=True, slots=True)
class LevelBytes:
    """One memory under a plan: bytes that a unit's tile holds in it, bytes that it has room for
    (None: all), and bytes moved in all between it and the next farther one. The farthest holds
    what the group reads and writes, and moves nothing more.
    """

    level: str
    footprint: int
    capacity: int | None
    traffic: int

    @property
    def fits(self) -> bool:
        """Whether there is room."""
        return self.capacity is None or self.footprint <= self.capacity


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """A group's tiles over the memory levels of a device, under the hints of its symbols.

    `level` is the memory that holds a task's tile, `tile` its sizes by axis of the output, `grid`
    how many tasks there are, and `waves` how often all units take one together. `levels` and
    `tiles` are nearest memory first. `recompute`: work of all tasks, halos done again included,
    over the work without (1.0: nothing is done twice).
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
        """Whether every memory has room for its tile."""
        return all(m.fits for m in self.levels)

    def at(self, level: str) -> LevelBytes:
        """What a memory holds and moves."""
        return next(m for m in self.levels if m.level == level)


@dataclass(frozen=True, slots=True)
class FusionGroup:
    """The kernels that became one: their names in order, and bytes moved to and from memory before
    and after.
    """

    name: str  # the binding after welding
    members: tuple[str, ...]
    kinds: tuple[str, ...]
    bytes_before: int
    bytes_after: int
    steps: tuple[Candidate[bool], ...] = ()  # each merge that was weighed, with its terms
    origin: frozenset[str] = frozenset()
    plan: GroupPlan | None = None  # its tiles over the memory levels


@dataclass(frozen=True, slots=True)
class TileGraph:
    """Groups and the edges between and inside of them."""

    groups: tuple[FusionGroup, ...]
    edges: tuple[TileEdge, ...]
    policy: str = ""
