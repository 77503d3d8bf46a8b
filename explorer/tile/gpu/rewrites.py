"""The rewrites of a thread block, in order: from the plain program of a kernel and a block to the
one that a printer prints. Each has a name, which the house shows as a step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from explorer.devices.model import Device
from explorer.ir.decisions.tiling import Block
from explorer.ir.kernel import Kernel
from explorer.ir.shapes.dims import ShapeEnv
from explorer.ir.tile_programs.program import TileProgram
from explorer.tile.gpu.banks.transform import pad_banks
from explorer.tile.gpu.block import lower_block
from explorer.tile.gpu.distribute import over_threads
from explorer.tile.gpu.interleave import interleaved
from explorer.tile.gpu.matrix_units import on_matrix_units
from explorer.tile.gpu.place_syncs import place_syncs
from explorer.tile.gpu.prefetch import prefetched
from explorer.tile.gpu.share_reductions import share_reductions
from explorer.tile.gpu.stage import in_shared_memory
from explorer.tile.gpu.warp_reductions import within_warps
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


def unsynced(kernel: Kernel, block: Block, env: ShapeEnv, device: Device) -> TileProgram:
    """The program before Syncs are placed: with all loops, threads and buffers of the last one, in
    a part of the time, for those who weigh blocks.

    Raises BadOption where the kernel has no program for thread blocks.
    """
    program = lower_block(kernel, block, env, device)
    for _, rewrite in REWRITES[:-1]:
        program = rewrite(program, device)
    return program


def unpadded(kernel: Kernel, block: Block, env: ShapeEnv, device: Device) -> TileProgram:
    """The same without what is done about banks, which takes most of that time."""
    program = lower_block(kernel, block, env, device)
    for _, rewrite in REWRITES[:-1]:
        program = program if rewrite is pad_banks else rewrite(program, device)
    return program


def block_steps(
    kernel: Kernel, block: Block, env: ShapeEnv, device: Device
) -> tuple[tuple[str, TileProgram], ...]:
    """The plain program under "lower", then the program after each rewrite, under its name.

    Raises BadOption where the kernel has no program for thread blocks, and CheckFailed where the
    last one is not proved right for the device.
    """
    program = lower_block(kernel, block, env, device)
    found = [("lower", program)]
    for name, rewrite in REWRITES:
        program = rewrite(program, device)
        found.append((name, program))
    verify(program, device)
    return tuple(found)
