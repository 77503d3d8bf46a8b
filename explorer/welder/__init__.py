"""Welder (OSDI 2023): tile graphs, fusion over the memory hierarchy.

The paper's nouns. Operator-tile, reuse tile and connect level: `OperatorTile` and `TileEdge` of
`ir.decisions.tile_graph`. Tile-graph, virtual nodes: `tile_graph`. Propagate:
`ir.kernels.regions.propagate`. MemTraffic, MemFootprint: `cost.traffic`, `cost.footprint`. Memory
levels of a device: `levels`. GraphConnecting and SubGraphTiling: `two_step`, `layers`; the
artifact's greedy grouping: `artifact_policy`. A connected group becomes one kernel.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from explorer.welder.join_results import JoinResults
from explorer.welder.options import POLICIES, Options
from explorer.welder.program_bytes import bytes_per_level, dram_bytes
from explorer.welder.tiles.plan import plan_group
from explorer.welder.tiles.tile_costs import TileCost, curve, tile_cost
from explorer.welder.transform import Weld

if TYPE_CHECKING:
    from explorer.welder.what_if import WhatIf

__all__ = [
    "POLICIES",
    "JoinResults",
    "Options",
    "TileCost",
    "Weld",
    "WhatIf",
    "bytes_per_level",
    "curve",
    "dram_bytes",
    "plan_group",
    "tile_cost",
]


def __getattr__(name: str) -> Any:
    """Load `WhatIf` when it is first used: compiling asks for no other fusion."""
    if name == "WhatIf":
        return import_module("explorer.welder.what_if").WhatIf
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
