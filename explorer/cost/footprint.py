"""Bytes that one tile holds at a memory level: the tiles of all its tensors, placed by best fit in
the order in which they come to life (Welder, section 3.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from explorer.cost.bound import bind_kernel
from explorer.cost.touched import kinds, middle, number, range_of, touched
from explorer.ir.kernel import Kernel, reads
from explorer.ir.patterns.regions import Regions, box, propagate
from explorer.ir.shapes.dims import Sizes
from explorer.ir.types import ITEM_BYTES

ALIGN_BYTES = 64  # a cache line, and the alignment of scratch
GPU_ALIGN_BYTES = 32  # of buffers in shared memory (Welder artifact)


@dataclass(frozen=True, slots=True)
class TilePlace:
    """Where the tile of one tensor lies, and from which to which compute it is needed."""

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
        """The room that the level must have."""
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
    """The room of one output tile: the tiles of inputs, output and inner tensors, or of inner ones
    alone.

    An input is there from its first reader to its last one. `steps`: reduced axes of which the
    tiles of inputs hold only so many at once; what is made inside is there as a whole. `regions`:
    those that `propagate` gives for the kernel under the binding.
    """
    kernel = bind_kernel(kernel, sizes or {})
    known = regions or propagate(kernel, tile)
    bytes_of = tile_bytes(kernel, known, tile, steps)
    border = {*kernel.inputs, *kernel.outputs}
    lives = [
        (name, bytes_of[name], first, last)
        for name, (first, last) in lifetimes(kernel).items()
        if name in bytes_of and not (inner and name in border)
    ]
    return Footprint(place(lives, align_bytes))


def tile_bytes(
    kernel: Kernel,
    regions: Regions,
    tile: Mapping[str, int],
    steps: Mapping[str, int] | None = None,
) -> dict[str, int]:
    """Bytes of the part of every tensor that one whole tile from the middle has; of what is made
    inside, all that a task has room for.
    """
    parts = touched(kernel, regions, middle(kernel, tile), steps)
    found = {n: part.room * ITEM_BYTES[kernel.dtype(n)] for n, part in parts.items()}
    for t in kernel.tensors:
        if t.name in regions.tensors and t.name not in found:
            found[t.name] = prod(inner_box(kernel, regions, t.name)) * ITEM_BYTES[t.dtype]
    return found


def inner_box(kernel: Kernel, regions: Regions, tensor: str) -> tuple[int, ...]:
    """The extents of the part of a tensor that a task has at most."""
    shape = kernel.shape(tensor)
    return tuple(
        max(0, min(number(n), number(r.size)))
        for r, n in zip(regions.tensors[tensor], shape, strict=True)
    )


def padded_bytes(kernel: Kernel, regions: Regions) -> int:
    """Bytes of the copies that a task makes of inputs that are read past their border."""
    total = 0
    for n, c in enumerate(kernel.computes):
        for read in dict.fromkeys(reads(c.expr)):
            if read.fill is not None and read.tensor in kernel.inputs:
                part = box(read.index, regions.axes[n], kernel.shape(read.tensor))
                total += prod(number(r.size) for r in part) * ITEM_BYTES[kernel.dtype(read.tensor)]
    return total


def lifetimes(kernel: Kernel) -> dict[str, tuple[int, int]]:
    """The first and the last compute that each tensor is needed in; outputs to the end."""
    found: dict[str, tuple[int, int]] = {}
    for n, c in enumerate(kernel.computes):
        for name in (*(r.tensor for r in reads(c.expr)), c.out):
            first, _ = found.get(name, (n, n))
            found[name] = (first, n)
    end = len(kernel.computes) - 1
    return found | {name: (found[name][0], end) for name in kernel.outputs}


def place(
    lives: Sequence[tuple[str, int, int, int]], align_bytes: int = ALIGN_BYTES
) -> tuple[TilePlace, ...]:
    """Offsets by best fit, in the order of the first use: the dead are freed, then what begins to
    live takes the smallest gap that holds it, the larger first.
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
    """The offset of the smallest gap that holds `size`, else the end."""
    best: tuple[int, int] | None = None
    end = 0
    for start, stop in taken:
        gap = start - end
        if gap >= size and (best is None or gap < best[0]):
            best = (gap, end)
        end = max(end, stop)
    return end if best is None else best[1]


def points(kernel: Kernel, regions: Regions, tile: Mapping[str, int]) -> tuple[int, ...]:
    """How often each compute's expression is evaluated by all tasks together: halos that several
    tasks make are counted in each.
    """
    total = [0] * len(kernel.computes)
    for origin, times in kinds(kernel, regions, tile):
        for n, c in enumerate(kernel.computes):
            axes = regions.axes[n]
            ranges = (range_of(a, axes[a.name], origin) for a in (*c.axes, *c.reduce))
            total[n] += times * prod([high - low for low, high in ranges])
    return tuple(total)
