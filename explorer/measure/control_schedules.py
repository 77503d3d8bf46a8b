"""Measured times of control-flow schedules in complete runs.

`MeasureControlSchedules` gives each loop and branch the fastest of its best schedules; Cocktailer
(OSDI 2023) also chooses among the schedules of an operator by running them.

`timed_crossing` times the schedules of one loop for several trip counts. Complete runs are timed in
turns, without time stamps, which cost more than a launch. The rest of the program is the same in
all of them; its time is that of a run in the device program minus the span of the loop's own bricks
in a stamped run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from time import perf_counter, perf_counter_ns
from typing import TypeAlias

import numpy as np

from explorer import cache
from explorer.codegen.build import KernelCode, build
from explorer.devices.cpus import runs_on
from explorer.devices.model import Device
from explorer.errors import BadOption, Cancelled
from explorer.grinder import BranchTask, LoopTask, UTask, control_schedules_of, task_tree
from explorer.grinder.model import calls_of
from explorer.grinder.regions import is_dynamic
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.control import ControlDecision, ControlSchedule, MeasuredSchedule
from explorer.ir.decisions.decided import Decisions
from explorer.ir.decisions.wall import Wall
from explorer.ir.dims import symbols_of
from explorer.ir.program import Program
from explorer.ir.types import Tensor
from explorer.measure.compare import measurement, median_interval
from explorer.measure.task_times import trips_of
from explorer.measure.this_cpu import this_cpu
from explorer.measure.turns import take_turns
from explorer.ops.interpreter.frame import bind_sizes
from explorer.passes.random_inputs import random_inputs
from explorer.process.cancellation import report_progress
from explorer.rammer import Options as RammerOptions
from explorer.runtime.executable import Executable
from explorer.runtime.planning.schedule_times import Crossing, ScheduleTime, TimedSchedule

SECONDS = 0.25  # of each way
LEAST_GAIN_RATIO = 1.03  # of the model's first: less is not told apart by clocks; chosen
Run: TypeAlias = Callable[[], object]
Timer: TypeAlias = Callable[[Sequence[Run]], Sequence[float]]
Inputs = Mapping[str, np.ndarray]
Progress = Callable[[str, int, int], None]
IN_PROGRAM = "device", 1  # at what level, and how many trips a turn: what others are held against
FEWEST, MOST = 8, 40  # rounds; fewer give no 99 % interval
ENOUGH_S = 0.3  # of the rounds of one number of trips; chosen
LONGEST_US = 200_000.0  # of a run that is timed; chosen


def time_here(runs: Sequence[Run]) -> list[float]:
    """Measure each run in microseconds, in turns."""
    series = take_turns(runs, SECONDS * len(runs), perf_counter_ns)
    return [measurement(each).median_us for each in series]


@dataclass(frozen=True, slots=True)
class MeasureControlSchedules:
    """Pass that gives each loop and branch the fastest of its `count` best schedules.

    It replaces the model's first only if the gain is clear. Inputs are random. A program with a
    recursion, or with a loop that data or an input ends, keeps the model's choice: the length of
    such a run is unknown, even if one with other inputs was seen. Raises BadOption for a device
    that cannot run here.
    """

    device: Device
    count: int
    timer: Timer = time_here

    def __post_init__(self) -> None:
        """Raise BadOption if the device cannot run here."""
        if not runs_on(self.device, this_cpu()):
            name = self.device.name
            raise BadOption(
                f"grinder.measure times runs on this machine, which cannot run {name}",
                where="grinder.measure",
                try_="grinder.measure=0",
            )

    def __call__(self, program: Program) -> Program:
        """Return the program with measured schedules; the decisions list the times.

        Inner loops are measured first.
        """
        if not program.decisions.control or is_dynamic(program):
            return program
        codes = build(program, self.device)
        first = Executable(_unseen(program), codes, self.device)
        if first.planner.uncounted(first.plan(program.env.hints)):
            return program
        inputs = random_inputs(program, program.env.hints)
        inside = frozenset(_inside(first.tasks.parts, False))

        def run_of(decisions: Decisions) -> Run:
            """Return a function that runs the program under these decisions."""
            executable = Executable(replace(program, decisions=decisions), codes, self.device)
            return executable.prepared(inputs, executable.run(inputs))

        for number, decision in enumerate(program.decisions.control):
            report_progress(
                f"measure control-flow schedules: {decision.binding}",
                number,
                len(program.decisions.control),
            )
            fitting = (
                c
                for c in decision.candidates
                if not c.refused and _fits(c.value, decision.binding in inside)
            )
            single = dict[tuple[str, int], Candidate[ControlSchedule]]()
            for c in fitting:  # on which units one runs the plan says, which takes the first
                single.setdefault((c.value.level, c.value.unroll), c)
            tried = list(single.values())[: self.count]
            timed = decision.chosen.level != "both" and decision.kind != "group"
            if timed and len(tried) > 1:
                variants = [_with(program, replace(decision, chosen=c.value)) for c in tried]
                times = self.timer([run_of(p.decisions) for p in variants])
                program = _with(program, _measured(decision, tried, times))
        tree = task_tree(program, control_schedules_of(program.decisions))
        return replace(program, decisions=replace(program.decisions, tasks=tree))


def _unseen(program: Program) -> Program:
    """Return the program without profiles of earlier runs."""
    rammer = program.decisions.rammer
    if not isinstance(rammer, RammerOptions):
        return program
    blind = replace(program.decisions, rammer=replace(rammer, profile=None))
    return replace(program, decisions=blind)


def _fits(schedule: ControlSchedule, inside: bool) -> bool:
    """Return True if a schedule can be tried alone; loops inside the device program stay there."""
    return schedule.level == "device" or (schedule.level == "host" and not inside)


def _measured(
    decision: ControlDecision, tried: Sequence[Candidate[ControlSchedule]], times: Sequence[float]
) -> ControlDecision:
    """Return a decision with measured candidates first."""
    rows = [
        MeasuredSchedule(rank, c.value, c.cost_us, us)
        for rank, (c, us) in enumerate(zip(tried, times, strict=True), 1)
    ]
    ranked = sorted(rows, key=lambda row: row.measured_us)
    if rows[0].measured_us < LEAST_GAIN_RATIO * ranked[0].measured_us:
        ranked = [rows[0], *(row for row in ranked if row is not rows[0])]
    labels = {c.value: c.label for c in tried}
    times_text = ", ".join(f"{row.measured_us:,.1f} us {labels[row.schedule]}" for row in ranked)
    first = [c for row in ranked for c in tried if c.value == row.schedule]
    return replace(
        decision,
        chosen=ranked[0].schedule,
        candidates=(*first, *(c for c in decision.candidates if c not in first)),
        measured=tuple(ranked),
        reason=f"measured, a run: {times_text}",
    )


def _with(program: Program, decision: ControlDecision) -> Program:
    """Return the program with one decision replaced."""
    control = tuple(
        decision if d.binding == decision.binding else d for d in program.decisions.control
    )
    return replace(program, decisions=replace(program.decisions, control=control))


def _inside(parts: Sequence[UTask], in_program: bool) -> Iterator[str]:
    """Yield loops and branches inside others that are part of the device program."""
    for part in parts:
        if isinstance(part, LoopTask | BranchTask):
            if in_program:
                yield part.binding
            body = part.body if isinstance(part, LoopTask) else (*part.then, *part.orelse)
            yield from _inside(body, in_program or part.level == "device")


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
