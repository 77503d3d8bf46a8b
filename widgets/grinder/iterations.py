"""The trips of a loop in a measured run: when each was, its bricks, and what ran in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from explorer.ir.decisions.control import TaskTree
from explorer.ir.decisions.wall import Trip
from widgets.model.brick_wall import CAUSES, WallRows

MOST_SHOWN, LEAST_SHOWN, FIRST, SLOWEST = 48, 12, 8, 3  # of the trips that one can go to
MOST_BRICKS, ALL_BRICKS = 64, 2400  # that are drawn of a trip, and of all
MOST_GAPS = 16  # of a trip

Whole = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Laid:
    """A brick: its lane, microseconds from the trip's beginning, and its call's position."""

    lane: int
    start_us: float
    end_us: float
    call: int


@dataclass(frozen=True, slots=True)
class Idle:
    """A gap: its lane, microseconds from the trip's beginning, and its cause."""

    lane: int
    start_us: float
    end_us: float
    cause: str


@dataclass(frozen=True, slots=True)
class Shown:
    """A trip, or a turn of several, that one can go to: the longest of its bricks and gaps, how
    many bricks there are, and the bindings of the operators that ran.
    """

    at: int
    first: int
    count: int
    begin_us: float
    us: float
    laid: tuple[Laid, ...]
    idle: tuple[Idle, ...]
    bricks: int
    ran: frozenset[str]

    @property
    def name(self) -> str:
        """Counted from 1."""
        if self.count == 1:
            return f"iteration {self.first + 1:,}"
        return f"iterations {self.first + 1:,} to {self.first + self.count:,}"


@dataclass(frozen=True, slots=True)
class Node:
    """A uTask of the loop: `below` are the operators of it and what is in it, `turns` in how many
    trips or turns one of them ran.
    """

    depth: int
    kind: str
    name: str
    below: frozenset[str]
    ops: tuple[str, ...]
    turns: int


@dataclass(frozen=True, eq=False)
class IterationRows:
    """The trips of a loop: `trips` in all, of which those with times are in order; `times_us` of
    each, or of each turn of `turn` of them.
    """

    loop: str
    device: str
    walls: WallRows
    trips: int
    turn: int
    times_us: NDArray[np.float64]
    shown: tuple[Shown, ...]
    nodes: tuple[Node, ...]

    @property
    def unit(self) -> str:
        """What a time is of."""
        return "iteration" if self.turn == 1 else f"{self.turn} unrolled iterations"


def loops(measured: WallRows | None) -> tuple[str, ...]:
    """The loops that made a trip, by binding, those that were entered first before the others."""
    found = measured.trips if measured is not None else ()
    return tuple(dict.fromkeys(t.binding for t in found))


def data(measured: WallRows, tree: TaskTree, loop: str) -> IterationRows:
    """The trips of one of these loops."""
    mine = [t for t in measured.trips if t.binding == loop]
    begins = np.array([t.begin_us for t in mine])
    ends = np.array([t.end_us for t in mine])
    turn_of = np.searchsorted(begins, measured.start, "right") - 1
    inside = (turn_of >= 0) & (measured.start < ends[np.maximum(turn_of, 0)])
    turn_of = np.where(inside, turn_of, -1)
    firsts = np.cumsum([0, *(t.count for t in mine)])
    shown = tuple(
        _shown(measured, mine[at], at, int(firsts[at]), np.flatnonzero(turn_of == at))
        for at in _chosen(ends - begins, len(measured.start))
    )
    turns = _turns(measured, turn_of)
    found = next((t for t in _every(tree) if t.binding == loop and t.kind == "loop"), None)
    nodes = tuple(_nodes(found, 0, turns)) if found is not None else ()
    trips = next((r.trips for r in measured.ran if r.binding == loop), int(firsts[-1]))
    most = max(t.count for t in mine)
    times = ends - begins
    return IterationRows(loop, measured.device, measured, trips, most, times, shown, nodes)


def _chosen(times: NDArray[np.float64], bricks: int) -> list[int]:
    """All trips where they are few; else the first ones, the slowest, the last, and some between
    them as far from each other.
    """
    each = min(MOST_BRICKS, max(1, bricks // max(1, len(times))))
    most = max(LEAST_SHOWN, min(MOST_SHOWN, ALL_BRICKS // each))
    if len(times) <= most:
        return list(range(len(times)))
    slowest = np.argsort(times)[-SLOWEST:].tolist()
    first = range(min(FIRST, most // 2))
    rest = most - len(first) - SLOWEST
    spread = np.linspace(0, len(times) - 1, rest).astype(int).tolist()
    return sorted({*first, *slowest, *spread})


def _shown(rows: WallRows, trip: Trip, at: int, first: int, bricks: Whole) -> Shown:
    longest = bricks[np.argsort(rows.start[bricks] - rows.end[bricks])][:MOST_BRICKS]
    laid = tuple(
        Laid(
            int(rows.unit[i]),
            float(rows.start[i]) - trip.begin_us,
            float(rows.end[i]) - trip.begin_us,
            int(rows.call[i]),
        )
        for i in sorted(longest.tolist())
    )
    ran = frozenset(rows.calls[n].name for n in set(rows.call[bricks].tolist()))
    us, idle = trip.end_us - trip.begin_us, tuple(_idle(rows, trip))
    return Shown(at, first, trip.count, trip.begin_us, us, laid, idle, len(bricks), ran)


def _idle(rows: WallRows, trip: Trip) -> Iterator[Idle]:
    """The longest gaps of a trip, as far as they are in it."""
    start = np.maximum(rows.gap_start, trip.begin_us) - trip.begin_us
    end = np.minimum(rows.gap_end, trip.end_us) - trip.begin_us
    inside = np.flatnonzero(end > start)
    for i in inside[np.argsort(start[inside] - end[inside])][:MOST_GAPS].tolist():
        yield Idle(int(rows.gap_unit[i]), float(start[i]), float(end[i]), CAUSES[rows.cause[i]])


def _turns(rows: WallRows, turn_of: Whole) -> dict[str, frozenset[int]]:
    """In which trips each call ran."""
    pairs = {*zip(rows.call[turn_of >= 0].tolist(), turn_of[turn_of >= 0].tolist())}
    found: dict[str, set[int]] = {}
    for call, turn in pairs:
        found.setdefault(rows.calls[call].name, set()).add(turn)
    return {name: frozenset(turns) for name, turns in found.items()}


def _every(tree: TaskTree) -> Iterator[TaskTree]:
    yield tree
    for part in tree.parts:
        yield from _every(part)


def _nodes(tree: TaskTree, depth: int, turns: dict[str, frozenset[int]]) -> Iterator[Node]:
    """A uTask and those in it; an operator that a turn makes again is one."""
    below = frozenset(t.binding for t in _every(tree) if t.kind in ("operator", "library"))
    ran = frozenset[int]().union(*(turns.get(name, frozenset()) for name in below))
    name = tree.name or tree.kind
    yield Node(depth, tree.kind, name, below, tuple(sorted(tree.origin)), len(ran))
    seen: set[str] = set()
    for part in tree.parts:
        if part.kind != "operator" or part.binding not in seen:
            seen.add(part.binding)
            yield from _nodes(part, depth + 1, turns)
