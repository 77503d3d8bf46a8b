"""The trips of a loop in a measured run: their times, their bricks, and the operators that ran."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from explorer.ir.decisions.control import TaskTree
from explorer.ir.decisions.wall import Trip
from widgets.model.brick_wall import CAUSES, WallRows

MOST_SHOWN, LEAST_SHOWN, FIRST, SLOWEST = 48, 12, 8, 3  # selectable trips
MOST_BRICKS, ALL_BRICKS = 64, 2400  # drawn per trip, and in total
MOST_GAPS = 16  # per trip

Int64Array = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Brick:
    """A brick: its lane, microseconds from the start of the trip, and the position of its call."""

    lane: int
    start_us: float
    end_us: float
    call: int


@dataclass(frozen=True, slots=True)
class Gap:
    """A gap: its lane, microseconds from the start of the trip, and its cause."""

    lane: int
    start_us: float
    end_us: float
    cause: str


@dataclass(frozen=True, slots=True)
class ShownIteration:
    """A trip that the scrubber can show, or an unrolled iteration of several trips.

    It has the longest of its bricks and gaps; `bricks` counts all bricks, and `ran` holds
    the bindings of the operators that ran.
    """

    at: int
    first: int
    count: int
    begin_us: float
    us: float
    longest_bricks: tuple[Brick, ...]
    longest_gaps: tuple[Gap, ...]
    bricks: int
    ran: frozenset[str]

    @property
    def name(self) -> str:
        """The label, with trips counted from 1."""
        if self.count == 1:
            return f"iteration {self.first + 1:,}"
        return f"iterations {self.first + 1:,} to {self.first + self.count:,}"


@dataclass(frozen=True, slots=True)
class TaskNode:
    """A uTask of the loop.

    `below` are the operators in its subtree; `turns` counts the iterations in which one of them
    ran.
    """

    depth: int
    kind: str
    name: str
    below: frozenset[str]
    ops: tuple[str, ...]
    turns: int


@dataclass(frozen=True, eq=False)
class IterationRows:
    """The trips of a loop.

    `trips` counts all of them; those with times are in order. `times_us` holds the time of each
    iteration, which is `turn` unrolled trips.
    """

    loop: str
    device: str
    walls: WallRows
    trips: int
    turn: int
    times_us: NDArray[np.float64]
    shown: tuple[ShownIteration, ...]
    nodes: tuple[TaskNode, ...]

    @property
    def unit(self) -> str:
        """The span that one time covers: an iteration, or several unrolled ones."""
        return "iteration" if self.turn == 1 else f"{self.turn} unrolled iterations"


def loops(measured: WallRows | None) -> tuple[str, ...]:
    """Return the bindings of the loops that made a trip, in the order of first entry."""
    trips = measured.trips if measured is not None else ()
    return tuple(dict.fromkeys(t.binding for t in trips))


def data(measured: WallRows, tree: TaskTree, loop: str) -> IterationRows:
    """Return the trips of the loop with binding `loop`."""
    mine = [t for t in measured.trips if t.binding == loop]
    begins = np.array([t.begin_us for t in mine])
    ends = np.array([t.end_us for t in mine])
    turn_of = np.searchsorted(begins, measured.start, "right") - 1
    inside = (turn_of >= 0) & (measured.start < ends[np.maximum(turn_of, 0)])
    turn_of = np.where(inside, turn_of, -1)
    firsts = np.cumsum([0, *(t.count for t in mine)])
    shown = tuple(
        _shown_iteration(measured, mine[at], at, int(firsts[at]), np.flatnonzero(turn_of == at))
        for at in _select_iterations(ends - begins, len(measured.start))
    )
    turns = _turns(measured, turn_of)
    task = next((t for t in _every_task(tree) if t.binding == loop and t.kind == "loop"), None)
    nodes = tuple(_nodes(task, 0, turns)) if task is not None else ()
    trips = next((r.trips for r in measured.ran if r.binding == loop), int(firsts[-1]))
    most = max(t.count for t in mine)
    times = ends - begins
    return IterationRows(loop, measured.device, measured, trips, most, times, shown, nodes)


def _select_iterations(times: NDArray[np.float64], bricks: int) -> list[int]:
    """Select the iterations to show.

    All of them if they are few; else the first ones, the slowest, the last, and evenly spaced ones.
    """
    each = min(MOST_BRICKS, max(1, bricks // max(1, len(times))))
    most = max(LEAST_SHOWN, min(MOST_SHOWN, ALL_BRICKS // each))
    if len(times) <= most:
        return list(range(len(times)))
    slowest = np.argsort(times)[-SLOWEST:].tolist()
    first = range(min(FIRST, most // 2))
    remaining = most - len(first) - SLOWEST
    spread = np.linspace(0, len(times) - 1, remaining).astype(int).tolist()
    return sorted({*first, *slowest, *spread})


def _shown_iteration(
    rows: WallRows, trip: Trip, at: int, first: int, bricks: Int64Array
) -> ShownIteration:
    longest = bricks[np.argsort(rows.start[bricks] - rows.end[bricks])][:MOST_BRICKS]
    laid = tuple(
        Brick(
            int(rows.unit[i]),
            float(rows.start[i]) - trip.begin_us,
            float(rows.end[i]) - trip.begin_us,
            int(rows.call[i]),
        )
        for i in sorted(longest.tolist())
    )
    ran = frozenset(rows.calls[n].name for n in set(rows.call[bricks].tolist()))
    us, idle = trip.end_us - trip.begin_us, tuple(_find_gaps(rows, trip))
    return ShownIteration(at, first, trip.count, trip.begin_us, us, laid, idle, len(bricks), ran)


def _find_gaps(rows: WallRows, trip: Trip) -> Iterator[Gap]:
    """Yield the longest gaps of a trip, clipped to it."""
    start = np.maximum(rows.gap_start, trip.begin_us) - trip.begin_us
    end = np.minimum(rows.gap_end, trip.end_us) - trip.begin_us
    inside = np.flatnonzero(end > start)
    for i in inside[np.argsort(start[inside] - end[inside])][:MOST_GAPS].tolist():
        yield Gap(int(rows.gap_unit[i]), float(start[i]), float(end[i]), CAUSES[rows.cause[i]])


def _turns(rows: WallRows, turn_of: Int64Array) -> dict[str, frozenset[int]]:
    """Return the iterations in which each call ran, by binding."""
    pairs = {*zip(rows.call[turn_of >= 0].tolist(), turn_of[turn_of >= 0].tolist())}
    turns_by_call: dict[str, set[int]] = {}
    for call, turn in pairs:
        turns_by_call.setdefault(rows.calls[call].name, set()).add(turn)
    return {name: frozenset(turns) for name, turns in turns_by_call.items()}


def _every_task(tree: TaskTree) -> Iterator[TaskTree]:
    yield tree
    for part in tree.parts:
        yield from _every_task(part)


def _nodes(tree: TaskTree, depth: int, turns: dict[str, frozenset[int]]) -> Iterator[TaskNode]:
    """Yield a uTask and its descendants; an operator that unrolling repeats is yielded once."""
    below = frozenset(t.binding for t in _every_task(tree) if t.kind in ("operator", "library"))
    ran = frozenset[int]().union(*(turns.get(name, frozenset()) for name in below))
    name = tree.name or tree.kind
    yield TaskNode(depth, tree.kind, name, below, tuple(sorted(tree.origin)), len(ran))
    seen: set[str] = set()
    for part in tree.parts:
        if part.kind != "operator" or part.binding not in seen:
            seen.add(part.binding)
            yield from _nodes(part, depth + 1, turns)
