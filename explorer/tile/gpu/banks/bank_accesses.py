"""What the threads of a block ask of each array in shared memory, by the steps of its loops: how
far the elements of neighbours lie apart, how many of them a thread asks for at once, how often.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import TypeAlias

import numpy as np

from explorer.ir.dtypes import ITEM_BYTES
from explorer.ir.tile_programs.elements import REGISTER, Buffer, Fetch
from explorer.ir.tile_programs.program import TileProgram
from explorer.ir.tile_programs.statements import For, Map, Reduce, Scan, Span, Statement
from explorer.ir.tile_programs.traversal import dealt, loads, stored, touched
from explorer.tile.gpu.banks.requests import WARP, WORD_BYTES, cycles_of
from explorer.tile.gpu.distribute import UNROLLED
from explorer.tile.gpu.matrix_units import MATRIX, fragments

Steps: TypeAlias = tuple[tuple[int, int], ...]  # (how many points, elements from one to the next)
Axes: TypeAlias = list[tuple[Span, int]]  # as in `axes_of`
WIDE = (4, 2)  # elements that a compiler makes one request of, where groups begin at a multiple
REMEMBERED_VALUES = 1 << 14  # cycles of requests: a bound on memory, chosen


@dataclass(frozen=True, slots=True)
class Asked:
    """An access: `lanes` has the steps of the loops that are dealt out, by threads, the last one
    fastest; `own` those along which a thread's points are unrolled, `loops` all others and rounds;
    `reach` all of these whole. The element is `first` elements from the buffer's begin where all
    are at 0. `times`: how often a thread comes to its points.
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
        """How many elements a thread asks for at once."""
        every = (*self.lanes, *self.loops, *self.own, (1, self.first))
        rest = [s for _, s in every if s != 1]
        alone = sum(s == 1 for _, s in every) == 1  # no other loop than the row's
        fitting = (n for n in WIDE if self.row % n == 0 and all(s % n == 0 for s in rest))
        return next(fitting, 1) if alone else 1

    @property
    def row(self) -> int:
        """How many of a thread's points lie beside each other."""
        return next((n for n, s in self.own if s == 1), 1)

    @property
    def is_best(self) -> bool:
        """Whether no other layout of the array could serve it faster."""
        widest = next((n for n in WIDE if self.row % n == 0), 1)
        return self.together == widest and self.cycles == self.least

    @property
    def requests(self) -> int:
        """Of a thread, all times."""
        return self.times * prod(n for n, _ in self.own) // self.together

    @property
    def turns(self) -> int:
        """Of warps, to ask for all."""
        return self.requests * -(-prod(n for n, _ in self.lanes) // WARP)

    @property
    def cycles(self) -> int:
        """That all warps of a block wait for all of its requests."""
        return self.requests * self._waits()[0]

    @property
    def least(self) -> int:
        """The same if no two words were in one bank."""
        return self.requests * self._waits()[1]

    def _waits(self) -> tuple[int, int]:
        return waits(self.lanes, self.together, ITEM_BYTES[self.buffer.dtype])

    def holds(self, pitch: int) -> bool:
        """Whether it is an element of a row `pitch` long, by steps of whole rows and others that
        stay in one row.
        """
        inner = sum((n - 1) * s for n, s in self.reach if s % pitch)
        forward = self.first >= 0 and all(s >= 0 for _, s in self.reach)
        return forward and inner + self.first % pitch < pitch

    def padded(self, pitch: int, pad: int) -> Asked:
        """The same where rows are `pad` elements farther apart."""

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
    """The cycles of all warps for one request of each thread, and what they would be without
    conflicts.
    """
    first = elements(lanes)[:, None] * item_bytes // WORD_BYTES
    count = max(1, together * item_bytes // WORD_BYTES)
    cycles, least = cycles_of(first + np.arange(count), together * item_bytes)
    return sum(cycles), sum(least)


def elements(lanes: Steps) -> np.ndarray:
    """How far the element of each thread lies from the first thread's."""
    thread = np.arange(prod(n for n, _ in lanes), dtype=np.int64)
    at = np.zeros_like(thread)
    inner = 1
    for count, step in reversed(lanes):
        at += thread // inner % count * step
        inner *= count
    return at


@dataclass(frozen=True, slots=True)
class Inside:
    """Loops around a statement, from the outside: those dealt out to threads have a count."""

    span: Span
    count: int = 0


def asked_of(p: TileProgram) -> dict[str, list[Asked]]:
    """The accesses to each array in shared memory; none of one with an access that is not known by
    steps.
    """
    found: dict[str, list[Asked]] = {}
    unknown: set[str] = set()
    for s, around in walked(p.body, ()):
        if not isinstance(s, Map | Reduce | Scan):
            unknown |= {b.name for b in touched(s)}
            continue
        for f, store, axes, over in _accesses(s, around):
            one = _asked(f, store, axes, over)
            if one is None:
                unknown.add(f.buffer.name)
            else:
                found.setdefault(f.buffer.name, []).append(one)
    return {name: asked for name, asked in found.items() if name not in unknown}


def walked(
    body: Iterable[Statement], around: tuple[Inside, ...]
) -> Iterator[tuple[Statement, tuple[Inside, ...]]]:
    """Every statement that is no loop, with the loops around it."""
    for s in body:
        match s:
            case For(threads=None):
                yield from walked(s.body, (*around, Inside(s.span)))
            case For():
                loops, inner = dealt(s)
                own = (Inside(x.span, x.threads.count if x.threads else 1) for x in loops)
                yield from walked(inner, (*around, *own))
            case _:
                yield s, around


def _accesses(
    s: Map | Reduce | Scan, around: Sequence[Inside]
) -> Iterator[tuple[Fetch, bool, Axes, int]]:
    """The elements in shared memory that a statement touches, whether it stores them, the loops
    around each, and how many of these are over what is reduced.
    """
    if isinstance(s, Reduce) and s.form == MATRIX:
        found = fragments(s, [x.span.axis for x in around])
        over = [(x, 0) for x in reversed(found.over)]
        outer = [(x.span, x.count) for x in reversed(around)]
        for one in (found.rows, found.columns):
            own = [(x, -1) for x in reversed(one.spans)]
            yield one.element, False, [*own, *over, *outer], 0
        return
    target, axes = stored(s), axes_of(s, around)
    summed = len(s.over) if isinstance(s, Reduce) else 0
    for f in dict.fromkeys(loads(s)):
        if is_shared(f.buffer):
            yield f, False, axes, summed
    if target is not None and is_shared(target.buffer):
        yield target, True, axes, summed


def is_shared(b: Buffer) -> bool:
    """Whether the threads of a block share it."""
    return b.kind == "scratch" and b.level != REGISTER


def axes_of(s: Map | Reduce | Scan, around: Sequence[Inside]) -> Axes:
    """The loops that an element's address depends on, from the inside: those dealt out with a
    count, those of the statement with -1 where they are unrolled.
    """
    over = s.over if isinstance(s, Reduce) else (s.over,) if isinstance(s, Scan) else ()
    own = -1 if s.form == UNROLLED else 0
    inner = [(x, 0) for x in reversed(over)] + [(x, own) for x in reversed(s.spans)]
    return [*inner, *((x.span, x.count) for x in reversed(around))]


def _asked(f: Fetch, store: bool, axes: Axes, over: int) -> Asked | None:
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
    return Asked(
        f.buffer, store, tuple(lanes), tuple(own), walks, tuple(reach), offset.const, times
    )
