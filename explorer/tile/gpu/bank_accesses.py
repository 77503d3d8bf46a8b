"""A block's accesses to each array in shared memory, as steps of its loops.

They give the distance of neighbours' elements, the vector size of a thread, and the repetitions.

A request is served in parts that have no two words of one bank.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from explorer.ir.dtypes import ITEM_BYTES
from explorer.ir.tile_program import (
    REGISTER,
    Buffer,
    Fetch,
    For,
    Map,
    Reduce,
    Scan,
    Span,
    Statement,
    TileProgram,
)
from explorer.ir.tile_traversal import distributed_loops, loads, stored, touched
from explorer.tile.gpu.distribute import UNROLLED
from explorer.tile.gpu.matrix_units import MATRIX, fragments

Steps: TypeAlias = tuple[tuple[int, int], ...]  # (how many points, elements from one to the next)
Axes: TypeAlias = list[tuple[Span, int]]  # as in `axes_of`
WIDE = (4, 2)  # elements of one request, if groups are aligned
REMEMBERED_VALUES = 1 << 14  # cycles of requests: a bound on memory, chosen


@dataclass(frozen=True, slots=True)
class BankAccess:
    """An access to shared memory.

    `lanes` has the steps of the loops distributed over threads, the last one fastest; `own` those
    along which a thread's points are unrolled, `loops` all others and rounds; `reach` all of these
    in full. The element is `first` elements from the buffer's beginning when all are at 0. `times`
    is how often a thread runs its points.
    """

    buffer: Buffer
    store: bool
    lanes: Steps
    own: Steps
    loops: Steps
    reach: Steps
    first: int
    times: int

    @property
    def together(self) -> int:
        """The elements that a thread requests at once."""
        every = (*self.lanes, *self.loops, *self.own, (1, self.first))
        other_steps = [s for _, s in every if s != 1]
        is_row_alone = sum(s == 1 for _, s in every) == 1  # only the row's loop has step 1
        fitting = (n for n in WIDE if self.row % n == 0 and all(s % n == 0 for s in other_steps))
        return next(fitting, 1) if is_row_alone else 1

    @property
    def row(self) -> int:
        """The number of a thread's points that are contiguous."""
        return next((n for n, s in self.own if s == 1), 1)

    @property
    def is_best(self) -> bool:
        """True if no other layout of the array could serve it faster."""
        widest = next((n for n in WIDE if self.row % n == 0), 1)
        return self.together == widest and self.cycles == self.least

    @property
    def requests(self) -> int:
        """The requests of a thread, in all repetitions."""
        return self.times * prod(n for n, _ in self.own) // self.together

    @property
    def turns(self) -> int:
        """The issue slots of warps for all requests."""
        return self.requests * -(-prod(n for n, _ in self.lanes) // WARP)

    @property
    def cycles(self) -> int:
        """The cycles that all warps of a block wait for all of its requests."""
        return self.requests * self._cycles()[0]

    @property
    def least(self) -> int:
        """The cycles without bank conflicts."""
        return self.requests * self._cycles()[1]

    def _cycles(self) -> tuple[int, int]:
        return waits(self.lanes, self.together, ITEM_BYTES[self.buffer.dtype])

    def holds(self, pitch: int) -> bool:
        """Return True if it is an element of a row `pitch` long.

        Its steps must be of whole rows, or stay in one row.
        """
        inner = sum((n - 1) * s for n, s in self.reach if s % pitch)
        forward = self.first >= 0 and all(s >= 0 for _, s in self.reach)
        return forward and inner + self.first % pitch < pitch

    def padded(self, pitch: int, pad: int) -> BankAccess:
        """Return the same access with rows `pad` elements farther apart."""

        def of(steps: Steps) -> Steps:
            return tuple((n, s if s % pitch else s + pad * (s // pitch)) for n, s in steps)

        first = self.first + pad * (self.first // pitch)
        return replace(
            self,
            lanes=of(self.lanes),
            own=of(self.own),
            loops=of(self.loops),
            reach=of(self.reach),
            first=first,
        )


@lru_cache(maxsize=REMEMBERED_VALUES)
def waits(lanes: Steps, together: int, item_bytes: int) -> tuple[int, int]:
    """Return the cycles of all warps for one request of each thread, with and without conflicts."""
    first = elements(lanes)[:, None] * item_bytes // WORD_BYTES
    count = max(1, together * item_bytes // WORD_BYTES)
    cycles, least = cycles_of(first + np.arange(count), together * item_bytes)
    return sum(cycles), sum(least)


def elements(lanes: Steps) -> np.ndarray:
    """Return the distance of each thread's element from the first thread's."""
    thread = np.arange(prod(n for n, _ in lanes), dtype=np.int64)
    at = np.zeros_like(thread)
    inner = 1
    for count, step in reversed(lanes):
        at += thread // inner % count * step
        inner *= count
    return at


@dataclass(frozen=True, slots=True)
class Inside:
    """A loop around a statement; those distributed over threads have a count."""

    span: Span
    count: int = 0


def bank_accesses(p: TileProgram) -> dict[str, list[BankAccess]]:
    """Return the accesses to each array in shared memory; none of one with an unknown access."""
    by_array: dict[str, list[BankAccess]] = {}
    unknown: set[str] = set()
    for s, around in walk_statements(p.body, ()):
        if not isinstance(s, Map | Reduce | Scan):
            unknown |= {b.name for b in touched(s)}
            continue
        for f, store, axes, over in _accesses(s, around):
            access = _access(f, store, axes, over)
            if access is None:
                unknown.add(f.buffer.name)
            else:
                by_array.setdefault(f.buffer.name, []).append(access)
    return {name: accesses for name, accesses in by_array.items() if name not in unknown}


def walk_statements(
    body: Iterable[Statement], around: tuple[Inside, ...]
) -> Iterator[tuple[Statement, tuple[Inside, ...]]]:
    """Yield every statement that is no loop, with the loops around it, outermost first."""
    for s in body:
        match s:
            case For(threads=None):
                yield from walk_statements(s.body, (*around, Inside(s.span)))
            case For():
                loops, inner = distributed_loops(s)
                own = (Inside(x.span, x.threads.count if x.threads else 1) for x in loops)
                yield from walk_statements(inner, (*around, *own))
            case _:
                yield s, around


def _accesses(
    s: Map | Reduce | Scan, around: Sequence[Inside]
) -> Iterator[tuple[Fetch, bool, Axes, int]]:
    """Yield a statement's elements in shared memory, whether it stores them, and the loops around.

    The last number is how many of these loops are over reduced axes.
    """
    if isinstance(s, Reduce) and s.form == MATRIX:
        warp_operands = fragments(s, [x.span.axis for x in around])
        over = [(x, 0) for x in reversed(warp_operands.over)]
        outer = [(x.span, x.count) for x in reversed(around)]
        for fragment in (warp_operands.rows, warp_operands.columns):
            own = [(x, -1) for x in reversed(fragment.spans)]
            yield fragment.element, False, [*own, *over, *outer], 0
        return
    target, axes = stored(s), axes_of(s, around)
    summed = len(s.over) if isinstance(s, Reduce) else 0
    for f in dict.fromkeys(loads(s)):
        if is_shared(f.buffer):
            yield f, False, axes, summed
    if target is not None and is_shared(target.buffer):
        yield target, True, axes, summed


def is_shared(b: Buffer) -> bool:
    """Return True if the threads of a block share a buffer."""
    return b.kind == "scratch" and b.level != REGISTER


def axes_of(s: Map | Reduce | Scan, around: Sequence[Inside]) -> Axes:
    """Return the loops that an element's address depends on, innermost first.

    Distributed loops have a count, those of the statement -1 if they are unrolled.
    """
    over = s.over if isinstance(s, Reduce) else (s.over,) if isinstance(s, Scan) else ()
    own = -1 if s.form == UNROLLED else 0
    inner = [(x, 0) for x in reversed(over)] + [(x, own) for x in reversed(s.spans)]
    return [*inner, *((x.span, x.count) for x in reversed(around))]


def _access(f: Fetch, store: bool, axes: Axes, over: int) -> BankAccess | None:
    """Return the access to an element by the steps of its loops; None if these are unknown."""
    if f.dynamic:
        return None
    offset, times = f.offset, 1
    lanes: list[tuple[int, int]] = []
    own: list[tuple[int, int]] = []
    loops: list[tuple[int, int]] = []
    reach: list[tuple[int, int]] = []
    for n, (x, count) in enumerate(axes):
        step, size = offset.factor(x.axis), x.size
        if not isinstance(step, int) or not isinstance(size, int):
            return None
        offset = offset.without({x.axis}) + x.base * step
        reach += [(size, step)] if step else []
        if count > 0:
            rounds = -(-size // count)
            lanes.insert(0, (min(count, size) if rounds == 1 else count, step))
            loops.append((rounds, step * count))
            times *= rounds
        elif count < 0:
            if step or store:
                own.append((size, step))
        else:
            loops.append((size, step))
            times *= 1 if store and n < over else size
    if offset.terms or not isinstance(offset.const, int):
        return None
    walks = tuple((n, step) for n, step in loops if step and n > 1)
    return BankAccess(
        f.buffer, store, tuple(lanes), tuple(own), walks, tuple(reach), offset.const, times
    )


WARP, BANKS, WORD_BYTES = 32, 32, 4  # of every GPU that CUDA knows
Words: TypeAlias = NDArray[np.int64]


def lanes_at_once(lane_bytes: int) -> int:
    """Return how many threads of a warp are served together that request so many bytes each."""
    return max(1, min(WARP, BANKS * WORD_BYTES // max(WORD_BYTES, lane_bytes)))


def request_parts(
    words: Words, lane_bytes: int
) -> Iterator[tuple[int, dict[int, dict[int, list[int]]]]]:
    """Yield the parts of a request that are served together.

    Each has its first thread, and for each bank its words with the threads that request them.
    """
    step = lanes_at_once(lane_bytes)
    for first in range(0, len(words), step):
        banks: dict[int, dict[int, list[int]]] = {}
        for lane, row in enumerate(words[first : first + step].tolist(), first):
            for word in row:
                if word >= 0:
                    banks.setdefault(word % BANKS, {}).setdefault(word, []).append(lane)
        if banks:
            yield first, banks


def cycles_of(words: Words, lane_bytes: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the cycles of each warp of a block for a request, with and without conflicts.

    `words` has a row a thread, negative where it requests nothing.
    """
    step = lanes_at_once(lane_bytes)
    parts = -(-len(words) // step)
    active = words >= 0
    part = np.broadcast_to(np.arange(len(words))[:, None] // step, words.shape)[active]
    base = int(words.max(initial=0)) + 1
    which, word = np.divmod(np.unique(part * base + words[active]), base)
    counts = np.bincount(which * BANKS + word % BANKS, minlength=parts * BANKS)
    most = counts.reshape(parts, BANKS).max(axis=1, initial=0)
    ends = range(0, parts, WARP // step)
    cycles = tuple(int(most[n : n + WARP // step].sum()) for n in ends)
    return cycles, tuple(int((most[n : n + WARP // step] > 0).sum()) for n in ends)
