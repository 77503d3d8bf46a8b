"""How register tiles go over the rows of a contraction in a tile: asked of the rewrite that decides
it, of the statement that no tile cuts, with the spans of the tile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from explorer.ir.decisions import Tiling
from explorer.ir.kernel import Kernel
from explorer.ir.patterns.contraction import Contraction
from explorer.ir.patterns.regions import Interval, Regions
from explorer.ir.shapes.dims import ShapeEnv
from explorer.ir.tile_program import Fetch, Panels, Run
from explorer.tile.lowering.lower import grid_of
from explorer.tile.lowering.places import Places
from explorer.tile.rewriting.register_tiles import apart, rows_and_operands


class Lie(NamedTuple):
    """What the tile program will say: its `run`, the last axis of the rows, and whether registers
    hold the epilogue.
    """

    run: Run | None
    last: str
    registers: bool


@dataclass(frozen=True, slots=True)
class RowsOf:
    """Of one contraction: its register tiles where no tile cuts it, the operands of its epilogue
    that registers could hold, and what is `known` of tiles so far.
    """

    kernel: Kernel
    found: Contraction
    panels: Panels
    operands: tuple[Fetch, ...]
    known: dict[object, Lie] = field(default_factory=dict)

    def of(self, tiling: Tiling, ranges: Mapping[str, Interval]) -> Lie:
        """Of a tile in which its axes have these ranges."""
        height = tiling.micro.over(self.found.column.extent).rows
        mine = [ranges[a.name] for a in self.found.rows]
        key = height, *[(r.lo.terms, r.size) for r in mine]
        lie = self.known.get(key)
        if lie is None:
            lie = self._asked(tiling, mine, height)
            if all(len(r.lo.terms) < 2 for r in mine):  # a size tells the one tile that makes it
                self.known[key] = lie
        return lie

    def _asked(self, tiling: Tiling, mine: Sequence[Interval], height: int) -> Lie:
        grid = grid_of(self.kernel, tiling)
        places = Places(self.kernel, ShapeEnv(), grid, tiling, Regions([]))
        pairs = zip(self.found.rows, mine, strict=True)
        spans = tuple(places.span(a.name, r, a.extent) for a, r in pairs)
        rows = apart(spans or self.panels.rows)[1]
        run, held = rows_and_operands(self.panels, rows, height, self.operands)
        return Lie(run, rows[-1].axis, bool(held))
