"""What a thread block must be before a program is made of it, whoever made it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from explorer.devices.model import Device
from explorer.ir.decisions.tiling import Block
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.normal import stores
from explorer.ir.shapes.dims import evaluate_dim
from explorer.roller.construct.expression import heaviest
from explorer.tile.gpu.matrix_units import ROWS


def impossible(block: Block, kernel: Kernel, device: Device) -> str:
    """The first rule that a block of a kernel of fixed extents breaks, with the number; empty where
    it keeps all. Whether a device has room for it, its program tells.
    """
    return next(_problems(block, kernel, device), "")


def _problems(block: Block, kernel: Kernel, device: Device) -> Iterator[str]:
    if not kernel.computes:
        yield "the kernel has no elements"
        return
    main = heaviest(kernel, {})
    out, own, reduced = (
        {a.name: evaluate_dim(a.extent, {}) for a in axes}
        for axes in (stores(kernel)[-1].axes, (*main.axes, *main.reduce), main.reduce)
    )
    if not 1 <= block.threads <= device.block_threads:
        yield f"it has {block.threads} threads, {device.name} takes {device.block_threads}"
    each = prod(n for _, n in block.register)
    if each > device.thread_registers:
        yield f"a thread has {each} elements, {device.thread_registers} are the most"
    parts = (
        (block.tile, out),
        (block.register, own),
        (block.shared, reduced),
        (block.parts, reduced),
    )
    for sizes, axes in parts:
        for axis, n in sizes:
            if axis not in axes:
                yield f"there is no axis {axis!r} there, only {', '.join(axes) or 'none'}"
            elif not 1 <= n <= _most(axis, axes, block):
                yield f"{axis}={n} is not from 1 to {_most(axis, axes, block)}"
    yield from (f"there is no axis {axis!r}" for axis in block.matrix if axis not in own)


def _most(axis: str, extents: Mapping[str, int], block: Block) -> int:
    """Elements along an axis: as many as there are, of pieces of matrices whole ones."""
    extent = max(1, extents[axis])
    return -(-extent // ROWS) * ROWS if axis in block.matrix else extent
