"""Measured times of a loop's control-flow schedules, for several trip counts.

Complete runs are timed in turns, without time stamps, which cost more than a launch. The rest of
the program is the same in all of them; its time is that of a run in the device program minus the
span of the loop's own bricks in a stamped run.
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
from explorer.measure.this_machine.measured_overheads import trips_of
from explorer.ops.reference.bind import bind_sizes
from explorer.runtime.control.schedule_times import Crossing, ScheduleTime, TimedSchedule
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
    """Return the crossing with measured times of every possible schedule.

    Runs that would take more than 0.2 s are left out.

    Raises:
        BadOption: The loop is inside another one, which enters it many times, or does nothing with
            these inputs.
        Cancelled: `cancelled()` returned True.
    """
    input_sets = [*fewer(program, crossing, inputs), inputs]
    options = sorted(
        crossing.open,
        key=lambda option: (option.schedule.level, option.schedule.unroll) != IN_PROGRAM,
    )
    ran = [(option, _with_schedule(program, codes, device, crossing, option)) for option in options]
    times: list[TimedSchedule] = []
    for done, each_inputs in enumerate(input_sets):
        if progress is not None:
            progress(f"{crossing.loop}, inputs {done + 1}", done, len(input_sets))
        times += _timed(ran, crossing, each_inputs, cancelled or (lambda: False))
    if not times:
        raise BadOption(
            f"{crossing.loop} makes no iteration with these inputs, or more than can be timed",
            where=crossing.loop,
            try_="inputs with which it makes some",
        )
    order = [w.label for w in crossing.open]
    times.sort(key=lambda t: (order.index(t.label), t.trips))
    return replace(crossing, timed=tuple(times))


def fewer(program: Program, crossing: Crossing, inputs: Inputs) -> Iterator[Inputs]:
    """Yield inputs that cause fewer trips, for powers of ten below those of the given inputs.

    They have fewer rows of the value that the loop scans, or a smaller number if one is an input.
    The loop then does nothing that it does not do with all.
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
    """Return the powers of ten below a number."""
    return [10**n for n in range(7) if 10**n < most]


def _rows(array: np.ndarray, kind: object, symbol: str, count: int) -> np.ndarray:
    """Return the first `count` elements along a symbol's dims."""
    if not isinstance(kind, Tensor):
        return array
    cut = tuple(slice(count) if str(d) == symbol else slice(None) for d in kind.dims)
    return np.array(array[cut])


def _with_schedule(
    program: Program,
    codes: Mapping[str, KernelCode],
    device: Device,
    crossing: Crossing,
    schedule_time: ScheduleTime,
) -> Executable:
    """Return an executable in which the loop has one schedule and all else is unchanged."""
    others = [d for d in program.decisions.control if d.binding != crossing.loop]
    mine = ControlDecision(crossing.loop, "loop", schedule_time.schedule, ())
    decisions = replace(program.decisions, control=(*others, mine))
    executable = Executable(replace(program, decisions=decisions), codes, device)
    if not any(crossing.loop == loop.binding for loop in _outermost(executable)):
        raise BadOption(
            f"{crossing.loop} stands inside of another loop, or of a call: its iterations cannot "
            "be told apart",
            where=crossing.loop,
            try_="the loop around it",
        )
    return executable


def _outermost(executable: Executable) -> list[LoopTask]:
    """Return the loops that are entered once in a run."""
    return [part for part in executable.tasks.parts if isinstance(part, LoopTask)]


def _timed(
    ran: Sequence[tuple[ScheduleTime, Executable]],
    crossing: Crossing,
    inputs: Inputs,
    cancelled: Callable[[], bool],
) -> Iterator[TimedSchedule]:
    """Time each schedule with these inputs, in turns."""
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
    for (schedule_time, _), times in zip(mine, taken):
        interval = median_interval(times)
        us, low, high = (
            max(0.0, t - around_us) for t in (interval.median, interval.low, interval.high)
        )
        yield TimedSchedule(schedule_time.label, trips, us, low, high, len(times))


def _span(wall: Wall, names: frozenset[str]) -> float:
    """Return the time from the first start to the last end of these calls' bricks."""
    bricks = [b for b in wall.everything if b.call in names]
    return max(b.end_us for b in bricks) - min(b.start_us for b in bricks)
