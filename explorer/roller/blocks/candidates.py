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
from explorer.roller.blocks.gpu_candidates import grids_of
from explorer.roller.blocks.possible_block import impossible
from explorer.roller.blocks.remembered_grids import remembered_grids
from explorer.roller.blocks.thread_block import bound_normal, in_own_names
from explorer.tile.gpu.block import unserved


def why_no_blocks(kernel: Kernel, device: Device, sizes: Sizes) -> str:
    """Why a kernel has no thread blocks on a device under a binding; empty where it has some."""
    bound = bound_normal(kernel, sizes)
    if not bound.computes:
        return "it has no elements"
    why = unserved(bound)
    if why or block_candidates(kernel, device, sizes):
        return why
    return f"{device.name} is too small for one"


def block_candidates(
    kernel: Kernel, device: Device, sizes: Sizes, cold: bool = False
) -> tuple[Candidate[Block], ...]:
    """The blocks of a kernel that are best for some number of them that a multiprocessor holds, in
    the names of the kernel's axes, the one that is done first alone in front; none where it has no
    program for thread blocks. `cold`: as `grids` has it.
    """
    bound = bound_normal(kernel, sizes)
    if not bound.computes or unserved(bound):
        return ()
    return told_blocks(remembered_grids(canonical(bound)[0], device, cold), bound, device)


def told_blocks(
    found: Iterable[ThreadBlocks], bound: Kernel, device: Device
) -> tuple[Candidate[Block], ...]:
    """Grids of the canonical form of a kernel as candidates, each block once."""
    told = dict[Block, Candidate[Block]]()
    for g in found:
        if g.block is not None:
            block = in_own_names(g.block, bound)
            told.setdefault(block, Candidate(block.words, block, g.parts_us(device)))
    return tuple(sorted(told.values(), key=lambda c: c.cost_us))


def grid_of(bound: Kernel, block: Block, device: Device, cold: bool = False) -> ThreadBlocks | None:
    """What blocks of a kernel of fixed extents do and move together; None where the device has no
    room for one.
    """
    return next(iter(grids_of(bound, device, (block,), cold)), None)


def weigh_block(
    kernel: Kernel, block: Block, device: Device, sizes: Sizes, cold: bool = False
) -> Candidate[Block]:
    """One block with its modelled time alone on the device, or the rule that it breaks, with the
    number. `cold`: as `grids` has it.
    """
    bound = bound_normal(kernel, sizes)
    why = unserved(bound) or impossible(block, bound, device)
    grid = None if why else grid_of(bound, block, device, cold)
    if grid is not None:
        return Candidate(block.words, block, grid.parts_us(device))
    shown = block if isinstance(block, Block) else Block()
    why = why or f"{device.name} is too small for it"
    return Candidate("a thread block that there is not", shown, (), why)


def block_refusal(kernel: Kernel, block: Block, device: Device, sizes: Sizes) -> str:
    """The rule that a block of a kernel breaks, empty where it is legal."""
    return weigh_block(kernel, block, device, sizes).refused
