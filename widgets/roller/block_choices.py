"""Thread blocks of a kernel to choose from on a GPU, each with its block tile and thread tile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from explorer.cost.thread_blocks import ThreadBlocks
from explorer.devices.model import Device
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Block
from explorer.ir.kernel import Compute, Kernel
from explorer.ir.patterns.regions import propagate
from explorer.ir.shapes.dims import ShapeEnv, Sizes, evaluate_dim
from explorer.roller.blocks.candidates import grid_of
from explorer.roller.blocks.thread_block import bound_normal
from explorer.roller.construct.expression import heaviest, of_compute
from explorer.roller.construct.levels import Room
from explorer.roller.construct.rtile import RTile
from explorer.roller.construct.scale_out import Waves
from explorer.tile.gpu.rewrites import unpadded
from explorer.tile.gpu.stage import is_staged
from widgets.model.knobs import Setting
from widgets.roller.tiled_kernel import Level, TileChoice

MOST = 6  # thread blocks to choose from, besides those of the wall
TAKEN = "taken by the wall, which also counts the memory that blocks leave beside them"


@dataclass(frozen=True, slots=True)
class WeighedBlock:
    """A block with its predicted time alone.

    `on`: the wall uses such blocks or, before there is a wall, Roller chose it.
    """

    candidate: Candidate[Block]
    on: bool


def thread_blocks(now: Setting, binding: str) -> tuple[WeighedBlock, ...]:
    """Return the blocks of a kernel call, the fastest alone first; none if it has no code.

    Without a wall they are the candidates of Roller's decision.
    """
    c, sizes = now.compiled, dict(now.sizes)
    taken = c.taken_blocks(binding, sizes) if binding else ()
    if taken:
        return tuple(WeighedBlock(x, x.value in taken) for x in c.weighed_blocks(binding, sizes))
    decision = c.program.decisions.block(binding)
    if decision is None:
        return ()
    return tuple(WeighedBlock(x, x.value == decision.chosen) for x in decision.candidates)


def block_choices(
    kernel: Kernel, blocks: Sequence[WeighedBlock], device: Device, sizes: Sizes
) -> tuple[TileChoice, ...]:
    """Return the first blocks, and those that the wall uses."""
    bound = bound_normal(kernel, sizes)
    shown = [w for n, w in enumerate(blocks) if n < MOST or w.on]
    choices = (_choice(bound, w.candidate, device, w.on) for w in shown)
    return tuple(c for c in choices if c is not None)


def _choice(bound: Kernel, c: Candidate[Block], device: Device, taken: bool) -> TileChoice | None:
    grid = grid_of(bound, c.value, device)
    if grid is None:
        return None
    main = heaviest(bound, {})
    beside, _ = grid.beside(device, grid.grid, grid.resident(device))
    return TileChoice(
        label=c.label,
        levels=_levels(bound, main, c.value, grid, device),
        waves=Waves(grid.grid, max(1, device.units), beside),
        modelled_us=c.cost_us,
        terms=c.terms,
        note=TAKEN if taken else "",
        block=c.value,
    )


def _levels(
    bound: Kernel, main: Compute, block: Block, grid: ThreadBlocks, device: Device
) -> tuple[Level, ...]:
    """Return the tile of a block, and the tile of one of its threads."""
    e, near = of_compute(bound, main, {}), next(m for m in device.levels if m.shared)
    ranges = propagate(bound, dict(block.tile)).axes[bound.computes.index(main)]
    at_once, each = dict(block.shared), dict(block.register)
    shape = tuple(
        max(1, min(n, at_once.get(a, evaluate_dim(ranges[a].size, {}) if a in ranges else n)))
        for a, n in zip(e.axes, e.extents, strict=True)
    )
    inner = tuple(min(n, each.get(a, 1)) for a, n in zip(e.axes, shape, strict=True))
    shared = is_staged(unpadded(bound, block, ShapeEnv(), device))
    home = "shared memory" if shared else "a thread block"
    rooms = (
        Room("shared bytes of a block", grid.shared_bytes, device.block_shared_bytes),
        Room("registers of a block", grid.registers, device.unit_registers),
        Room("threads of a block", grid.threads, device.block_threads),
    )
    mine = RTile(e, inner)
    room = Room("elements of a thread", mine.points, device.thread_registers)
    line = device.banks * device.bank_bytes if shared else near.line_bytes
    return (
        Level(home, near.name, RTile(e, shape), rooms, near.line_bytes),
        Level("registers", home if shared else near.name, mine, (room,), line),
    )
