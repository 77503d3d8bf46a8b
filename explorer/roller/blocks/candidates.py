"""The thread blocks of a kernel as candidates: those that a wall may take, and one by hand.

Grids are cached in memory and on disk. A block by hand is checked before a program is generated for
it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from math import prod
from typing import Any

from explorer import cache as store
from explorer.cost.thread_blocks import ThreadBlocks
from explorer.devices.model import Device
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Tiling, thread_block
from explorer.ir.dims import Sizes, evaluate_dim
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.canonical import canonical, text_of
from explorer.ir.kernels.normal import stores
from explorer.ir.tile_rules import as_integer, form_problem
from explorer.passes.fingerprint import device_key
from explorer.roller.blocks.gpu_candidates import estimate_us, grids, grids_of
from explorer.roller.blocks.thread_block import bound_normal, in_own_names, launched
from explorer.roller.cached_tilings import FOLDERS
from explorer.roller.construct.expression import heaviest
from explorer.roller.weigh_tiles import in_numbers, unused_by_blocks
from explorer.tile.gpu.block import why_not_blocks
from explorer.tile.gpu.matrix_units import ROWS


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
) -> tuple[Candidate[Tiling], ...]:
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
) -> tuple[Candidate[Tiling], ...]:
    """Return grids of the canonical form of a kernel as candidates, each block once."""
    by_block = dict[Tiling, Candidate[Tiling]]()
    for g in thread_blocks:
        if g.block is not None:
            block = in_own_names(g.block, bound)
            by_block.setdefault(block, Candidate(block.words, block, g.parts_us(device)))
    return tuple(sorted(by_block.values(), key=lambda c: c.cost_us))


def grid_of(
    bound: Kernel, block: Tiling, device: Device, cold: bool = False
) -> ThreadBlocks | None:
    """Return the grid of a block for a kernel of fixed extents; None if the device is too small."""
    return next(iter(grids_of(bound, device, (block,), cold)), None)


def weigh_block(
    kernel: Kernel, block: Tiling, device: Device, sizes: Sizes, cold: bool = False
) -> Candidate[Tiling]:
    """Return one block with its modelled time alone on the device, or the rule that it breaks.

    `cold`: as in `grids`.
    """
    bound = bound_normal(kernel, sizes)
    why = why_not_blocks(bound) or block_problem(block, bound, device)
    block = block if why else in_numbers(block)
    grid = None if why else grid_of(bound, block, device, cold)
    if grid is not None:
        return Candidate(block.words, block, grid.parts_us(device))
    shown = block if isinstance(block, Tiling) else thread_block()
    why = why or f"{device.name} is too small for the block"
    return Candidate("an invalid thread block", shown, (), why)


def block_refusal(kernel: Kernel, block: Tiling, device: Device, sizes: Sizes) -> str:
    """Return the rule that a block of a kernel breaks, "" if it is legal."""
    return weigh_block(kernel, block, device, sizes).refused


def block_problem(block: Tiling, kernel: Kernel, device: Device) -> str:
    """Return the first rule that a block of a kernel of fixed extents breaks, "" if none.

    Whether it fits the device is checked by its program.
    """
    return malformed_block(block) or next(_problems(block, kernel, device), "")


def malformed_block(block: Any) -> str:
    """Return the first rule of form that a block breaks, "" if none."""
    return next(_form(block), "")


def _form(block: Any) -> Iterator[str]:
    """Yield the fields that have the wrong type."""
    if not isinstance(block, Tiling):
        yield f"a thread block is a Tiling, found {type(block).__name__}"
    elif as_integer(block.threads) is None:
        yield f"it has {block.threads!r:.60} threads, expected an integer"
    else:
        if unused := unused_by_blocks(block):
            yield unused
        for part in (block.tile, block.register, block.shared, block.parts):
            axes = form_problem(part)
            if axes:
                yield axes
        names = block.matrix
        if not isinstance(names, tuple) or not all(isinstance(a, str) for a in names):
            yield f"axes of matrix units are names in a tuple, found {names!r:.60}"


def _problems(block: Tiling, kernel: Kernel, device: Device) -> Iterator[str]:
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


def _most(axis: str, extents: Mapping[str, int], block: Tiling) -> int:
    """Return the largest size along an axis: its extent, in whole pieces on matrix units."""
    extent = max(1, extents[axis])
    return -(-extent // ROWS) * ROWS if axis in block.matrix else extent


def cached_grids(kernel: Kernel, device: Device, cold: bool) -> tuple[ThreadBlocks, ...]:
    """Return `grids` of a kernel of fixed extents under canonical names, cached."""
    parts = (text_of(kernel), device_key(device), str(cold))
    key = store.content_key("grids", store.code_key(*FOLDERS), *parts)
    memory = store.memory("grids")
    thread_blocks: tuple[ThreadBlocks, ...] | None = memory.get(key)
    if thread_blocks is None:
        data = store.get(key)
        if data is not None:
            thread_blocks = tuple(_grid(**row) for row in json.loads(data))
        else:
            thread_blocks = grids(kernel, device, cold=cold)
            store.put(key, json.dumps([asdict(g) for g in thread_blocks]).encode(), "search")
        memory.put(key, thread_blocks)
    return thread_blocks


def alone_us(kernel: Kernel, device: Device, sizes: Sizes) -> float:
    """Return the cached `estimate_us` of a kernel under a binding, 0 if it has no elements."""
    of = launched(kernel, sizes)
    if not of.computes:
        return 0.0
    parts = (text_of(of), device_key(device))
    key = store.content_key("alone", store.code_key(*FOLDERS), *parts)
    memory = store.memory("alone")
    us: float | None = memory.get(key)
    if us is None:
        data = store.get(key)
        us = estimate_us(of, device) if data is None else float(json.loads(data))
        if data is None:
            store.put(key, json.dumps(us).encode(), "search")
        memory.put(key, us)
    return us


def _grid(block: dict[str, Any] | None, **figures: Any) -> ThreadBlocks:
    return ThreadBlocks(**figures, block=None if block is None else _block(**block))


def _block(threads: int, matrix: list[str], **fields: Any) -> Tiling:
    pairs = {
        part: tuple((str(a), int(n)) for a, n in fields[part])
        for part in ("tile", "register", "shared", "parts")
    }
    return thread_block(threads=threads, matrix=tuple(matrix), **pairs)
