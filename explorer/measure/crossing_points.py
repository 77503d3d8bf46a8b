"""The ways of a loop timed on this machine, with fewer and with as many trips as its inputs make.

Whole runs are timed in turns, without stamps, which cost a launch more than it takes. What stands
around the loop is the same in all of them: a run in the program says how long that takes, by the
span of the loop's own bricks in one with stamps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median
from time import perf_counter, perf_counter_ns

import numpy as np

from explorer import cache
from explorer.codegen.build import KernelCode
from explorer.devices.model import Device
from explorer.errors import BadOption, Cancelled
from explorer.grinder import LoopTask
from explorer.ir.decisions.control import ControlDecision
from explorer.ir.decisions.wall import Wall
from explorer.ir.program import Program
from explorer.ir.shapes.dims import symbols_of
from explorer.ir.types import Tensor
from explorer.measure.interval import median_interval
from explorer.measure.this_machine.overheads_seen import trips_of
from explorer.ops.reference.bind import bind_sizes
from explorer.runtime.control.way_times import Crossing, Timed, WayTime
from explorer.runtime.executable import Executable
from explorer.runtime.planning.allocations import calls_of

Inputs = Mapping[str, np.ndarray]
Progress = Callable[[str, int, int], None]
IN_PROGRAM = "device", 1  # at what level, and how many trips a turn: what others are held against
FEWEST, MOST = 8, 40  # rounds; fewer give no 99 % interval
ENOUGH_S = 0.3  # of the rounds of one number of trips; chosen
LONGEST_US = 200_000.0  # of a run that is timed; chosen


def timed_crossing(
    program: Program,
    codes: Mapping[str, KernelCode],
    device: Device,
    crossing: Crossing,
    inputs: Inputs,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Crossing:
    """The crossing with the times of every way that it can go; runs that should take more than 0.2
    s are left out.

    Raises BadOption for a loop inside of another one, which is entered many times, and for one
    that does nothing with these inputs; Cancelled where `cancelled()` says so.
    """
    given = [*fewer(program, crossing, inputs), inputs]
    ways = sorted(crossing.open, key=lambda way: (way.way.level, way.way.turn) != IN_PROGRAM)
    ran = [(way, _going(program, codes, device, crossing, way)) for way in ways]
    found: list[Timed] = []
    for done, one in enumerate(given):
        if progress is not None:
            progress(f"{crossing.loop}, inputs {done + 1}", done, len(given))
        found += _timed(ran, crossing, one, cancelled or (lambda: False))
    if not found:
        raise BadOption(
            f"{crossing.loop} makes no iteration with these inputs, or more than can be timed",
            where=crossing.loop,
            try_="inputs with which it makes some",
        )
    order = [w.label for w in crossing.open]
    found.sort(key=lambda t: (order.index(t.label), t.trips))
    return replace(crossing, timed=tuple(found))


def fewer(program: Program, crossing: Crossing, inputs: Inputs) -> Iterator[Inputs]:
    """The same inputs for powers of ten of trips below theirs: so many rows of what the loop walks
    through, or a smaller number where one is an input. It does nothing then that it does not do
    with all.
    """
    kinds = {p.name: p.type for p in program.main.params}
    if crossing.symbol:
        dims = [d for t in kinds.values() if isinstance(t, Tensor) for d in t.dims]
        if all(str(d) == crossing.symbol or crossing.symbol not in symbols_of(d) for d in dims):
            low = program.env.of(crossing.symbol).low
            for count in _powers(bind_sizes(program, inputs)[crossing.symbol]):
                if count >= low:
                    named = inputs.items()
                    yield {n: _rows(a, kinds[n], crossing.symbol, count) for n, a in named}
    elif crossing.trips is None:
        for name, array in inputs.items():
            if np.ndim(array) == 0 and np.asarray(array).dtype.kind in "iu":
                for count in _powers(int(array)):
                    yield {**inputs, name: np.asarray(count, np.asarray(array).dtype)}


def _powers(most: int) -> list[int]:
    return [10**n for n in range(7) if 10**n < most]


def _rows(array: np.ndarray, kind: object, symbol: str, count: int) -> np.ndarray:
    if not isinstance(kind, Tensor):
        return array
    cut = tuple(slice(count) if str(d) == symbol else slice(None) for d in kind.dims)
    return np.array(array[cut])


def _going(
    program: Program,
    codes: Mapping[str, KernelCode],
    device: Device,
    crossing: Crossing,
    way: WayTime,
) -> Executable:
    """The program with the loop going one way, and all else as it was decided."""
    others = [d for d in program.decisions.control if d.binding != crossing.loop]
    mine = ControlDecision(crossing.loop, "loop", way.way, ())
    decisions = replace(program.decisions, control=(*others, mine))
    found = Executable(replace(program, decisions=decisions), codes, device)
    if not any(crossing.loop == loop.binding for loop in _outermost(found)):
        raise BadOption(
            f"{crossing.loop} stands inside of another loop, or of a call: its iterations cannot "
            "be told apart",
            where=crossing.loop,
            try_="the loop around it",
        )
    return found


def _outermost(executable: Executable) -> list[LoopTask]:
    """Loops that are entered once in a run."""
    return [part for part in executable.tasks.parts if isinstance(part, LoopTask)]


def _timed(
    ran: Sequence[tuple[WayTime, Executable]],
    crossing: Crossing,
    inputs: Inputs,
    cancelled: Callable[[], bool],
) -> Iterator[Timed]:
    """Each way with these inputs, in turns."""
    cache.finish()
    first = ran[0][1]
    walls = sorted((first.measured_wall(inputs) for _ in range(FEWEST)), key=lambda w: w.total_us)
    loop = next(p for p in _outermost(first) if p.binding == crossing.loop)
    trips = dict(trips_of((loop,), walls[0])).get(loop.name, 0)
    names = frozenset(call.name for call in calls_of((loop,)))
    mine = [(w, e) for w, e in ran if trips and w.at(trips).us <= LONGEST_US]
    if not mine:
        return
    span_us = median(_span(wall, names) for wall in walls)
    works = [executable.prepared(inputs, executable.run(inputs)) for _, executable in mine]
    taken: list[list[float]] = [[] for _ in works]
    end = perf_counter() + ENOUGH_S
    while len(taken[0]) < FEWEST or (len(taken[0]) < MOST and perf_counter() < end):
        if cancelled():
            raise Cancelled("the timing was cancelled; nothing of it was kept")
        for work, times in zip(works, taken):
            work()  # the last one's threads stop, caches fill
            begin = perf_counter_ns()
            work()
            times.append((perf_counter_ns() - begin) / 1e3)
    around_us = max(0.0, median(taken[0]) - span_us)
    for (way, _), times in zip(mine, taken):
        found = median_interval(times)
        us, low, high = (max(0.0, t - around_us) for t in (found.median, found.low, found.high))
        yield Timed(way.label, trips, us, low, high, len(times))


def _span(wall: Wall, names: frozenset[str]) -> float:
    """From the beginning of the first of these calls' bricks to the end of the last."""
    bricks = [b for b in wall.everything if b.call in names]
    return max(b.end_us for b in bricks) - min(b.start_us for b in bricks)
