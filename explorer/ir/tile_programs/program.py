"""One task as a whole: its grid, its statements, its buffers."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.ir.decisions.tiling import Block
from explorer.ir.shapes.dims import Dim, Sizes, ceil_div, evaluate_dim
from explorer.ir.tile_programs.elements import Buffer
from explorer.ir.tile_programs.statements import Statement
from explorer.ir.types import DType


@dataclass(frozen=True, slots=True)
class Grid:
    """One tile variable: the task number is split over these, the last one fastest."""

    variable: str
    axis: str
    tile: int
    extent: Dim

    @property
    def count(self) -> Dim:
        """How many tiles there are along the axis."""
        return ceil_div(self.extent, self.tile)


@dataclass(frozen=True, slots=True)
class Packing:
    """A constant laid out ahead: element `offset + index . strides` of the flat `source`, for every
    index of [batch..., column, depth...], moved to [batch..., columns / lanes, depth, lanes], zero
    past the last column. Groups are of neighbours along the depth, [..., depth / group, lanes,
    group], with zeros to the end of the last group of the last depth axis.
    """

    name: str
    source: str
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    batch: int  # how many of the leading extents are batch dims
    lanes: int
    dtype: DType = "float32"
    group: int = 1


@dataclass(frozen=True, slots=True)
class TileProgram:
    """One task, as a function of the tile variables of `grid`: of a worker, or of a thread block.

    `block`: what rewrites for a GPU are to make of it.
    """

    grid: tuple[Grid, ...]
    body: tuple[Statement, ...]
    buffers: tuple[Buffer, ...]
    packings: tuple[Packing, ...] = ()
    tables: tuple[tuple[str, tuple[int, ...]], ...] = ()
    updates: bool = False  # whether what it reads may be what it writes
    block: Block | None = None

    def tasks(self, sizes: Sizes) -> int:
        """How many tasks there are under a binding."""
        total = 1
        for g in self.grid:
            total *= -(-evaluate_dim(g.extent, sizes) // g.tile)  # in numbers: 100 times as fast
        return total
