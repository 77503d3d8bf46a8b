"""Neighbours of a thread block that wait less for the operands of their sums.

They have more of the operands in shared memory at once, or more threads that share each sum
(split-K inside of a block). Roller's construction enlarges a chunk of the reduced axis until a tile
computes longer than it loads. Where there are few tiles they are cut finer afterwards. Small ones
then wait for each chunk, or for the few bytes that few threads load at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from explorer.devices.model import Device
from explorer.ir.decisions.tiling import Block

STEP_RATIO = 2  # from one neighbour to the next; chosen
MOST_RATIO = 8  # to the next divisor of an axis; chosen
MOST_THREADS = 32  # per sum, as parts are added sequentially; chosen


def sharing(block: Block, reduced: Mapping[str, int], device: Device) -> Iterator[Block]:
    """Yield the neighbours of a block; `reduced` are its reduced axes with their extents."""
    chunks, parts = dict(block.shared), dict(block.parts)
    for axis, extent in reduced.items():
        count = parts.get(axis, 1)
        share = extent // count
        chunk = min(chunks.get(axis, share), share)
        deeper = _next(chunk, share)
        if deeper:
            yield _with(block, axis, deeper, count)
        if parts.keys() - {axis}:
            continue
        each = block.threads // count
        most = min(MOST_THREADS, device.block_threads // max(1, each))
        for more in dict.fromkeys((_next(count, extent), _largest(extent, most))):
            if not count < more <= most:
                continue
            wider, left = replace(block, threads=each * more), extent // more
            for size in (chunk, -(-chunk * count // more)):  # per part, or of all parts
                yield _with(wider, axis, _largest(left, size), more)


def _with(block: Block, axis: str, chunk: int, parts: int) -> Block:
    shared = tuple((a, chunk if a == axis else n) for a, n in block.shared)
    other_parts = tuple((a, n) for a, n in block.parts if a != axis)
    return replace(
        block, shared=shared, parts=(*other_parts, *(((axis, parts),) if parts > 1 else ()))
    )


def _next(size: int, extent: int) -> int:
    """Return the next divisor of an extent that is `STEP_RATIO` larger; 0 if none is near."""
    least, most = size * STEP_RATIO, min(extent, size * MOST_RATIO)
    return next((n for n in range(least, most + 1) if extent % n == 0), 0)


def _largest(extent: int, most: int) -> int:
    """Return the largest divisor of an extent up to a number."""
    return max(n for n in range(1, max(1, min(most, extent)) + 1) if extent % n == 0)
