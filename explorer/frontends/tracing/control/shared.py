"""Arrays that a branch or a loop changes elements of, or hands on under another name: which of them
a result is, only a run knows, and a change under one name is one under the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from explorer.errors import TraceError
from explorer.frontends.tracing.array import Change, Shared, TracedArray
from explorer.frontends.tracing.frames import Frame, current_frame
from explorer.frontends.tracing.lines import calling_line

Arrays = Sequence[TracedArray]
Pairs = set[tuple[int, int]]  # of results, by their places


def given_as(values: Arrays, given: Arrays) -> None:
    """The parameters of a body are the arrays that it is given, and so may two of them be one."""
    for n, (value, before) in enumerate(zip(values, given, strict=True)):
        others = [v for m, v in enumerate(values) if m != n and _are_one(given[m], before)]
        value.shared = tuple(Shared(a, len(a.changes)) for a in (*_roots(before), *others))


def changed_in(inner: Frame) -> None:
    """A body is written: whatever else the arrays are called of which it changed elements tells
    nothing any more.
    """
    frame = current_frame()
    for array, text in {id(array): (array, text) for array, text in inner.changed}.values():
        array.note(Change(frame, text))


def check_trips(inner: Frame) -> None:
    """Of the body of a loop: TraceError where it reads an array from outside and changes elements
    of it under another name, which the next trip would not see.
    """
    for array, text in inner.changed:
        if array.is_read_in(inner):
            line = calling_line()
            raise TraceError(
                f"{line}: this loop reads an array from outside of it and changes its elements "
                f"under another name ({text}), as NumPy's next iteration would see and a traced "
                "one does not; take .copy() of it before the loop",
                where=line,
                try_=".copy()",
            )


def handed_on(found: Arrays, ways: Sequence[Arrays]) -> None:
    """Each result may be what any of the ways gives, and another one where a way gives both one."""
    alike: Pairs = set()
    for way in ways:
        alike |= _pairs(way)
    _share(found, [[way[n] for way in ways] for n in range(len(found))], alike)


def handed_on_by_trips(found: Arrays, begin: Arrays, before: Arrays, after: Arrays) -> None:
    """The same of a loop, which begins with some arrays, and of those `before` a trip makes those
    `after` it.
    """
    after = after[: len(found)]
    places = {id(value): n for n, value in enumerate(before)}
    sources = [places.get(id(value)) for value in after]
    ways = [{id(a): a} for a in begin]
    for way, value, source in zip(ways, after, sources, strict=True):
        if source is None:
            way[id(value)] = value
    for _ in found:  # as many trips as an array needs to come to any place
        for way, source in zip(ways, sources, strict=True):
            way |= {} if source is None else ways[source]
    alike = _pairs(begin) | _pairs(after)
    if any(s is None and _outside(v) for s, v in zip(sources, after, strict=True)):
        several = [(n, m) for n in range(len(ways)) for m in range(len(ways)) if n != m]
        alike |= {(n, m) for n, m in several if ways[n].keys() & ways[m].keys()}
    _share(found, [tuple(way.values()) for way in ways], alike)


def _share(found: Arrays, ways: Sequence[Iterable[TracedArray]], alike: Pairs) -> None:
    statement = object()
    for n, value in enumerate(found):
        arrays = {id(a): a for given in ways[n] for a in _roots(given) if _outside(a)}
        siblings = [other for m, other in enumerate(found) if (n, m) in alike]
        value.statement = statement
        value.shared = (
            *(Shared(a, len(a.changes), statement) for a in arrays.values()),
            *(Shared(a, len(a.changes)) for a in siblings),
        )


def _pairs(arrays: Arrays) -> Pairs:
    """Which of them may be one."""
    several = [(n, m) for n in range(len(arrays)) for m in range(len(arrays)) if n != m]
    return {(n, m) for n, m in several if _are_one(arrays[n], arrays[m])}


def _are_one(a: TracedArray, b: TracedArray) -> bool:
    """Whether they may be; of results of one statement it is known."""
    one, *ones = map(id, _roots(a))
    two, *twos = map(id, _roots(b))
    if a.statement is not None and a.statement is b.statement:
        return one == two or one in twos or two in ones
    return bool({one, *ones} & {two, *twos})


def _roots(value: TracedArray) -> tuple[TracedArray, ...]:
    """The array, or what it is a view of, and all that this may be."""
    of = value if value.of is None else value.of
    return of, *(other.array for other in of.shared)


def _outside(value: TracedArray) -> bool:
    """Whether an array is one of the function that is being written, or of one around."""
    return value.home.is_around(current_frame())
