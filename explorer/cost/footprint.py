"""Bytes of one tile at a memory level: tiles of all tensors, placed by best fit.

Tensors are placed in the order in which they become live (Welder, section 3.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from explorer.cost.bind_kernel import bind_kernel
from explorer.cost.touched_parts import kinds, middle, number, range_of, touched
from explorer.ir.dims import Sizes
from explorer.ir.kernel import Kernel, reads
from explorer.ir.kernels.regions import Regions, box, propagate
from explorer.ir.types import ITEM_BYTES

ALIGN_BYTES = 64  # a cache line, and the alignment of scratch
GPU_ALIGN_BYTES = 32  # of buffers in shared memory (Welder artifact)


@dataclass(frozen=True, slots=True)
class TilePlace:
    """Offset of one tensor's tile, and its live range in computes."""

    tensor: str
    bytes: int
    offset: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Footprint:
    """The tiles of a kernel's tensors in one memory level."""

    places: tuple[TilePlace, ...]

    @property
    def bytes(self) -> int:
        """The capacity that the level needs."""
        return max((p.offset + p.bytes for p in self.places), default=0)


def footprint(
    kernel: Kernel,
    tile: Mapping[str, int],
    sizes: Sizes | None = None,
    *,
    inner: bool = False,
    align_bytes: int = ALIGN_BYTES,
    steps: Mapping[str, int] | None = None,
    regions: Regions | None = None,
) -> Footprint:
    """Return the memory of one output tile: tiles of inputs, output and inner tensors.

    Args:
        kernel: the kernel.
        tile: tile sizes by output axis.
        sizes: values of the symbols.
        inner: count inner tensors only.
        align_bytes: alignment of each tile.
        steps: reduced axes of which the tiles of inputs hold only so many elements at once; inner
            tensors are held in full.
        regions: those of `propagate` for the kernel under the binding, if known.

    An input is live from its first reader to its last.
    """
    kernel = bind_kernel(kernel, sizes or {})
    tile_regions = regions or propagate(kernel, tile)
    bytes_of = tile_bytes(kernel, tile_regions, tile, steps)
    border = {*kernel.inputs, *kernel.outputs}
    lives = [
        (name, bytes_of[name], first, last)
        for name, (first, last) in lifetimes(kernel).items()
        if name in bytes_of and not (inner and name in border)
    ]
    return Footprint(place_best_fit(lives, align_bytes))


def tile_bytes(
    kernel: Kernel,
    regions: Regions,
    tile: Mapping[str, int],
    steps: Mapping[str, int] | None = None,
) -> dict[str, int]:
    """Return the bytes of every tensor's part in a full tile; of inner tensors, the allocation."""
    parts = touched(kernel, regions, middle(kernel, tile), steps)
    bytes_by_tensor = {n: part.room * ITEM_BYTES[kernel.dtype(n)] for n, part in parts.items()}
    for t in kernel.tensors:
        if t.name in regions.tensors and t.name not in bytes_by_tensor:
            bytes_by_tensor[t.name] = prod(inner_box(kernel, regions, t.name)) * ITEM_BYTES[t.dtype]
    return bytes_by_tensor


def inner_box(kernel: Kernel, regions: Regions, tensor: str) -> tuple[int, ...]:
    """Return the largest extents of a tensor's part in a task."""
    shape = kernel.shape(tensor)
    return tuple(
        max(0, min(number(n), number(r.size)))
        for r, n in zip(regions.tensors[tensor], shape, strict=True)
    )


def padded_bytes(kernel: Kernel, regions: Regions) -> int:
    """Return the bytes of a task's padded copies of inputs that are read past their border."""
    total = 0
    for n, c in enumerate(kernel.computes):
        for read in dict.fromkeys(reads(c.expr)):
            if read.fill is not None and read.tensor in kernel.inputs:
                part = box(read.index, regions.axes[n], kernel.shape(read.tensor))
                total += prod(number(r.size) for r in part) * ITEM_BYTES[kernel.dtype(read.tensor)]
    return total


def lifetimes(kernel: Kernel) -> dict[str, tuple[int, int]]:
    """Return the first and last compute of each tensor's live range; outputs live to the end."""
    live_ranges: dict[str, tuple[int, int]] = {}
    for n, c in enumerate(kernel.computes):
        for name in (*(r.tensor for r in reads(c.expr)), c.out):
            first, _ = live_ranges.get(name, (n, n))
            live_ranges[name] = (first, n)
    end = len(kernel.computes) - 1
    return live_ranges | {name: (live_ranges[name][0], end) for name in kernel.outputs}


def place_best_fit(
    lives: Sequence[tuple[str, int, int, int]], align_bytes: int = ALIGN_BYTES
) -> tuple[TilePlace, ...]:
    """Place live ranges by best fit, in the order of their first use.

    Dead ones are freed first; then each new one takes the smallest gap that holds it, larger ones
    first.
    """
    placed: list[TilePlace] = []
    for name, size, first, last in sorted(lives, key=lambda t: (t[2], -t[1])):
        room = -(-size // align_bytes) * align_bytes
        beside = sorted(
            (p.offset, p.offset + p.bytes) for p in placed if p.last >= first and p.bytes
        )
        placed.append(TilePlace(name, room, _best_gap(beside, room), first, last))
    order = {name: n for n, (name, *_) in enumerate(lives)}
    return tuple(sorted(placed, key=lambda p: order[p.tensor]))


def _best_gap(taken: Sequence[tuple[int, int]], size: int) -> int:
    """Return the offset of the smallest gap of `size`, or the end."""
    best: tuple[int, int] | None = None
    end = 0
    for start, stop in taken:
        gap = start - end
        if gap >= size and (best is None or gap < best[0]):
            best = (gap, end)
        end = max(end, stop)
    return end if best is None else best[1]


def points(kernel: Kernel, regions: Regions, tile: Mapping[str, int]) -> tuple[int, ...]:
    """Return how often all tasks together evaluate each compute, halos counted in each task."""
    total = [0] * len(kernel.computes)
    for origin, times in kinds(kernel, regions, tile):
        for n, c in enumerate(kernel.computes):
            axes = regions.axes[n]
            ranges = (range_of(a, axes[a.name], origin) for a in (*c.axes, *c.reduce))
            total[n] += times * prod([high - low for low, high in ranges])
    return tuple(total)
