"""Data hazards between threads of a block, and the gaps where a `Sync` must prevent them.

Indices are affine and sizes are numbers, so that the elements that each thread reaches are compared
one by one. An unknown index counts as shared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from explorer.ir.affine import Affine, var
from explorer.ir.tile_program import (
    REGISTER,
    At,
    Buffer,
    Fetch,
    For,
    Load,
    Map,
    Reduce,
    Scan,
    Span,
    Statement,
    TileProgram,
)
from explorer.ir.tile_traversal import (
    distributed_loops,
    loads,
    reads,
    spans,
    statements,
    stored,
    writes,
)
from explorer.tile.sync_places import Gap, Parts, Path, SyncRegion, parts_of_block


@dataclass(frozen=True, slots=True)
class Hazard:
    """Two parts in which different threads access one buffer, and at least one of them writes.

    A Sync must be in one of the gaps. A single part has no gaps: no Sync helps.
    """

    buffer: str
    gaps: frozenset[Gap]


def hazards(parts: Parts) -> tuple[Hazard, ...]:
    """Return every hazard of a program without its Syncs."""
    return tuple(dict.fromkeys(_Hazards(parts).all()))


def race(p: TileProgram) -> str:
    """Return a sentence about the first hazard that no Sync prevents; else an empty string."""
    parts = parts_of_block(p)
    for h in hazards(parts):
        if not h.gaps:
            return f"two threads may access one element of {h.buffer}, and one of them writes it"
        if not h.gaps & parts.synced:
            return (
                f"a thread may access an element of {h.buffer} before another one has finished "
                "with it: no Sync is between them"
            )
    return ""


class _Hazards:
    """The pairs of a program's parts."""

    def __init__(self, parts: Parts) -> None:
        """Create the pairs from a program's parts."""
        self.parts = parts
        self.of = {part.path: accesses(part) for part in parts.parts}
        self.reaches: dict[tuple[Path, int, int], Reach | None] = {}

    def reach(self, part: SyncRegion, number: int, same: int) -> Reach | None:
        """Return the elements of one access of a part, computed once."""
        key = (part.path, number, same)
        if key not in self.reaches:
            self.reaches[key] = reach(part, self.of[part.path][number], same)
        return self.reaches[key]

    def all(self) -> Iterator[Hazard]:
        """Yield every hazard, by the part that comes first."""
        order = self.parts.parts
        for n, a in enumerate(order):
            yield from self._conflicts(a, a, len(a.around), frozenset())
            for b in order[n + 1 :]:
                yield from self._conflicts(
                    a, b, _common_loops(a, b), self.parts.between(a.path, b.path)
                )
        for a in order:
            for b in order:
                yield from self._across_trips(a, b)

    def _across_trips(self, a: SyncRegion, b: SyncRegion) -> Iterator[Hazard]:
        for depth in range(_common_loops(a, b)):
            if a.around[depth].span.size != 1:
                gaps = self.parts.around(a.path, b.path, depth + 1)
                yield from self._conflicts(a, b, depth, gaps)

    def _conflicts(
        self, a: SyncRegion, b: SyncRegion, same: int, gaps: frozenset[Gap]
    ) -> Iterator[Hazard]:
        """Yield the buffers that two parts share in the same trip of the first `same` loops."""
        for n, x in enumerate(self.of[a.path]):
            for m, y in enumerate(self.of[b.path]):
                name = x.buffer.name
                if name != y.buffer.name or not (x.is_write or y.is_write):
                    continue
                if clash(self.reach(a, n, same), self.reach(b, m, same)):
                    yield Hazard(name, gaps)


def _common_loops(a: SyncRegion, b: SyncRegion) -> int:
    """Return the number of loops around both parts."""
    count = 0
    while count < min(len(a.path), len(b.path)) - 1 and a.path[count] == b.path[count]:
        count += 1
    return count


MOST_POINTS = 1 << 22  # enumerated: a bound on time, chosen


@dataclass(frozen=True, slots=True)
class BufferAccess:
    """A buffer that a part reads or writes.

    It is the element, inside of these loops, or any element if that is None.
    """

    buffer: Buffer
    is_write: bool
    element: Fetch | None = None
    inside: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class Reach:
    """The elements of an access, in order, with the first and the last thread of each.

    `common_offset` is added to all elements: it is the same for all threads.
    """

    common_offset: Affine
    elements: np.ndarray
    first: np.ndarray
    last: np.ndarray


def accesses(part: SyncRegion) -> tuple[BufferAccess, ...]:
    """Return a part's reads and writes of memory that threads share."""
    body = (
        distributed_loops(part.statement)[1]
        if isinstance(part.statement, For)
        else (part.statement,)
    )
    return tuple(dict.fromkeys(a for a in _accesses_in(body, ()) if a.buffer.level != REGISTER))


def _accesses_in(body: Sequence[Statement], around: tuple[Span, ...]) -> Iterator[BufferAccess]:
    """Yield the accesses of statements, with the loops around each."""
    for s in body:
        match s:
            case For(span, inner, None):
                yield from _accesses_in(inner, (*around, span))
            case At(span, _, inner):
                yield from (BufferAccess(f.buffer, False, f, around) for f in loads(s))
                yield from _accesses_in(inner, (*around, span))
            case Map() | Reduce() | Load() | Scan():
                target, within = stored(s), (*around, *spans(s))
                assert target is not None
                yield BufferAccess(target.buffer, True, target, within)
                yield from (BufferAccess(f.buffer, False, f, within) for f in loads(s))
            case _:
                yield from (BufferAccess(b, True) for b in writes(s))
                yield from (BufferAccess(b, False) for b in reads(s))


def clash(a: Reach | None, b: Reach | None) -> bool:
    """Return True if two different threads may access one element, one by each access."""
    if a is None or b is None or a.common_offset != b.common_offset:
        return True
    _, x, y = np.intersect1d(a.elements, b.elements, assume_unique=True, return_indices=True)
    first = np.minimum(a.first[x], b.first[y])
    last = np.maximum(a.last[x], b.last[y])
    return bool(np.any(first != last))


def reach(part: SyncRegion, access: BufferAccess, same: int) -> Reach | None:
    """Return the elements of an access, for equal trips of the first `same` loops around the part.

    None stands for indices that are not affine in numbers.
    """
    if access.element is None or access.element.dynamic:
        return None
    walk = _LoopNest({}, {}, {}, {})
    for loop in part.around[same:]:
        walk.enter(loop.span)
    threads = distributed_loops(part.statement)[0] if isinstance(part.statement, For) else ()
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
class _LoopNest:
    """Loops as they are entered, with the value of each variable in trips and the trip counts.

    `places` has, for distributed loops, the number of threads and the stride of an index in the
    thread number. `clips` has the least existing value of an axis, and the end.
    """

    values: dict[str, Affine]
    sizes: dict[str, object]
    places: dict[str, tuple[int, int]]
    clips: dict[str, tuple[int | None, int | None]]

    def enter(self, span: Span) -> None:
        """Enter one more loop."""
        self.sizes[span.axis] = span.size
        self.values[span.axis] = span.base.substitute(self.values) + var(_trip(span.axis))
        end = span.extent if span.clip_high and isinstance(span.extent, int) else None
        self.clips[span.axis] = (0 if span.clip_low else None, end)

    def reach(self, offset: Affine) -> Reach | None:
        """Return all elements at an offset."""
        at = offset.substitute(self.values)
        names = {_trip(axis): axis for axis in self.sizes}
        outside_terms = tuple(t for t in at.terms if t[0] not in names)
        mine = {names[n]: factor for n, factor in at.terms if n in names}
        sizes = {axis: self.sizes[axis] for axis in (*mine, *self.places)}
        if not all(isinstance(x, int) for x in (*mine.values(), *sizes.values())):
            return None
        trip_counts = {axis: int(sizes[axis]) for axis in mine}  # type: ignore[call-overload]
        if prod(trip_counts.values()) > MOST_POINTS:
            return None
        where = _offsets(trip_counts, {axis: int(mine[axis]) for axis in trip_counts})
        first = np.zeros((1,), np.int64)
        for axis, size in trip_counts.items():
            count, each = self.places.get(axis, (1, 0))
            first = np.add.outer(first, np.arange(size) % count * each).ravel()
        unclipped = self._unclipped(trip_counts)
        where, first = where[unclipped], first[unclipped]
        others = (
            (min(count, int(sizes[a])) - 1) * each  # type: ignore[call-overload]
            for a, (count, each) in self.places.items()
            if a not in trip_counts
        )
        rest_of = Affine(outside_terms, at.const if not isinstance(at.const, int) else 0)
        where = where + (at.const if isinstance(at.const, int) else 0)
        return _by_element(rest_of, where, first, first + sum(others))

    def _unclipped(self, trip_counts: dict[str, int]) -> np.ndarray:
        """Return which points of some loops are not clipped, as far as these loops determine."""
        unclipped = np.ones(prod(trip_counts.values()), np.bool_)
        names = {_trip(axis): axis for axis in trip_counts}
        for axis in trip_counts:
            low, end = self.clips[axis]
            value = self.values[axis]
            by = {names[n]: f for n, f in value.terms if n in names and isinstance(f, int)}
            if (low, end) == (None, None) or len(by) < len(value.terms):
                continue
            if isinstance(value.const, int):
                at = _offsets(trip_counts, by) + value.const
                unclipped &= True if low is None else at >= low
                unclipped &= True if end is None else at < end
        return unclipped


def _offsets(loops: dict[str, int], factors: dict[str, int]) -> np.ndarray:
    """Return a sum of multiples of the trips for every point of some loops, the last fastest."""
    total = np.zeros((1,), np.int64)
    for axis, size in loops.items():
        total = np.add.outer(total, np.arange(size) * factors.get(axis, 0)).ravel()
    return total


def _trip(axis: str) -> str:
    return f"{axis}#"


def _by_element(
    common_offset: Affine, where: np.ndarray, first: np.ndarray, last: np.ndarray
) -> Reach:
    """Group points by element, with the first and the last thread of each."""
    order = np.argsort(where, kind="stable")
    where, first, last = where[order], first[order], last[order]
    starts = np.flatnonzero(np.diff(where, prepend=where[:1] - 1))
    if not len(where):
        return Reach(common_offset, where, first, last)
    low, high = np.minimum.reduceat(first, starts), np.maximum.reduceat(last, starts)
    return Reach(common_offset, where[starts], low, high)
