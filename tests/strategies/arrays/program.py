"""Random programs: lines that read any earlier value, branches, scans and whiles between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import explorer.np as enp
from tests.strategies.arrays.kinds import KINDS, broadcast
from tests.strategies.choices import Choices, generator

LARGE, MOST = 20.0, 120  # a value beyond is not taken; nor is one of more elements


@dataclass(frozen=True, slots=True)
class Line:
    """One value: of a kind, of earlier values by number, and what else it takes."""

    kind: str
    of: tuple[int, ...]
    more: tuple[Any, ...] = ()
    first: tuple[Line, ...] = ()
    second: tuple[Line, ...] = ()


@dataclass(frozen=True, slots=True)
class Random:
    """A program and what it is run with."""

    lines: tuple[Line, ...]
    args: tuple[np.ndarray, ...]


def run(np_: Any, lines: Sequence[Line], given: Sequence[Any]) -> list[Any]:
    """All values, those given first."""
    values = list(given)
    for line in lines:
        values.append(_value(np_, line, values))
    return values


def _value(np_: Any, line: Line, values: list[Any]) -> Any:
    operands = [values[n] for n in line.of]
    if line.kind in NESTED:
        return NESTED[line.kind](np_, line, values, *operands)
    return KINDS[line.kind].run(np_, *operands, *line.more)


def _last(np_: Any, lines: Sequence[Line], given: Sequence[Any], shape: tuple[int, ...]) -> Any:
    """What the lines give last, in a shape and between -1 and 1."""
    last = run(np_, lines, given)[-1]
    size = tuple(last.shape)
    fits = broadcast(size, shape) and np.broadcast_shapes(size, shape) == shape
    return np_.broadcast_to(np_.tanh(last if fits else last.sum()), shape)


def _branch(np_: Any, line: Line, values: list[Any], a: Any) -> Any:
    shape = tuple(a.shape)
    return np_.cond(
        a.sum() > line.more[0],
        lambda: _last(np_, line.first, values, shape) + a,
        lambda: _last(np_, line.second, values, shape),
    )


def _scan(np_: Any, line: Line, values: list[Any], a: Any, start: Any) -> Any:
    """Over rows of `a`, from either end; the state has the shape of `start`."""
    (last,) = line.more
    shape = tuple(start.shape)

    def body(h: Any, row: Any) -> Any:
        h = _last(np_, line.first, [*values, h, row], shape)
        return h, np_.sin(h) * 0.5 + _last(np_, line.second, [*values, row, h], shape)

    h, rows = np_.scan(body, start, a)
    return h if last else rows


def _while(np_: Any, line: Line, values: list[Any], a: Any) -> Any:
    """As many trips as data say: none, or up to three."""
    trips, turn = line.more
    shape = tuple(a.shape)

    def step(count: Any, h: Any) -> Any:
        return count + 1, h * 0.5 + _last(np_, line.first, [*values, h], shape)

    def goes_on(count: Any, h: Any) -> Any:
        return count < np_.where(a.sum() > turn, np_.asarray(trips), np_.asarray(1))

    return np_.while_loop(goes_on, step, np_.asarray(np.int64(0)), a)[1]


NESTED: dict[str, Callable[..., Any]] = {"branch": _branch, "scan": _scan, "while": _while}


# Drawing them.


@generator
def programs(c: Choices, count: int = 0, depth: int = 2) -> Random:
    """A program of `count` lines, by default up to 12, and two arrays for it."""
    count = count or c.number(1, 12)
    args = tuple(c.rng.normal(size=c.some([1, 2, 3, 4], 1, 3)) for _ in range(2))
    return Random(_lines(c, args, count, depth), args)


def _lines(c: Choices, given: Sequence[np.ndarray], count: int, depth: int) -> tuple[Line, ...]:
    values, lines = list(given), []
    while len(lines) < count:
        line = _line(c, values, depth)
        if line is None:
            continue
        found = np.asarray(_value(PLAIN, line, values))
        if found.size <= MOST and found.ndim <= 4 and np.abs(found).max(initial=0.0) < LARGE:
            values.append(found)
            lines.append(line)
    return tuple(lines)


def _line(c: Choices, values: list[np.ndarray], depth: int) -> Line | None:
    if depth and c.chance(0.25):
        return _nested(c, values, depth - 1)
    kind = c.one(list(KINDS))
    found = KINDS[kind].draw(c, values)
    return None if found is None else Line(kind, *found)


def _nested(c: Choices, values: list[np.ndarray], depth: int) -> Line:
    kind = c.one(list(NESTED))
    n, m = (c.number(0, len(values) - 1) for _ in range(2))

    def inner(*more: np.ndarray) -> tuple[Line, ...]:
        return _lines(c, [*values, *more], c.number(1, 3), depth)

    if kind == "branch":
        return Line(kind, (n,), (float(c.rng.normal()),), inner(), inner())
    rows = [k for k, v in enumerate(values) if v.ndim and len(v)]
    if kind == "while" or not rows:
        turn = float(values[n].sum() + c.one([-1.0, 1.0]))
        return Line("while", (n,), (c.number(0, 3), turn), inner(values[n]))
    k = c.one(rows)
    h, row = values[m], values[k][0]
    return Line(kind, (k, m), (bool(c.number(0, 1)),), inner(h, row), inner(row, h))


class Plain:
    """NumPy, and control flow as Python's."""

    def __getattr__(self, name: str) -> Any:
        return getattr(enp, name)

    def cond(self, taken: Any, first: Any, second: Any) -> Any:
        return first() if taken else second()

    def scan(self, body: Any, h: Any, rows: Any) -> Any:
        found = []
        for row in rows:
            h, y = body(h, row)
            found.append(y)
        return h, self.stack(found)

    def while_loop(self, goes_on: Any, step: Any, *state: Any) -> Any:
        while goes_on(*state):
            state = step(*state)
        return state


PLAIN = Plain()
