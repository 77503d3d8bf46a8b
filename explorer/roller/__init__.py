"""Roller (OSDI 2022): tiles aligned to the hardware, constructed without search.

rTile: `rtile.RTile`; rProgram: `rtile.TiledProgram`, and as what is compiled
`explorer.ir.decisions.tiling.Tiling` and `explorer.ir.tile_program.TileProgram`;
EnlargeTile: `enlarge.Search`; alignment rules: `alignment`; data reuse score: `score`; scale-out:
`scale_out`.
"""

from explorer.roller.transform import Options, Price, Roll

__all__ = ["Options", "Price", "Roll"]
