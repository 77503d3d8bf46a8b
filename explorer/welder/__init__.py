"""Welder (OSDI 2023): tile graphs, fusion over the memory hierarchy.

The paper's nouns. Operator-tile, reuse tile and connect level: `OperatorTile` and `TileEdge` of
`ir.decisions.tile_graph`. Tile-graph, virtual nodes: `tile_graph`. Propagate:
`ir.patterns.regions.propagate`. MemTraffic, MemFootprint: `cost.traffic`, `cost.footprint`. Memory
levels of a device: `levels`. GraphConnecting and SubGraphTiling: `two_step`, `layers`; the
artifact's greedy grouping: `artifact_policy`. A connected group becomes one kernel.
"""

from explorer.welder.join_results import JoinResults
from explorer.welder.named_policies import POLICIES
from explorer.welder.options import Options
from explorer.welder.program_bytes import bytes_per_level, dram_bytes
from explorer.welder.tiles.plan import plan_group
from explorer.welder.tiles.tile_costs import TileCost, curve, tile_cost
from explorer.welder.transform import Weld
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
