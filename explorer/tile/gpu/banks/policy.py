"""Padded rows and reordered lanes of copies, priced for each array in shared memory.

The price is the cycles that warps wait for requests.

A matrix is copied along its rows in memory and read along its columns. With rows of 32 words in
shared memory all lanes of one of both are in one bank. With rows of 33 they are not, but then no
thread reads four neighbours at once. With rows of 36 both are fast if eight lanes copy along a row,
which is one transaction of memory, and four rows at a time (CUTLASS copies so, too).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

from explorer.devices.model import Device
from explorer.tile.gpu.banks.bank_accesses import REMEMBERED_VALUES, BankAccess, Steps, elements
from explorer.tile.gpu.banks.requests import WARP
from explorer.tile.gpu.distribute import shares
from explorer.tile.gpu.prefetch import MOST_OWN_ELEMENTS

APART = (1, 2, 4, 8, 16)  # bank distances of successive rows: divisors of all banks


@dataclass(frozen=True, slots=True)
class Costs:
    """The costs of a device.

    A transaction of `transaction_bytes` from the nearest memory that units share takes
    `transaction_cycles`, at a unit's part of its bandwidth. `schedulers` warps issue in a cycle.
    """

    transaction_cycles: float
    transaction_bytes: int
    schedulers: int


@dataclass(frozen=True, slots=True)
class Lanes:
    """The distribution of a copy: at most `along` lanes go along a row of memory, 0: all.

    Each takes `wide` neighbours at once.
    """

    along: int = 0
    wide: int = 1


@dataclass(frozen=True, slots=True)
class Copy:
    """The copy that fills an array.

    It has loops of `sizes` points over `threads` threads, the last one fastest, with the steps of
    each in the array (`here`) and in memory (`there`). Elements have `item_bytes` there, at most
    `wide` can be loaded at once; it runs `times` times.
    """

    sizes: tuple[int, ...]
    here: tuple[int, ...]
    there: tuple[int, ...]
    item_bytes: int
    threads: int
    times: int
    wide: int = 1

    def distribute(self, lanes: Lanes) -> tuple[tuple[int, ...], tuple[int, ...], int]:
        """Return the points of each loop, its threads, and the rounds of each thread."""
        sizes = (*self.sizes[:-1], self.sizes[-1] // lanes.wide)
        counts = shares(sizes, self.threads, lanes.along)
        rounds = prod(-(-n // c) for n, c in zip(sizes, counts, strict=True))
        return sizes, counts, rounds

    def is_even(self, lanes: Lanes) -> bool:
        """Return True if all threads have equally many points."""
        sizes, counts, _ = self.distribute(lanes)
        return all(n % c == 0 for n, c in zip(sizes, counts, strict=True))

    def steps(self, of: Sequence[int], lanes: Lanes) -> Steps:
        """Return the steps of the loops over threads, in the array or in memory."""
        _, counts, _ = self.distribute(lanes)
        return tuple(zip(counts, (*of[:-1], of[-1] * lanes.wide), strict=True))

    def cycles(self, lanes: Lanes, costs: Costs) -> float:
        """Return the cycles in which all warps issue loads, plus those of the transactions."""
        at = elements(self.steps(self.there, lanes)) * self.item_bytes // costs.transaction_bytes
        warps = range(0, len(at), WARP)
        moved = sum(len(set(at[n : n + WARP].tolist())) for n in warps)
        turns = len(warps) / costs.schedulers
        return self.times * self.distribute(lanes)[2] * (costs.transaction_cycles * moved + turns)

    def store_access(self, a: BankAccess, lanes: Lanes) -> BankAccess:
        """Return the store of the copy under a distribution of its lanes."""
        own: Steps = ((lanes.wide, self.here[-1]),) if lanes.wide > 1 else ()
        times = self.times * self.distribute(lanes)[2]
        return replace(a, lanes=self.steps(self.here, lanes), own=own, times=times)


@dataclass(frozen=True, slots=True)
class Layout:
    """A layout of an array: rows `pitch` long are `pad` elements farther apart.

    Its copy is distributed like `lanes`. `cycles` are what all warps of a block wait for it, issue
    slots and transactions of the copy included.
    """

    pitch: int
    pad: int
    lanes: Lanes
    size: int
    cycles: float

    @property
    def is_plain(self) -> bool:
        """True if nothing changes."""
        return not self.pad and self.lanes == Lanes()


def layouts(
    accesses: Sequence[BankAccess], copy: Copy | None, device: Device
) -> tuple[Layout, ...]:
    """Return the layouts of an array with these accesses, cheapest first, up to the plain one.

    Of several with equal cycles the smallest comes first. The search stops at one that nothing can
    beat.
    """
    near = next(m for m in device.levels if m.shared)
    each = device.transaction_bytes * device.clock_ghz / device.each_gb_per_s(near)
    costs = Costs(each, device.transaction_bytes, max(1, device.schedulers))
    nameless = replace(accesses[0].buffer, name="")
    return _sorted_layouts(tuple([replace(a, buffer=nameless) for a in accesses]), copy, costs)


@lru_cache(maxsize=REMEMBERED_VALUES)
def _sorted_layouts(
    accesses: tuple[BankAccess, ...], copy: Copy | None, costs: Costs
) -> tuple[Layout, ...]:
    """Return the sorted layouts, cached because arrays of many blocks are filled and read alike."""
    candidates = sorted(
        _layouts(accesses, copy, costs), key=lambda x: (x.cycles, x.size, x.lanes.along)
    )
    return tuple(candidates[: 1 + next(n for n, x in enumerate(candidates) if x.is_plain)])


def _layouts(accesses: Sequence[BankAccess], copy: Copy | None, costs: Costs) -> Iterator[Layout]:
    """Yield the layouts of an array with their cycles, the plain one among them."""
    size = int(accesses[0].buffer.size)
    distributions = list(_distributions(copy, costs))
    loads, stores = [a for a in accesses if not a.store], [a for a in accesses if a.store]
    best = all(a.is_best for a in accesses)
    pitches = [] if best and len(distributions) == 1 else _pitches(accesses, size)
    rows = [
        (1, 0),
        *((n, pad) for n in pitches for pad in sorted({_pad(n, k) for k in APART} - {0})),
    ]
    read = {row: _price(loads, row, costs) for row in rows}
    plain = float("inf")  # layouts that take as long are skipped
    for lanes in distributions:
        moved = [copy.store_access(a, lanes) for a in stores] if copy else stores
        asking = copy.cycles(lanes, costs) if copy else 0.0
        settled_pitch = 0  # a row length that no padding can improve
        for pitch, pad in rows:
            if pitch == settled_pitch or asking + read[pitch, pad][0] >= plain:
                continue
            written = _price(moved, (pitch, pad), costs)
            cycles = asking + read[pitch, pad][0] + written[0]
            plain = min(plain, cycles) if lanes == Lanes() and not pad else plain
            yield Layout(pitch, pad, lanes, size + pad * (-(-size // pitch) - 1), cycles)
            if read[pitch, pad][1] and written[1]:
                if not pad:
                    break
                settled_pitch = pitch


def _price(
    accesses: Sequence[BankAccess], row: tuple[int, int], costs: Costs
) -> tuple[float, bool]:
    """Return the cycles of accesses to padded rows, and whether no other rows could be faster."""
    padded = [a.padded(*row) for a in accesses] if row[1] else accesses
    return _cycles(padded, costs), all(a.is_best for a in padded)


def _cycles(accesses: Sequence[BankAccess], costs: Costs) -> float:
    """Return the cycles of all accesses, with the issue slots of warps."""
    return sum(a.cycles + a.turns / costs.schedulers for a in accesses)


def _distributions(copy: Copy | None, costs: Costs) -> Iterator[Lanes]:
    """Yield the distributions of a copy: all lanes along a row, or whole transactions.

    Threads take one element or several neighbours at once, no more points than they load at once,
    and as even shares as before.
    """
    plain = Lanes()
    yield plain
    if copy is None or copy.there[-1] != 1:
        return
    even, most = copy.is_even(plain), max(copy.distribute(plain)[2], MOST_OWN_ELEMENTS)
    for wide in dict.fromkeys((copy.wide, 1)):
        along = max(1, costs.transaction_bytes // (copy.item_bytes * wide))
        widest = copy.distribute(Lanes(0, wide))[1][-1]
        distributions = list[Lanes]()
        while along < widest or (wide > 1 and along // 2 < widest):
            lanes = Lanes(along if along < widest else 0, wide)
            points = copy.distribute(lanes)[2] * wide
            if points <= most and (not even or copy.is_even(lanes)):
                distributions.append(lanes)
            along *= 2
        yield from distributions
        if distributions:
            return


def _pitches(accesses: Sequence[BankAccess], size: int) -> list[int]:
    """Return the lengths of rows that every access goes along or across."""
    steps = {s for a in accesses for _, s in a.reach}
    return sorted(s for s in steps if 1 < s < size and all(a.holds(s) for a in accesses))


def _pad(pitch: int, apart: int) -> int:
    """Return the fewest elements that put successive rows `apart` banks apart.

    The distance may also have whole steps of twice as many banks.
    """
    return (apart - pitch) % (2 * apart)
