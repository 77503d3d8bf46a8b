"""The rewrites of tile programs, in order: from the lowered program to the printed one.

Each has a name, which the user interface shows as a step.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

from explorer.devices.model import Device
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernel import Kernel
from explorer.ir.tile_program import TileProgram
from explorer.tile.lowering.lower import lower
from explorer.tile.rewriting.keep_in_output import keep_in_output, share_scratch
from explorer.tile.rewriting.long_sums import sum_in_blocks
from explorer.tile.rewriting.map_groups import group_maps, hoist
from explorer.tile.rewriting.one_pass import one_pass
from explorer.tile.rewriting.register_tiles import register_tiles
from explorer.tile.rewriting.row_blocks import blocks_of_rows
from explorer.tile.rewriting.vectorise import vectorise
from explorer.tile.rewriting.windows import reduce_windows

Rewrite: TypeAlias = Callable[[TileProgram, Device], TileProgram]

PLACEMENT: tuple[tuple[str, Rewrite], ...] = (  # memory placement and lifetimes
    ("one pass", one_pass),
    ("keep in the output", keep_in_output),
    ("blocks of rows", blocks_of_rows),
    ("windows in registers", reduce_windows),
    ("share scratch", share_scratch),
    ("long sums", sum_in_blocks),
)
LOOPS: tuple[tuple[str, Rewrite], ...] = (  # loop order
    ("group maps", group_maps),
    ("vectorise", vectorise),
    ("hoist", hoist),
    ("register tiles", register_tiles),
)
REWRITES = (*PLACEMENT, *LOOPS)
REMEMBERED_PROGRAMS = 512  # a bound on memory, chosen


def steps(
    kernel: Kernel, tiling: Tiling, env: ShapeEnv, device: Device
) -> tuple[tuple[str, TileProgram], ...]:
    """Return the program under "lower", then after each rewrite, under its name.

    Raises BadOption if the kernel in normal form has no such tiles.
    """
    program = lower(kernel, tiling, env, device)
    programs = [("lower", program)]
    for name, rewrite in REWRITES:
        program = rewrite(program, device)
        programs.append((name, program))
    return tuple(programs)


def placed_program(kernel: Kernel, tiling: Tiling, env: ShapeEnv, device: Device) -> TileProgram:
    """Return the program after the placement rewrites, for the memory that a tiling takes."""
    program = lower(kernel, tiling, env, device)
    for _, rewrite in PLACEMENT:
        program = rewrite(program, device)
    return program


@lru_cache(maxsize=REMEMBERED_PROGRAMS)
def tile_program(kernel: Kernel, tiling: Tiling, env: ShapeEnv, device: Device) -> TileProgram:
    """Return the program that is printed and run: the last of `steps`."""
    return steps(kernel, tiling, env, device)[-1][1]
