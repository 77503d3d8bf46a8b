"""Rows that begin in other banks, and lanes that copy in another order: what is weighed for each
array in shared memory, in cycles that warps wait for requests.

A matrix is copied along its rows in memory and read along its columns. With rows of 32 words in
shared memory all lanes of one of both meet in one bank; with rows of 33 they do not, but then no
thread reads four neighbours at once; with rows of 36 both go well where eight lanes copy along a
row, which is one transaction of memory, and four rows at a time (CUTLASS copies so, too).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from explorer.devices.model import Device
from explorer.tile.gpu.banks.asked import Asked, Steps, elements
from explorer.tile.gpu.banks.requests import WARP
from explorer.tile.gpu.distribute import shares
from explorer.tile.gpu.prefetch import MOST_OWN_ELEMENTS

APART = (1, 2, 4, 8, 16)  # banks by which rows may follow each other: divisors of all banks


@dataclass(frozen=True, slots=True)
class Copy:
    """What fills an array: loops of `sizes` points over `threads` threads, the last one fastest,
    with the steps of each in the array and in memory, elements of `item_bytes` there; `times` over.
    """

    sizes: tuple[int, ...]
    here: tuple[int, ...]
    there: tuple[int, ...]
    item_bytes: int
    threads: int
    times: int

    def lanes(self, along: int) -> tuple[tuple[int, ...], int]:
        """The threads of each loop where at most `along` go along the last one, 0: as many as
        there are; and the points of a thread.
        """
        counts = shares(self.sizes, self.threads, along)
        return counts, prod(-(-n // c) for n, c in zip(self.sizes, counts, strict=True))

    def is_even(self, counts: Sequence[int]) -> bool:
        """Whether all threads of those counts have as many points."""
        return all(n % c == 0 for n, c in zip(self.sizes, counts, strict=True))

    def transactions(self, along: int, unit_bytes: int) -> int:
        """Of so many bytes, that all warps ask memory for."""
        counts, rounds = self.lanes(along)
        at = elements(tuple(zip(counts, self.there, strict=True))) * self.item_bytes // unit_bytes
        warps = range(0, len(at), WARP)
        return self.times * rounds * sum(len(set(at[n : n + WARP].tolist())) for n in warps)

    def asked(self, a: Asked, along: int) -> Asked:
        """The store of the copy with its lanes like that."""
        counts, rounds = self.lanes(along)
        lanes: Steps = tuple(zip(counts, self.here, strict=True))
        return replace(a, lanes=lanes, times=self.times * rounds)


@dataclass(frozen=True, slots=True)
class Layout:
    """A way to lay an array out: rows `pitch` long are `pad` elements farther apart, and at most
    `along` lanes copy along a row, 0: as many as there are. `cycles`: what all warps of a block
    wait for it, turns to ask and transactions of the copy included.
    """

    pitch: int
    pad: int
    along: int
    size: int
    cycles: float

    @property
    def is_plain(self) -> bool:
        """Whether nothing is done."""
        return not self.pad and not self.along


def layouts(asked: Sequence[Asked], copy: Copy | None, device: Device) -> tuple[Layout, ...]:
    """The ways to lay out an array that these accesses are to, the one with the fewest cycles
    first, of several the smallest, up to the plain one; those after one that nothing can be better
    than are not looked at.
    """
    found = sorted(_layouts(asked, copy, device), key=lambda x: (x.cycles, x.size, bool(x.along)))
    return tuple(found[: 1 + next(n for n, x in enumerate(found) if x.is_plain)])


def _layouts(asked: Sequence[Asked], copy: Copy | None, device: Device) -> Iterator[Layout]:
    size = int(asked[0].buffer.size)
    plain = Layout(1, 0, 0, size, _cycles(asked, copy, 0, device))
    yield plain
    if all(a.is_best for a in asked):
        return
    pitches = _pitches(asked, size)
    for along in _along(copy, device):
        moved = [copy.asked(a, along) if copy and a.store else a for a in asked] if along else asked
        if along:
            yield replace(plain, along=along, cycles=_cycles(moved, copy, along, device))
        for pitch in pitches:
            rows = -(-size // pitch)
            for pad in sorted({_pad(pitch, n) for n in APART} - {0}):
                there = [a.padded(pitch, pad) for a in moved]
                cycles = _cycles(there, copy, along, device)
                yield Layout(pitch, pad, along, size + pad * (rows - 1), cycles)
                if all(a.is_best for a in there):
                    break


def _cycles(asked: Sequence[Asked], copy: Copy | None, along: int, device: Device) -> float:
    """Of all accesses, each with the turn that a warp takes to ask, and of what the copy takes from
    the nearest memory that units share, at a unit's part of its bandwidth.
    """
    total = sum(a.cycles + a.turns / max(1, device.schedulers) for a in asked)
    if copy is None:
        return total
    near = next(m for m in device.levels if m.shared)
    each = device.transaction_bytes * device.clock_ghz / device.each_gb_per_s(near)
    return total + each * copy.transactions(along, device.transaction_bytes)


def _along(copy: Copy | None, device: Device) -> Iterator[int]:
    """Lanes that may copy along a row: all, or whole transactions, where a thread has no more
    points then than it brings at once, and as even a part as before.
    """
    yield 0
    if copy is None or copy.there[-1] != 1:
        return
    counts, rounds = copy.lanes(0)
    along = max(1, device.transaction_bytes // copy.item_bytes)
    while along < counts[-1]:
        mine, points = copy.lanes(along)
        if points <= max(rounds, MOST_OWN_ELEMENTS) and (
            not copy.is_even(counts) or copy.is_even(mine)
        ):
            yield along
        along *= 2


def _pitches(asked: Sequence[Asked], size: int) -> list[int]:
    """The lengths of rows that every access goes along or across."""
    steps = {s for a in asked for _, s in a.reach}
    return sorted(s for s in steps if 1 < s < size and all(a.holds(s) for a in asked))


def _pad(pitch: int, apart: int) -> int:
    """The fewest elements that make rows follow each other `apart` banks apart, or that and whole
    steps of twice as many.
    """
    return (apart - pitch) % (2 * apart)
