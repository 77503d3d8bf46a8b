"""Welder (OSDI 2023): tile graphs, fusion over the memory hierarchy.

Operator-tile: a kernel; reuse tile and connect level: `explorer.ir.decisions.TileEdge`; a connected
group becomes one kernel.
"""

from explorer.welder.weld import Options, Weld

__all__ = ["Options", "Weld"]
