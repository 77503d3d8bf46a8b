"""Grids of thread blocks that were found before, in this process and on this machine's disk: a
warm start weighs nothing again.
"""

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
from explorer.roller.blocks.gpu_candidates import about_us, grids
from explorer.roller.blocks.thread_block import launched
from explorer.roller.cache_sources import FOLDERS


def remembered_grids(kernel: Kernel, device: Device, cold: bool) -> tuple[ThreadBlocks, ...]:
    """`grids` of a kernel of fixed extents under canonical names."""
    parts = (text_of(kernel), text_of_device(device), str(cold))
    key = store.content_key("grids", store.code_key(*FOLDERS), *parts)
    memory = store.memory("grids")
    known: tuple[ThreadBlocks, ...] | None = memory.get(key)
    if known is None:
        data = store.get(key)
        if data is not None:
            known = tuple(_grid(**row) for row in json.loads(data))
        else:
            known = grids(kernel, device, cold=cold)
            store.put(key, json.dumps([asdict(g) for g in known]).encode(), "search")
        memory.put(key, known)
    return known


def alone_us(kernel: Kernel, device: Device, sizes: Sizes) -> float:
    """`about_us` of a kernel under a binding, 0 where it has no elements."""
    of = launched(kernel, sizes)
    if not of.computes:
        return 0.0
    parts = (text_of(of), text_of_device(device))
    key = store.content_key("alone", store.code_key(*FOLDERS), *parts)
    memory = store.memory("alone")
    known: float | None = memory.get(key)
    if known is None:
        data = store.get(key)
        known = about_us(of, device) if data is None else float(json.loads(data))
        if data is None:
            store.put(key, json.dumps(known).encode(), "search")
        memory.put(key, known)
    return known


def _grid(block: dict[str, Any] | None, **figures: Any) -> ThreadBlocks:
    return ThreadBlocks(**figures, block=None if block is None else _block(**block))


def _block(threads: int, matrix: list[str], **by_axis: list[list[Any]]) -> Block:
    pairs = {part: tuple((str(a), int(n)) for a, n in found) for part, found in by_axis.items()}
    return Block(threads=threads, matrix=tuple(matrix), **pairs)
