"""Whether the tasks of a tile program write every element of an output, under one binding.

Every axis of a store runs over a base, which follows from tile variables and outer loops, and a
size: all tasks together take it through intervals, found without iterating over them. Offsets are
then strides times intervals.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product as every
from math import prod

import numpy as np

from explorer.ir.affine import Affine
from explorer.ir.shapes.dims import Dim, Sizes, evaluate_dim
from explorer.ir.tile_programs.elements import Fetch
from explorer.ir.tile_programs.program import TileProgram
from explorer.ir.tile_programs.statements import (
    Fill,
    For,
    Load,
    Map,
    Once,
    OnePass,
    Panels,
    Reduce,
    Scan,
    Span,
    Statement,
    Window,
)

MARKED_ELEMENTS = 1 << 24  # of an output that are marked one by one: a bound on memory, chosen
TRIED_VALUES = 1 << 12  # of variables that several axes share: a bound on time, chosen

Interval = tuple[int, int]  # from the first to, not including, the last
Steps = tuple[int, int, int]  # the first value, how many there are, and from one to the next
Box = tuple[int, tuple[tuple[int, int], ...]]  # an offset, and strides with how many steps


class Unknown(Exception):
    """What is written cannot be told from intervals."""


class _Gaps(Exception):
    """A loop does not reach all between its first and its last value."""

    def __init__(self, variable: str) -> None:
        super().__init__(variable)
        self.variable = variable  # from one value of it to the next


class Numbers:
    """Dims as numbers under one binding, each found once."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.known: dict[Dim, int] = {}

    def __call__(self, dim: Dim) -> int:
        """The number that a dim is."""
        if isinstance(dim, int):
            return dim
        if dim not in self.known:
            self.known[dim] = evaluate_dim(dim, self.sizes)
        return self.known[dim]


@dataclass(frozen=True, slots=True)
class Store:
    """One store to the output: the element, inside of these loops."""

    target: Fetch
    spans: tuple[Span, ...]


def boxes_of(program: TileProgram, output: str, numbers: Numbers) -> tuple[Box, ...]:
    """What all tasks write of the output buffer of a name. Raises Unknown."""
    tiles = {g.variable: (0, -(-numbers(g.extent) // g.tile), g.tile) for g in program.grid}
    return tuple(
        box
        for store in stores(program.body)
        if store.target.buffer.name == output
        for box in _Reach(store, tiles, numbers).boxes()
    )


def unwritten(boxes: Iterable[Box], count: int) -> str:
    """Which of so many elements are in no box, or which box is past their end, in words; empty
    where all are written. Raises Unknown.
    """
    found = tuple(b for b in boxes if all(n for _, n in b[1]))
    if count <= 0:
        return ""
    for start, steps in found:
        reach = [stride * (n - 1) for stride, n in steps]
        low = start + sum(min(0, r) for r in reach)
        high = start + sum(max(0, r) for r in reach)
        if low < 0 or high >= count:
            return f"a task writes element {low if low < 0 else high} of {count}"
    return "" if any(_is_all(box, count) for box in found) else _left(found, count)


def stores(body: Iterable[Statement], around: tuple[Span, ...] = ()) -> Iterator[Store]:
    """Every store with the loops around it, the outermost first."""
    for s in body:
        match s:
            case For(span, inner):
                yield from stores(inner, (*around, span))
            case Once(_, inner):  # the first task does it for all that share it
                yield from stores(inner, around)
            case Window(reduction, target=target):
                yield Store(target, (*around, *reduction.spans))
            case Map(target, spans, _) | Reduce(target, spans, _, _, _) | Load(target, _, spans):
                yield Store(target, (*around, *spans))
            case Scan(target, spans, over):
                yield Store(target, (*around, *spans, over))
            case OnePass(parts):
                yield from (Store(p.target, (*around, *p.spans)) for p in parts)
            case Panels(rows, columns):
                yield Store(s.epilogue.target, (*around, *rows, columns))
            case Fill(target):
                whole = Span("_all", Affine(), target.size, target.size)
                yield Store(Fetch(target, Affine((("_all", 1),))), (*around, whole))


@dataclass(frozen=True, slots=True)
class _Reach:
    """What a store reaches in all tasks; `known` are the values of variables that no loop iterates
    over.
    """

    store: Store
    known: Mapping[str, Steps]
    number: Numbers

    def boxes(self) -> Iterator[Box]:
        """The elements as boxes: one, or one for each value of variables that axes share."""
        if self.store.target.dynamic:
            raise Unknown("an address follows from data")
        yield from self._one_by_one(self._shared())

    def _one_by_one(self, names: tuple[str, ...]) -> Iterator[Box]:
        """A box for each value of these variables; more where a box would have gaps."""
        values = [self._values(name) for name in names]
        if prod(count for _, count, _ in values) > TRIED_VALUES:
            raise Unknown(f"too many values of {', '.join(names)}")
        for chosen in every(*(range(a, a + n * step, step) for a, n, step in values)):
            fixed = {name: (v, 1, 1) for name, v in zip(names, chosen)}
            one = _Reach(self.store, {**self.known, **fixed}, self.number)
            try:
                yield one.box(self.store.target.offset)
            except _Gaps as gaps:
                yield from one._one_by_one((gaps.variable,))

    def box(self, offset: Affine) -> Box:
        """The elements as one box."""
        start, steps = self.number(offset.const), []
        for name, factor in offset.terms:
            first, count, step = self._values(name)
            stride = self.number(factor)
            start += first * stride
            if count != 1:
                steps.append((stride * step, count))
        return start, tuple(steps)

    def _span(self, name: str) -> Span | None:
        if name in self.known:
            return None
        return next((s for s in reversed(self.store.spans) if s.axis == name), None)

    def _values(self, name: str) -> Steps:
        """All values that a variable takes."""
        if name in self.known:
            return self.known[name]
        first, last = self._interval(name)
        return first, last - first, 1

    def _interval(self, name: str) -> Interval:
        """All values that a loop takes."""
        span = self._span(name)
        if span is None:
            raise Unknown(f"nothing says what {name} is")
        first = self.number(span.base.const)
        last = first + self.number(span.size)
        if last <= first:
            return first, first
        terms = [(self.number(c), n, self._values(n)) for n, c in span.base.terms]
        terms.sort(key=lambda t: abs(t[0] * t[2][2]))
        for factor, inner, (low, count, step) in terms:
            if count < 1:
                return first, first
            if abs(factor * step) > last - first and count > 1:
                raise _Gaps(inner)
            ends = (factor * low, factor * (low + (count - 1) * step))
            first, last = first + min(ends), last + max(ends)
        if span.clip_low:
            first = max(0, first)
        if span.clip_high:
            last = min(self.number(span.extent), last)
        return first, max(first, last)

    def _from(self, name: str) -> frozenset[str]:
        """The variables that a variable follows from, itself among them."""
        span = self._span(name)
        if span is None:
            return frozenset({name}) if _many(self.known.get(name)) else frozenset()
        return frozenset({name}).union(*(self._from(n) for n in span.base.variables))

    def _shared(self) -> tuple[str, ...]:
        """The variables that two parts of the address follow from, or two parts of a base."""
        found: set[str] = set()
        names = set(self.store.target.offset.variables)
        for variables in (names, *(s.base.variables for s in self.store.spans)):
            seen: set[str] = set()
            for name in variables:
                mine = self._from(name)
                found |= seen & mine
                seen |= mine
        roots = {n for n in found if self._span(n) is None}
        return tuple(sorted(roots or found))


def _many(values: Steps | None) -> bool:
    return values is None or values[1] > 1


def _is_all(box: Box, count: int) -> bool:
    """Whether a box is all elements in a row: each stride is all that is inside of it."""
    start, steps = box
    inside = 1
    for stride, n in sorted(steps):
        if stride != inside:
            return False
        inside *= n
    return start == 0 and inside == count


def _left(boxes: Iterable[Box], count: int) -> str:
    """The elements that are in no box."""
    if count > MARKED_ELEMENTS:
        raise Unknown("too many elements to mark")
    marks = np.zeros(count, np.bool_)
    for start, steps in boxes:
        shape, strides = tuple(n for _, n in steps), tuple(s for s, _ in steps)
        np.lib.stride_tricks.as_strided(marks[start:], shape, strides)[...] = True
    missing = count - int(np.count_nonzero(marks))
    if not missing:
        return ""
    first = int(np.argmin(marks))
    return f"no task writes {missing} of its {count} elements, the first of them {first}"
