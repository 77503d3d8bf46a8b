"""Padding of arrays in shared memory, and copies with reordered lanes.

for i on 2, k on 32 threads: xs[32 k + i] = x[i, k]
s[i] = sum[k] xs[32 k + i] ...
->
for i on 8, k on 8 threads: xs[36 k + i] = x[i, k]
s[i] = sum[k] xs[36 k + i] ...

Layouts are priced in cycles of bank conflicts, and the cheapest that fits is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import TypeAlias

from explorer.devices.model import Device
from explorer.ir.affine import Affine, var
from explorer.ir.dtypes import ITEM_BYTES
from explorer.ir.tile_program import (
    Buffer,
    Fetch,
    For,
    Grid,
    Map,
    Reduce,
    Scan,
    Statement,
    TileExpr,
    TileProgram,
)
from explorer.ir.tile_traversal import distributed_loops, threads_of, with_element, with_loads
from explorer.tile.gpu.bank_accesses import (
    REMEMBERED_VALUES,
    WARP,
    BankAccess,
    Inside,
    Steps,
    axes_of,
    bank_accesses,
    elements,
    is_shared,
    walk_statements,
)
from explorer.tile.gpu.distribute import distribute_copy, shares
from explorer.tile.gpu.operands import operands, step_along, together
from explorer.tile.gpu.prefetch import MOST_OWN_ELEMENTS
from explorer.tile.verify import room_bytes, shared_bytes

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


Chosen: TypeAlias = Mapping[str, tuple[Buffer, Layout]]  # by name: the padded array and its layout


def pad_banks(p: TileProgram, device: Device) -> TileProgram:
    """Lay out every array in shared memory as the policy's first choice that fits.

    A multiprocessor must still hold as many blocks as before.
    """
    threads, used = threads_of(p.body), shared_bytes(p, device)
    resident = _resident_blocks(used, threads, device)
    copies = _copies(p, threads)
    chosen: dict[str, tuple[Buffer, Layout]] = {}
    for name, accesses in bank_accesses(p).items():
        for layout in layouts(accesses, copies.get(name), device):
            wide = replace(accesses[0].buffer, size=layout.size)
            grown = used + room_bytes(wide) - room_bytes(accesses[0].buffer)
            if not layout.is_plain and _resident_blocks(grown, threads, device) >= resident:
                chosen[name], used = (wide, layout), grown
                break
    if not chosen:
        return p
    body = tuple(_rewrite(s, (), chosen, threads) for s in p.body)
    buffers = tuple(chosen[b.name][0] if b.name in chosen else b for b in p.buffers)
    return replace(p, body=body, buffers=buffers)


def _resident_blocks(used: int, threads: int, device: Device) -> int:
    """Return the blocks that a multiprocessor holds with so much shared memory, maybe 0."""
    if used > device.block_shared_bytes:
        return 0
    by_threads = device.unit_threads // max(1, threads)
    most = min(device.unit_blocks or by_threads, by_threads)
    return min(most, device.unit_shared_bytes // max(1, used))


def _copies(p: TileProgram, threads: int) -> dict[str, Copy]:
    """Return the copy that fills each array; none for arrays that are filled otherwise."""
    fills: dict[str, list[Copy | None]] = {}
    for s, around in walk_statements(p.body, ()):
        if isinstance(s, Map | Reduce | Scan) and is_shared(s.target.buffer):
            copy = _copy(s, around, threads, p.grid) if isinstance(s, Map) else None
            fills.setdefault(s.target.buffer.name, []).append(copy)
    return {name: first for name, (first, *more) in fills.items() if first is not None and not more}


def _copy(s: Map, around: tuple[Inside, ...], threads: int, grid: Sequence[Grid]) -> Copy | None:
    """Return a map as the copy of an operand into an array, None if it is another one."""
    read = operands(s.expr)
    distributed = [x for x in around if x.count]
    if s.form is not None or len(read) != 1 or read[0].expr != s.expr or not distributed:
        return None
    if any(x.size != 1 for x in s.spans):
        return None
    axes = [x.span.axis for x in distributed]
    load = read[0].load
    here, there = ([step_along(f, a) for a in axes] for f in (s.target, load))
    sizes = [x.span.size for x in distributed]
    if not all(isinstance(n, int) for n in (*here, *there, *sizes)):
        return None
    times = prod(int(x.span.size) for x in around if not x.count)
    return Copy(
        tuple(map(int, sizes)), tuple(map(int, here)), tuple(map(int, there)),
        ITEM_BYTES[load.buffer.dtype], threads, times, _wide(s.expr, around, grid),
    )  # fmt: skip


def _wide(expr: TileExpr, around: tuple[Inside, ...], grid: Sequence[Grid]) -> int:
    """Return the most elements of a row in memory that are loaded at once.

    None of several is past an edge, and they begin at a multiple. A tile variable is a multiple of
    its tile.
    """
    last = around[-1].span
    if not isinstance(expr, Fetch) or expr.dynamic or last.clip_low or last.clip_high:
        return 1
    wide = together(expr.buffer.dtype)
    begins = [*around[:-1], replace(around[-1], span=replace(last, size=1))]
    steps, left = list[object](), expr.offset
    for x in reversed(begins):
        step = left.factor(x.span.axis)
        left = left.without({x.span.axis}) + x.span.base * step
        steps += [step] if x.span.size != 1 else []
    tiles = {g.variable: g.tile for g in grid}
    numbers = (*steps, *(f * tiles.get(name, 1) for name, f in left.terms), left.const, last.size)
    is_aligned = all(isinstance(n, int) and n % wide == 0 for n in numbers)
    return wide if is_aligned else 1


def _rewrite(s: Statement, around: tuple[Inside, ...], chosen: Chosen, threads: int) -> Statement:
    """Return a statement with padded arrays and reordered copies."""
    match s:
        case For(threads=None):
            inner = (*around, Inside(s.span))
            return replace(s, body=tuple(_rewrite(x, inner, chosen, threads) for x in s.body))
        case For():
            loops, body = distributed_loops(s)
            own = tuple(Inside(x.span, x.threads.count if x.threads else 1) for x in loops)
            inner_body = tuple(_rewrite(x, (*around, *own), chosen, threads) for x in body)
            match inner_body:
                case [Map() as copy] if (lanes := _copy_lanes(copy, chosen)) != Lanes():
                    return distribute_copy(
                        copy, [x.span for x in loops], threads, lanes.along, lanes.wide
                    )
            for loop in reversed(loops):
                inner_body = (replace(loop, body=inner_body),)
            return inner_body[0]
        case Map() | Reduce() | Scan():
            bases = {x.axis: x.base for x, _ in axes_of(s, around)}

            def padded(f: Fetch) -> Fetch:
                choice = chosen.get(f.buffer.name)
                return f if choice is None else _padded(f, bases, *choice)

            return replace(
                s, target=with_element(s.target, padded), expr=with_loads(s.expr, padded)
            )
    return s


def _copy_lanes(copy: Map, chosen: Chosen) -> Lanes:
    choice = chosen.get(copy.target.buffer.name)
    return choice[1].lanes if choice is not None else Lanes()


def _padded(f: Fetch, bases: Mapping[str, Affine], wide: Buffer, y: Layout) -> Fetch:
    """Return the element in the padded array."""
    rows, left = Affine(), f.offset
    for axis, base in bases.items():  # innermost first
        step = left.factor(axis)
        if not step:
            continue
        left = left.without({axis}) + base * step
        if step % y.pitch == 0:
            rows = rows + (var(axis) - base) * (step // y.pitch)
    rows = rows + left.const // y.pitch
    return Fetch(wide, f.offset + rows * y.pad)
