"""Roller (OSDI 2022): tiles aligned to the hardware, constructed without search.

rTile: `explorer.ir.decisions.Tiling` (one tile a memory level); rProgram:
`explorer.ir.tile_program.TileProgram`.
"""

from explorer.roller.roll import Options, Price, Roll

__all__ = ["Options", "Price", "Roll"]
