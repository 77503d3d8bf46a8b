"""Control-flow events of a traced run: branch decisions, loop trips and calls, from unit notes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from explorer.ir.decisions.wall import ControlFlowCounts, Trip
from explorer.runtime.binding.launches.launch_code import LaunchCode
from explorer.runtime.workers.launch import Stamps

MOST_TRIPS = 20_000  # with times; all are counted: a bound on memory, chosen


@dataclass(frozen=True, slots=True)
class ControlEvent:
    """One control-flow event, and the cycles at it.

    `kind` and `value`: of a loop "enter", or "trip" (`value` trips were made); of a branch "branch"
    (`value` is not 0 if its first arm was taken); of a call "call" (`value` others were open).
    """

    kind: str
    binding: str
    value: int
    cycles: int


def decode_notes(code: LaunchCode, stamps: Stamps) -> list[ControlEvent]:
    """Return the events that a launch's units noted, in order, one unit after the other."""
    events = []
    for marks, notes in zip(code.marks, stamps.notes):
        for row, value, cycles in notes.tolist():
            mark = marks.get(row)
            if mark is not None:
                count = mark.trips if mark.kind == "trip" else value - mark.least
                events.append(ControlEvent(mark.kind, mark.binding, count, cycles))
    return events


def count_control_flow(decided: Sequence[ControlEvent]) -> tuple[ControlFlowCounts, ...]:
    """Return the totals of each binding's events."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    kinds = {"enter": "loop", "trip": "loop", "branch": "branch", "call": "call"}
    kind: dict[str, str] = {}
    for d in decided:
        mine = counts[d.binding]
        kind.setdefault(d.binding, kinds[d.kind])
        match d.kind:
            case "trip":
                mine["trips"] += d.value
            case "branch":
                mine["times"] += 1
                mine["then"] += d.value != 0
            case "call":
                mine["trips"] += 1
                mine["times"] += d.value == 0
                mine["depth"] = max(mine["depth"], 1 + d.value)
            case _:
                mine["times"] += 1
    return tuple(
        ControlFlowCounts(binding, kind[binding], c["times"], c["trips"], c["then"], c["depth"])
        for binding, c in counts.items()
    )


def time_trips(
    decided: Sequence[ControlEvent], origin: int, cycles_per_us: float
) -> tuple[Trip, ...]:
    """Return the first trips of each loop, in order, with their times; `origin` is time 0."""
    began: dict[str, int] = {}
    timed: list[Trip] = []
    for d in decided:
        if d.kind == "enter":
            began[d.binding] = d.cycles
        elif d.kind == "trip" and d.binding in began and len(timed) < MOST_TRIPS:
            begin, end = ((c - origin) / cycles_per_us for c in (began[d.binding], d.cycles))
            timed.append(Trip(d.binding, d.value, begin, end))
            began[d.binding] = d.cycles
    return tuple(timed)
