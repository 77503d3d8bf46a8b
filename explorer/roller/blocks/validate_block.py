"""Validity of thread blocks, checked before a program is generated for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

from explorer.devices.model import Device
from explorer.ir.decisions.tiling import Block
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.normal import stores
from explorer.ir.shapes.dims import evaluate_dim
from explorer.ir.tile_rules import as_integer, form_problem
from explorer.roller.construct.expression import heaviest
from explorer.tile.gpu.matrix_units import ROWS


def block_problem(block: Block, kernel: Kernel, device: Device) -> str:
    """Return the first rule that a block of a kernel of fixed extents breaks, "" if none.

    Whether it fits the device is checked by its program.
    """
    return malformed_block(block) or next(_problems(block, kernel, device), "")


def malformed_block(block: Any) -> str:
    """Return the first rule of form that a block breaks, "" if none."""
    return next(_form(block), "")


def block_in_numbers(block: Block) -> Block:
    """Return a well-formed block with Python's own numbers, in tuples."""
    sizes = (block.tile, block.register, block.shared, block.parts)
    tile, register, shared, parts = (tuple((a, int(n)) for a, n in each) for each in sizes)
    return Block(tile, int(block.threads), register, shared, parts, block.matrix)


def _form(block: Any) -> Iterator[str]:
    """Yield the fields that have the wrong type."""
    if not isinstance(block, Block):
        yield f"a thread block is a Block, found {type(block).__name__}"
    elif as_integer(block.threads) is None:
        yield f"it has {block.threads!r:.60} threads, expected an integer"
    else:
        for part in (block.tile, block.register, block.shared, block.parts):
            axes = form_problem(part)
            if axes:
                yield axes
        names = block.matrix
        if not isinstance(names, tuple) or not all(isinstance(a, str) for a in names):
            yield f"axes of matrix units are names in a tuple, found {names!r:.60}"


def _problems(block: Block, kernel: Kernel, device: Device) -> Iterator[str]:
    if not kernel.computes:
        yield "the kernel has no elements"
        return
    main = heaviest(kernel, {})
    out, own, reduced = (
        {a.name: evaluate_dim(a.extent, {}) for a in axes}
        for axes in (stores(kernel)[-1].axes, (*main.axes, *main.reduce), main.reduce)
    )
    if block.threads < 1 or 0 < device.block_threads < block.threads:
        yield f"it has {block.threads} threads, {device.name} takes {device.block_threads}"
    each = prod(n for _, n in block.register)
    if 0 < device.thread_registers < each:
        yield f"a thread has {each} elements, at most {device.thread_registers}"
    parts = (
        (block.tile, out),
        (block.register, own),
        (block.shared, reduced),
        (block.parts, reduced),
    )
    for sizes, axes in parts:
        for axis, n in sizes:
            if axis not in axes:
                yield f"there is no axis {axis!r}: expected one of {', '.join(axes) or 'none'}"
            elif not 1 <= n <= _most(axis, axes, block):
                yield f"{axis}={n} is not from 1 to {_most(axis, axes, block)}"
    yield from (f"there is no axis {axis!r}" for axis in block.matrix if axis not in own)


def _most(axis: str, extents: Mapping[str, int], block: Block) -> int:
    """Return the largest size along an axis: its extent, in whole pieces on matrix units."""
    extent = max(1, extents[axis])
    return -(-extent // ROWS) * ROWS if axis in block.matrix else extent
