"""Which threads of a block come to which elements: found by going through every point of what is
dealt out, so that two parts are compared exactly. A clip that other loops than an element's decide
is left out: no more is reached than this.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from explorer.ir.affine import Affine, var
from explorer.ir.tile_programs.elements import REGISTER, Buffer, Fetch
from explorer.ir.tile_programs.statements import At, For, Load, Map, Reduce, Scan, Span, Statement
from explorer.ir.tile_programs.traversal import (
    dealt,
    loads,
    reads,
    spans,
    statements,
    stored,
    writes,
)
from explorer.tile.sync_places import Part

MOST_POINTS = 1 << 22  # that are gone through: a bound on time, chosen


@dataclass(frozen=True, slots=True)
class Access:
    """A buffer that a part reads or writes: the element, inside of these loops, or any element
    where that is None.
    """

    buffer: Buffer
    is_write: bool
    element: Fetch | None = None
    inside: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class Reach:
    """The elements of an access, in order, each with the first and the last thread that comes to
    it. `rest` is added to all: it is the same for all threads.
    """

    rest: Affine
    elements: np.ndarray
    first: np.ndarray
    last: np.ndarray


def accesses(part: Part) -> tuple[Access, ...]:
    """What a part reads and writes of memory that threads share."""
    body = dealt(part.statement)[1] if isinstance(part.statement, For) else (part.statement,)
    return tuple(dict.fromkeys(a for a in _in(body, ()) if a.buffer.level != REGISTER))


def _in(body: Sequence[Statement], around: tuple[Span, ...]) -> Iterator[Access]:
    for s in body:
        match s:
            case For(span, inner, None):
                yield from _in(inner, (*around, span))
            case At(span, _, inner):
                yield from (Access(f.buffer, False, f, around) for f in loads(s))
                yield from _in(inner, (*around, span))
            case Map() | Reduce() | Load() | Scan():
                target, within = stored(s), (*around, *spans(s))
                assert target is not None
                yield Access(target.buffer, True, target, within)
                yield from (Access(f.buffer, False, f, within) for f in loads(s))
            case _:
                yield from (Access(b, True) for b in writes(s))
                yield from (Access(b, False) for b in reads(s))


def clash(a: Reach | None, b: Reach | None) -> bool:
    """Whether two different threads may come to one element, one by each access."""
    if a is None or b is None or a.rest != b.rest:
        return True
    _, x, y = np.intersect1d(a.elements, b.elements, assume_unique=True, return_indices=True)
    first = np.minimum(a.first[x], b.first[y])
    last = np.maximum(a.last[x], b.last[y])
    return bool(np.any(first != last))


def reach(part: Part, access: Access, same: int) -> Reach | None:
    """What an access comes to where the first `same` loops around the part have one value for all
    who are compared; None where that cannot be told from affine indices in numbers.
    """
    if access.element is None or access.element.dynamic:
        return None
    walk = _Walk({}, {}, {}, {})
    for loop in part.around[same:]:
        walk.enter(loop.span)
    threads = dealt(part.statement)[0] if isinstance(part.statement, For) else ()
    if any(isinstance(x, For) and x.threads for s in threads[-1:] for x in statements(s.body)):
        return None
    counts = [t.threads.count for t in threads if t.threads is not None]
    for n, loop in enumerate(threads):
        walk.enter(loop.span)
        walk.places[loop.span.axis] = (counts[n], prod(counts[n + 1 :]))
    for span in access.inside:
        walk.enter(span)
    return walk.reach(access.element.offset)


@dataclass(slots=True)
class _Walk:
    """Loops as they are entered: the value of each variable in numbers of trips, and how many trips
    there are; `places`: of those that are dealt out, to how many threads, and what a place counts
    in a thread's number; `clips`: the least value of an axis that there is, and the end.
    """

    values: dict[str, Affine]
    sizes: dict[str, object]
    places: dict[str, tuple[int, int]]
    clips: dict[str, tuple[int | None, int | None]]

    def enter(self, span: Span) -> None:
        """One more loop."""
        self.sizes[span.axis] = span.size
        self.values[span.axis] = span.base.substitute(self.values) + var(_trip(span.axis))
        end = span.extent if span.clip_high and isinstance(span.extent, int) else None
        self.clips[span.axis] = (0 if span.clip_low else None, end)

    def reach(self, offset: Affine) -> Reach | None:
        """All elements at an offset."""
        at = offset.substitute(self.values)
        names = {_trip(axis): axis for axis in self.sizes}
        rest = tuple(t for t in at.terms if t[0] not in names)
        mine = {names[n]: factor for n, factor in at.terms if n in names}
        sizes = {axis: self.sizes[axis] for axis in (*mine, *self.places)}
        if not all(isinstance(x, int) for x in (*mine.values(), *sizes.values())):
            return None
        known = {axis: int(sizes[axis]) for axis in mine}  # type: ignore[call-overload]
        if prod(known.values()) > MOST_POINTS:
            return None
        where = _over(known, {axis: int(mine[axis]) for axis in known})
        first = np.zeros((1,), np.int64)
        for axis, size in known.items():
            count, each = self.places.get(axis, (1, 0))
            first = np.add.outer(first, np.arange(size) % count * each).ravel()
        there = self._there(known)
        where, first = where[there], first[there]
        others = (
            (min(count, int(sizes[a])) - 1) * each  # type: ignore[call-overload]
            for a, (count, each) in self.places.items()
            if a not in known
        )
        rest_of = Affine(rest, at.const if not isinstance(at.const, int) else 0)
        where = where + (at.const if isinstance(at.const, int) else 0)
        return _gathered(rest_of, where, first, first + sum(others))

    def _there(self, known: dict[str, int]) -> np.ndarray:
        """Which points of some loops no clip leaves out, as far as these loops tell."""
        there = np.ones(prod(known.values()), np.bool_)
        names = {_trip(axis): axis for axis in known}
        for axis in known:
            low, end = self.clips[axis]
            value = self.values[axis]
            by = {names[n]: f for n, f in value.terms if n in names and isinstance(f, int)}
            if (low, end) == (None, None) or len(by) < len(value.terms):
                continue
            if isinstance(value.const, int):
                at = _over(known, by) + value.const
                there &= True if low is None else at >= low
                there &= True if end is None else at < end
        return there


def _over(loops: dict[str, int], factors: dict[str, int]) -> np.ndarray:
    """A sum of multiples of the trips, for every point of some loops, the last one fastest."""
    total = np.zeros((1,), np.int64)
    for axis, size in loops.items():
        total = np.add.outer(total, np.arange(size) * factors.get(axis, 0)).ravel()
    return total


def _trip(axis: str) -> str:
    return f"{axis}#"


def _gathered(rest: Affine, where: np.ndarray, first: np.ndarray, last: np.ndarray) -> Reach:
    order = np.argsort(where, kind="stable")
    where, first, last = where[order], first[order], last[order]
    starts = np.flatnonzero(np.diff(where, prepend=where[:1] - 1))
    if not len(where):
        return Reach(rest, where, first, last)
    low, high = np.minimum.reduceat(first, starts), np.maximum.reduceat(last, starts)
    return Reach(rest, where[starts], low, high)
