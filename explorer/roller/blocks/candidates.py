"""The thread blocks of a kernel as candidates: those that a wall may take, and one by hand."""

from __future__ import annotations

from collections.abc import Iterable

from explorer.cost.thread_blocks import ThreadBlocks
from explorer.devices.model import Device
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Block
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.canonical import canonical
from explorer.ir.shapes.dims import Sizes
from explorer.roller.blocks.cached_grids import cached_grids
from explorer.roller.blocks.gpu_candidates import grids_of
from explorer.roller.blocks.thread_block import bound_normal, in_own_names
from explorer.roller.blocks.validate_block import block_problem
from explorer.tile.gpu.block import why_not_blocks


def why_no_blocks(kernel: Kernel, device: Device, sizes: Sizes) -> str:
    """Return why a kernel has no thread blocks on a device under a binding; "" if it has some."""
    bound = bound_normal(kernel, sizes)
    if not bound.computes:
        return "it has no elements"
    why = why_not_blocks(bound)
    if why or block_candidates(kernel, device, sizes):
        return why
    return f"{device.name} is too small for a thread block"


def block_candidates(
    kernel: Kernel, device: Device, sizes: Sizes, cold: bool = False
) -> tuple[Candidate[Block], ...]:
    """Return the thread blocks of a kernel that a wall may take.

    Each is best for some number of blocks that a multiprocessor holds. They are in the names of the
    kernel's axes, the one that finishes first alone in front. There are none if the kernel has no
    tile program for thread blocks. `cold`: as in `grids`.
    """
    bound = bound_normal(kernel, sizes)
    if not bound.computes or why_not_blocks(bound):
        return ()
    return grid_candidates(cached_grids(canonical(bound)[0], device, cold), bound, device)


def grid_candidates(
    thread_blocks: Iterable[ThreadBlocks], bound: Kernel, device: Device
) -> tuple[Candidate[Block], ...]:
    """Return grids of the canonical form of a kernel as candidates, each block once."""
    by_block = dict[Block, Candidate[Block]]()
    for g in thread_blocks:
        if g.block is not None:
            block = in_own_names(g.block, bound)
            by_block.setdefault(block, Candidate(block.words, block, g.parts_us(device)))
    return tuple(sorted(by_block.values(), key=lambda c: c.cost_us))


def grid_of(bound: Kernel, block: Block, device: Device, cold: bool = False) -> ThreadBlocks | None:
    """Return the grid of a block for a kernel of fixed extents; None if the device is too small."""
    return next(iter(grids_of(bound, device, (block,), cold)), None)


def weigh_block(
    kernel: Kernel, block: Block, device: Device, sizes: Sizes, cold: bool = False
) -> Candidate[Block]:
    """Return one block with its modelled time alone on the device, or the rule that it breaks.

    `cold`: as in `grids`.
    """
    bound = bound_normal(kernel, sizes)
    why = why_not_blocks(bound) or block_problem(block, bound, device)
    grid = None if why else grid_of(bound, block, device, cold)
    if grid is not None:
        return Candidate(block.words, block, grid.parts_us(device))
    shown = block if isinstance(block, Block) else Block()
    why = why or f"{device.name} is too small for the block"
    return Candidate("an invalid thread block", shown, (), why)


def block_refusal(kernel: Kernel, block: Block, device: Device, sizes: Sizes) -> str:
    """Return the rule that a block of a kernel breaks, "" if it is legal."""
    return weigh_block(kernel, block, device, sizes).refused
