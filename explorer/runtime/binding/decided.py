"""What the control flow of a traced run decided: sides, trips and calls, from what was noted."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from explorer.ir.decisions.wall import Ran, Trip
from explorer.runtime.binding.launches.launch_code import LaunchCode
from explorer.runtime.workers.launch import Stamps

MOST_TRIPS = 20_000  # whose times are kept; all are counted: a bound on memory, chosen


@dataclass(frozen=True, slots=True)
class Decided:
    """One decision: of a loop ("enter", or "trip": so many `value` trips were made), of a branch
    ("branch": `value` is not 0 where its first side was taken), or a call ("call": `value` others
    were open); and the cycles at it.
    """

    kind: str
    binding: str
    value: int
    cycles: int


def noted(code: LaunchCode, stamps: Stamps) -> list[Decided]:
    """What a launch's units noted, in order, one unit after the other."""
    found = []
    for marks, notes in zip(code.marks, stamps.notes):
        for row, value, cycles in notes.tolist():
            mark = marks.get(row)
            if mark is not None:
                told = mark.trips if mark.kind == "trip" else value - mark.least
                found.append(Decided(mark.kind, mark.binding, told, cycles))
    return found


def ran(decided: Sequence[Decided]) -> tuple[Ran, ...]:
    """What was decided of each binding, in all."""
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
        Ran(binding, kind[binding], c["times"], c["trips"], c["then"], c["depth"])
        for binding, c in counts.items()
    )


def trips(decided: Sequence[Decided], origin: int, cycles_per_us: float) -> tuple[Trip, ...]:
    """The first trips of each loop, in order, with their times; `origin` is time 0."""
    began: dict[str, int] = {}
    found: list[Trip] = []
    for d in decided:
        if d.kind == "enter":
            began[d.binding] = d.cycles
        elif d.kind == "trip" and d.binding in began and len(found) < MOST_TRIPS:
            begin, end = ((c - origin) / cycles_per_us for c in (began[d.binding], d.cycles))
            found.append(Trip(d.binding, d.value, begin, end))
            began[d.binding] = d.cycles
    return tuple(found)
