"""A cache of grids of thread blocks in memory and on disk: a warm start weighs nothing again."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from explorer import cache as store
from explorer.cost.thread_blocks import ThreadBlocks
from explorer.devices.model import Device, text_of_device
from explorer.ir.decisions.tiling import Block
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.canonical import text_of
from explorer.ir.shapes.dims import Sizes
from explorer.roller.blocks.gpu_candidates import estimate_us, grids
from explorer.roller.blocks.thread_block import launched
from explorer.roller.cache_sources import FOLDERS


def cached_grids(kernel: Kernel, device: Device, cold: bool) -> tuple[ThreadBlocks, ...]:
    """Return `grids` of a kernel of fixed extents under canonical names, cached."""
    parts = (text_of(kernel), text_of_device(device), str(cold))
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
    parts = (text_of(of), text_of_device(device))
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


def _block(threads: int, matrix: list[str], **by_axis: list[list[Any]]) -> Block:
    pairs = {part: tuple((str(a), int(n)) for a, n in sizes) for part, sizes in by_axis.items()}
    return Block(threads=threads, matrix=tuple(matrix), **pairs)
