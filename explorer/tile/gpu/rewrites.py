"""The rewrites of a thread block, in order: from the lowered program to the printed one.

Each has a name, which the user interface shows as a step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from explorer.devices.model import Device
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernel import Kernel
from explorer.ir.tile_program import TileProgram
from explorer.tile.gpu.block import lower_block
from explorer.tile.gpu.distribute import over_threads
from explorer.tile.gpu.interleave import interleaved
from explorer.tile.gpu.matrix_units import on_matrix_units
from explorer.tile.gpu.pad_banks import pad_banks
from explorer.tile.gpu.place_syncs import place_syncs
from explorer.tile.gpu.prefetch import prefetched
from explorer.tile.gpu.share_reductions import share_reductions, within_warps
from explorer.tile.gpu.stage import in_shared_memory
from explorer.tile.verify import verify

Rewrite: TypeAlias = Callable[[TileProgram, Device], TileProgram]

REWRITES: tuple[tuple[str, Rewrite], ...] = (
    ("share long reductions", share_reductions),
    ("distribute over threads", over_threads),
    ("reduce within warps", within_warps),
    ("stage in shared memory", in_shared_memory),
    ("multiply on matrix units", on_matrix_units),
    ("interleave threads", interleaved),
    ("pad banks", pad_banks),
    ("prefetch in registers", prefetched),
    ("place syncs", place_syncs),
)


def unsynced(kernel: Kernel, block: Tiling, env: ShapeEnv, device: Device) -> TileProgram:
    """Return the program before Syncs are placed, for cost models of blocks.

    It has all loops, threads and buffers of the last program, in a part of the time.

    Raises BadOption if the kernel has no program for thread blocks.
    """
    program = lower_block(kernel, block, env, device)
    for _, rewrite in REWRITES[:-1]:
        program = rewrite(program, device)
    return program


def unpadded(kernel: Kernel, block: Tiling, env: ShapeEnv, device: Device) -> TileProgram:
    """Return the program before Syncs are placed, without bank padding, which takes most time."""
    program = lower_block(kernel, block, env, device)
    for _, rewrite in REWRITES[:-1]:
        program = program if rewrite is pad_banks else rewrite(program, device)
    return program


def block_steps(
    kernel: Kernel, block: Tiling, env: ShapeEnv, device: Device
) -> tuple[tuple[str, TileProgram], ...]:
    """Return the program under "lower", then after each rewrite, under its name.

    Raises:
        BadOption: the kernel has no program for thread blocks.
        CheckFailed: the last program breaks a rule of `verify` for the device.
    """
    program = lower_block(kernel, block, env, device)
    programs = [("lower", program)]
    for name, rewrite in REWRITES:
        program = rewrite(program, device)
        programs.append((name, program))
    verify(program, device)
    return tuple(programs)
