"""Measured wall of a real run, from its time stamps."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import TypeAlias

from explorer.ir.decisions.wall import Brick, Gap, Wall
from explorer.rammer.simulator import wait_gaps
from explorer.runtime.binding.launch_code import LaunchCode, RunRow, count_control_flow, time_trips
from explorer.runtime.binding.recording import LibraryCallTrace, RunTrace
from explorer.runtime.workers.launch import Stamps

Step: TypeAlias = "tuple[LaunchCode, Stamps, str] | LibraryCallTrace"
Ends: TypeAlias = list[list[tuple[float, str]]]  # by unit, the end and the call of each brick
LATE_US = 50.0  # after the last awaited event: the core was preempted; chosen


def measured_wall(
    traced: RunTrace,
    reads: Mapping[str, frozenset[str]],
    units: int,
    cycles_per_us: float,
    policy: str = "",
    device: str = "",
    between: str = "launch",
) -> Wall:
    """Return the wall of a traced run; time 0 is its first launch or call.

    `reads`: for each operator those that it waits for. `between` is the cause of idle time outside
    of launches and calls.
    """
    launches = zip(traced.launches, traced.paths, strict=True)
    steps: list[Step] = [*((code, s, path) for (code, s), path in launches), *traced.calls]
    if not steps:
        return Wall("measured", (), (), units, 0.0, policy, device)
    steps.sort(key=lambda step: step.begin if isinstance(step, LibraryCallTrace) else step[1].begin)
    origin = traced.begin
    bricks: list[Brick] = []
    host: list[Brick] = []
    gaps: list[Gap] = []
    cuts: list[float] = []
    counts: dict[tuple[int, str], Counter[tuple[str, int]]] = {}  # of a launch's tasks
    calls = Counter[str]()
    total = 0.0
    for step in steps:
        stamps = step if isinstance(step, LibraryCallTrace) else step[1]
        begin, end = ((c - origin) / cycles_per_us for c in (stamps.begin, stamps.end))
        if begin > total:
            gaps += [Gap(unit, total, begin, between) for unit in range(units)]
        if isinstance(step, LibraryCallTrace):
            trip = calls[step.name]
            host.append(Brick(units, begin, end, step.name, 0, 1, step.origin, iteration=trip))
            gaps += [Gap(unit, begin, end, "library") for unit in range(units)]
            calls[step.name] += 1
        else:
            code, stamps_of_units, path = step
            if counts:
                cuts.append(begin)
            seen = counts.setdefault((id(code), path), Counter())
            mine = _bricks(code, stamps_of_units, path, origin, cycles_per_us, seen)
            bricks += mine
            gaps += _gaps(mine, reads, units, begin, end)
        total = end
    walls = tuple(bricks), tuple(gaps), units, total, policy, device, tuple(cuts), tuple(host)
    events = traced.decisions
    counted = () if traced.cut else count_control_flow(events)
    return Wall("measured", *walls, counted, time_trips(events, origin, cycles_per_us))


def _bricks(
    code: LaunchCode,
    stamps: Stamps,
    path: str,
    origin: int,
    cycles_per_us: float,
    seen: Counter[tuple[str, int]],
) -> list[Brick]:
    """Return the bricks in the order of their starts.

    Units that make separate calls count the same tasks together.
    """
    ran: list[tuple[float, int, float, RunRow]] = []
    for runs, unit, rows in zip(code.runs, code.units, stamps.units):
        for row, begin, end in rows.tolist():
            start_us, end_us = (begin - origin) / cycles_per_us, (end - origin) / cycles_per_us
            ran.append((start_us, unit, end_us, runs[row]))
    ran.sort(key=itemgetter(0, 1))
    out = []
    for start_us, unit, end_us, run in ran:
        name, times = path + run.operator.name, seen[run.operator.name, run.first]
        origins, program = run.operator.origin, run.program
        out.append(
            Brick(unit, start_us, end_us, name, run.first, run.last, origins, program, times)
        )
        seen[run.operator.name, run.first] += 1
    return out


def _gaps(
    bricks: list[Brick], reads: Mapping[str, frozenset[str]], units: int, begin: float, end: float
) -> list[Gap]:
    """Return every interval without a brick by its cause, as in a simulated wall."""
    ends: dict[str, Ends] = {}
    every: Ends = [[] for _ in range(units)]  # of all bricks of a unit
    for b in bricks:  # sorted by start, so a unit's by end too
        ends.setdefault(b.call, [[] for _ in range(units)])[b.unit].append((b.end_us, b.call))
        every[b.unit].append((b.end_us, b.call))
    out: list[Gap] = []
    for unit in range(units):
        mine = [b for b in bricks if b.unit == unit]
        free, last = begin, None
        for b in mine:
            if b.start_us > free:
                if _has_barrier_between(last, b):
                    awaited = [every]
                else:
                    awaited = [ends[c] for c in reads.get(b.call, ()) if c in ends]
                out += _gap_before(b, unit, free, last, awaited)
            free, last = b.end_us, b
        if end > free:
            out.append(Gap(unit, free, end, "tail"))
    return out


def _has_barrier_between(last: Brick | None, brick: Brick) -> bool:
    """Return True if a launch or trip ends between two bricks, where all units meet."""
    here = (brick.program, brick.iteration)
    return last is not None and (last.program, last.iteration) != here


def _gap_before(
    brick: Brick, unit: int, free: float, last: Brick | None, awaits: Sequence[Ends]
) -> list[Gap]:
    """Return the gap before a brick: the wait for its last operand, then the barrier.

    If the start is too late for both, the core was preempted.
    """
    awaited, ended = "", 0.0
    for ends in awaits:
        for other, ends_of_unit in enumerate(ends):
            at = bisect_right(ends_of_unit, brick.start_us, key=itemgetter(0))
            if other != unit and at and ends_of_unit[at - 1][0] > ended:
                ended, awaited = ends_of_unit[at - 1]
    if brick.start_us - max(free, ended) > LATE_US:
        middle = max(free, ended)
        waiting = wait_gaps(unit, free, ended, middle, last is not None and last.call == awaited)
        return [*waiting, Gap(unit, middle, brick.start_us, "preempted")]
    if last is None:
        return [Gap(unit, free, brick.start_us, "launch")]
    return wait_gaps(unit, free, ended, brick.start_us, last.call == awaited)
