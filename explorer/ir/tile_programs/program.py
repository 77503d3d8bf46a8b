"""Tile programs as a whole: grid, statements, buffers."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.ir.decisions.tiling import Block
from explorer.ir.shapes.dims import Dim, Sizes, ceil_div, evaluate_dim
from explorer.ir.tile_programs.elements import Buffer
from explorer.ir.tile_programs.statements import Statement
from explorer.ir.types import DType


@dataclass(frozen=True, slots=True)
class Grid:
    """One tile variable; the task number is split over all of them, the last one fastest."""

    variable: str
    axis: str
    tile: int
    extent: Dim

    @property
    def count(self) -> Dim:
        """The number of tiles along the axis."""
        return ceil_div(self.extent, self.tile)


@dataclass(frozen=True, slots=True)
class Packing:
    """The layout of a constant that is packed ahead of time.

    Element `offset + index . strides` of the flat `source`, for every index of
    [batch..., column, depth...], moves to [batch..., columns / lanes, depth, lanes], with zeros
    past the last column. With groups of neighbours along the depth the layout is [..., depth /
    group, lanes, group], with zeros to the end of the last group of the last depth axis.
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
    """One task of a worker or of a thread block, as a function of the tile variables of `grid`.

    `block` is the target of the rewrites for a GPU.
    """

    grid: tuple[Grid, ...]
    body: tuple[Statement, ...]
    buffers: tuple[Buffer, ...]
    packings: tuple[Packing, ...] = ()
    tables: tuple[tuple[str, tuple[int, ...]], ...] = ()
    updates: bool = False  # True if its operands and results may alias
    block: Block | None = None

    def tasks(self, sizes: Sizes) -> int:
        """Return the number of tasks under a binding."""
        total = 1
        for g in self.grid:
            total *= -(
                -evaluate_dim(g.extent, sizes) // g.tile
            )  # with integers it is 100 times as fast
        return total
