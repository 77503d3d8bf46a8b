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
from functools import lru_cache
from math import prod

from explorer.devices.model import Device
from explorer.tile.gpu.banks.bank_accesses import REMEMBERED_VALUES, Asked, Steps, elements
from explorer.tile.gpu.banks.requests import WARP
from explorer.tile.gpu.distribute import shares
from explorer.tile.gpu.prefetch import MOST_OWN_ELEMENTS

APART = (1, 2, 4, 8, 16)  # banks by which rows may follow each other: divisors of all banks


@dataclass(frozen=True, slots=True)
class Costs:
    """What a device takes: for a transaction from the nearest memory that units share, at a unit's
    part of its bandwidth, of how many bytes it is, and how many warps ask in a cycle.
    """

    transaction_cycles: float
    transaction_bytes: int
    schedulers: int


@dataclass(frozen=True, slots=True)
class Lanes:
    """How a copy is dealt out: at most `along` lanes go along a row of memory, 0: as many as there
    are, and each takes `wide` neighbours at once.
    """

    along: int = 0
    wide: int = 1


@dataclass(frozen=True, slots=True)
class Copy:
    """What fills an array: loops of `sizes` points over `threads` threads, the last one fastest,
    with the steps of each in the array and in memory, elements of `item_bytes` there, of which at
    most `wide` can be loaded at once; `times` over.
    """

    sizes: tuple[int, ...]
    here: tuple[int, ...]
    there: tuple[int, ...]
    item_bytes: int
    threads: int
    times: int
    wide: int = 1

    def dealt(self, lanes: Lanes) -> tuple[tuple[int, ...], tuple[int, ...], int]:
        """The points of each loop, the threads that it is dealt out to, and how often each of them
        comes.
        """
        sizes = (*self.sizes[:-1], self.sizes[-1] // lanes.wide)
        counts = shares(sizes, self.threads, lanes.along)
        rounds = prod(-(-n // c) for n, c in zip(sizes, counts, strict=True))
        return sizes, counts, rounds

    def is_even(self, lanes: Lanes) -> bool:
        """Whether all threads have as many points."""
        sizes, counts, _ = self.dealt(lanes)
        return all(n % c == 0 for n, c in zip(sizes, counts, strict=True))

    def steps(self, of: Sequence[int], lanes: Lanes) -> Steps:
        """Of the loops over threads, in the array or in memory."""
        _, counts, _ = self.dealt(lanes)
        return tuple(zip(counts, (*of[:-1], of[-1] * lanes.wide), strict=True))

    def cycles(self, lanes: Lanes, costs: Costs) -> float:
        """That all warps take to ask memory, and that its transactions take."""
        at = elements(self.steps(self.there, lanes)) * self.item_bytes // costs.transaction_bytes
        warps = range(0, len(at), WARP)
        moved = sum(len(set(at[n : n + WARP].tolist())) for n in warps)
        turns = len(warps) / costs.schedulers
        return self.times * self.dealt(lanes)[2] * (costs.transaction_cycles * moved + turns)

    def asked(self, a: Asked, lanes: Lanes) -> Asked:
        """The store of the copy with its lanes like that."""
        own: Steps = ((lanes.wide, self.here[-1]),) if lanes.wide > 1 else ()
        times = self.times * self.dealt(lanes)[2]
        return replace(a, lanes=self.steps(self.here, lanes), own=own, times=times)


@dataclass(frozen=True, slots=True)
class Layout:
    """A way to lay an array out: rows `pitch` long are `pad` elements farther apart, and what fills
    it is dealt out like `lanes`. `cycles`: what all warps of a block wait for it, turns to ask and
    transactions of the copy included.
    """

    pitch: int
    pad: int
    lanes: Lanes
    size: int
    cycles: float

    @property
    def is_plain(self) -> bool:
        """Whether nothing is done."""
        return not self.pad and self.lanes == Lanes()


def layouts(asked: Sequence[Asked], copy: Copy | None, device: Device) -> tuple[Layout, ...]:
    """The ways to lay out an array that these accesses are to, the one with the fewest cycles
    first, of several the smallest, up to the plain one; those after one that nothing can be better
    than are not looked at.
    """
    near = next(m for m in device.levels if m.shared)
    each = device.transaction_bytes * device.clock_ghz / device.each_gb_per_s(near)
    costs = Costs(each, device.transaction_bytes, max(1, device.schedulers))
    nameless = replace(asked[0].buffer, name="")
    return _weighed(tuple([replace(a, buffer=nameless) for a in asked]), copy, costs)


@lru_cache(maxsize=REMEMBERED_VALUES)
def _weighed(asked: tuple[Asked, ...], copy: Copy | None, costs: Costs) -> tuple[Layout, ...]:
    """Arrays of many blocks that are weighed are filled and read alike."""
    found = sorted(_layouts(asked, copy, costs), key=lambda x: (x.cycles, x.size, x.lanes.along))
    return tuple(found[: 1 + next(n for n, x in enumerate(found) if x.is_plain)])


def _layouts(asked: Sequence[Asked], copy: Copy | None, costs: Costs) -> Iterator[Layout]:
    size = int(asked[0].buffer.size)
    ways = list(_ways(copy, costs))
    loads, stores = [a for a in asked if not a.store], [a for a in asked if a.store]
    best = all(a.is_best for a in asked)
    pitches = [] if best and len(ways) == 1 else _pitches(asked, size)
    rows = [
        (1, 0),
        *((n, pad) for n in pitches for pad in sorted({_pad(n, k) for k in APART} - {0})),
    ]
    read = {row: _priced(loads, row, costs) for row in rows}
    plain = float("inf")  # what takes no less is not taken
    for lanes in ways:
        moved = [copy.asked(a, lanes) for a in stores] if copy else stores
        asking = copy.cycles(lanes, costs) if copy else 0.0
        met = 0  # the length of rows with which nothing can be better
        for pitch, pad in rows:
            if pitch == met or asking + read[pitch, pad][0] >= plain:
                continue
            written = _priced(moved, (pitch, pad), costs)
            cycles = asking + read[pitch, pad][0] + written[0]
            plain = min(plain, cycles) if lanes == Lanes() and not pad else plain
            yield Layout(pitch, pad, lanes, size + pad * (-(-size // pitch) - 1), cycles)
            if read[pitch, pad][1] and written[1]:
                if not pad:
                    break
                met = pitch


def _priced(asked: Sequence[Asked], row: tuple[int, int], costs: Costs) -> tuple[float, bool]:
    """The cycles of accesses to rows so long that are so much farther apart, and whether no other
    rows could serve them faster.
    """
    there = [a.padded(*row) for a in asked] if row[1] else asked
    return _cycles(there, costs), all(a.is_best for a in there)


def _cycles(asked: Sequence[Asked], costs: Costs) -> float:
    """Of all accesses, each with the turn that a warp takes to ask."""
    return sum(a.cycles + a.turns / costs.schedulers for a in asked)


def _ways(copy: Copy | None, costs: Costs) -> Iterator[Lanes]:
    """How a copy may be dealt out: all lanes along a row, or whole transactions, one by one or
    several neighbours at once; where a thread has no more points then than it brings at once, and
    as even a part as before.
    """
    plain = Lanes()
    yield plain
    if copy is None or copy.there[-1] != 1:
        return
    even, most = copy.is_even(plain), max(copy.dealt(plain)[2], MOST_OWN_ELEMENTS)
    for wide in dict.fromkeys((copy.wide, 1)):
        along = max(1, costs.transaction_bytes // (copy.item_bytes * wide))
        widest = copy.dealt(Lanes(0, wide))[1][-1]
        found = list[Lanes]()
        while along < widest or (wide > 1 and along // 2 < widest):
            lanes = Lanes(along if along < widest else 0, wide)
            points = copy.dealt(lanes)[2] * wide
            if points <= most and (not even or copy.is_even(lanes)):
                found.append(lanes)
            along *= 2
        yield from found
        if found:
            return


def _pitches(asked: Sequence[Asked], size: int) -> list[int]:
    """The lengths of rows that every access goes along or across."""
    steps = {s for a in asked for _, s in a.reach}
    return sorted(s for s in steps if 1 < s < size and all(a.holds(s) for a in asked))


def _pad(pitch: int, apart: int) -> int:
    """The fewest elements that make rows follow each other `apart` banks apart, or that and whole
    steps of twice as many.
    """
    return (apart - pitch) % (2 * apart)
