"""The thread blocks of a recorded run for the plan of the same program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

from explorer.devices.model import Device
from explorer.ir.decisions.tiling import Block, Chosen
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.normal import stores
from explorer.ir.program import Program
from explorer.ir.shapes.dims import Sizes, evaluate_dim
from explorer.measure.recorded_run import RecordedRun
from explorer.roller.construct.expression import heaviest
from explorer.roller.thread_block import launched
from explorer.tile.gpu.matrix_units import ROWS


def blocks_of(
    run: RecordedRun, program: Program, device: Device
) -> Callable[[Sizes], Chosen] | None:
    """Under the sizes that were recorded the blocks that ran, under others those that are chosen
    as ever; None where the recording has none. Those that a kernel cannot have are left out: it is
    another one than ran, or the file is damaged.
    """
    ran, kept = dict(run.sizes), dict(run.blocks)
    blocks: dict[str, tuple[Block, ...]] = {}
    for b in program.kernel_calls:
        found = kept.get(b.name, ())
        of = launched(b.kernel_call.kernel, ran) if found else None
        if of is not None and all(could_be(each, of, device) for each in found):
            blocks[b.name] = found
    return (lambda sizes: blocks if dict(sizes) == ran else {}) if blocks else None


def could_be(block: Block, kernel: Kernel, device: Device) -> bool:
    """Whether a kernel of fixed extents has the axes of a block, and a device so many threads."""
    main = heaviest(kernel, {})
    out, own, reduced = (
        {a.name: evaluate_dim(a.extent, {}) for a in axes}
        for axes in (stores(kernel)[-1].axes, (*main.axes, *main.reduce), main.reduce)
    )
    parts = (
        (block.tile, out),
        (block.register, own),
        (block.shared, reduced),
        (block.parts, reduced),
    )
    return (
        block.threads <= device.block_threads
        and prod(n for _, n in block.register) <= device.thread_registers
        and all(n <= _most(a, axes, block) for sizes, axes in parts for a, n in sizes)
        and all(a in axes for sizes, axes in parts for a, _ in sizes)
        and all(a in own for a in block.matrix)
    )


def _most(axis: str, extents: Mapping[str, int], block: Block) -> int:
    """Elements along an axis: as many as there are, of pieces of matrices whole ones."""
    extent = max(1, extents.get(axis, 0))
    return -(-extent // ROWS) * ROWS if axis in block.matrix else extent
