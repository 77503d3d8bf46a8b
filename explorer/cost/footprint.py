"""Bytes that one tile holds at a memory level: the tiles of all its tensors, placed by lifetime
(Welder, section 3.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explorer.cost.traffic import tensor_tile
from explorer.ir.dims import Sizes
from explorer.ir.kernel import Kernel, reads
from explorer.ir.regions import propagate

ALIGN_BYTES = 64  # a cache line, and the alignment of scratch


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
    kernel: Kernel, tile: Mapping[str, int], sizes: Sizes | None = None, *, inner: bool = False
) -> Footprint:
    """The room of one output tile: the tiles of inputs, output and inner tensors, or of inner ones
    alone.
    """
    known = sizes or {}
    regions = propagate(kernel, tile)
    border = {*kernel.inputs, kernel.output}
    lives = [
        (name, tensor_tile(kernel, name, regions, known).bytes, first, last)
        for name, (first, last) in lifetimes(kernel).items()
        if name in regions.tensors and not (inner and name in border)
    ]
    return Footprint(place(lives))


def lifetimes(kernel: Kernel) -> dict[str, tuple[int, int]]:
    """The first and the last compute that each tensor is needed in; the output to the end."""
    found: dict[str, tuple[int, int]] = {}
    for n, c in enumerate(kernel.computes):
        for name in (*(r.tensor for r in reads(c.expr)), c.out):
            first, _ = found.get(name, (0 if name in kernel.inputs else n, n))
            found[name] = (first, n)
    end = len(kernel.computes) - 1
    first, _ = found[kernel.output]
    return found | {kernel.output: (first, end)}


def place(lives: Sequence[tuple[str, int, int, int]]) -> tuple[TilePlace, ...]:
    """Offsets by best fit: the larger first, each into the tightest gap beside those that live at
    the same time.
    """
    placed: list[TilePlace] = []
    for name, size, first, last in sorted(lives, key=lambda t: (-t[1], t[2])):
        room = -(-size // ALIGN_BYTES) * ALIGN_BYTES
        beside = sorted(
            (p.offset, p.offset + p.bytes) for p in placed if p.first <= last and first <= p.last
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
