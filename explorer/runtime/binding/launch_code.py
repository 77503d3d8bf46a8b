"""Steps of a run: launches with rows for every unit, and decisions of Python between them.

They are assembled from the uTasks and schedules of a binding (`LaunchInputs`). The units of a
traced run note control-flow events, which `decode_notes` reads.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from explorer.cached_property import cached_property
from explorer.codegen.build import Argument
from explorer.grinder import BranchTask, LibraryTask, LoopTask, OperatorTask, UProgram, UTask
from explorer.grinder.independent import first_member_name
from explorer.ir.decisions.wall import ControlFlowCounts, Trip
from explorer.ir.dims import Dim, Sizes, evaluate_dim
from explorer.memory.planner import StackFrames
from explorer.rammer import Schedule
from explorer.runtime.workers.launch import Pointer, Row, Stamps, rows_of

MOST_TRIPS = 20_000  # with times; all are counted: a bound on memory, chosen


@dataclass(frozen=True)
class LaunchInputs:
    """The uTasks and their schedules under one binding.

    `frames` are those of each recursion, with a stack for each unit that makes calls of its own;
    the first unit runs the recursions that are `alone`. `assignments` are the units of the members
    of concurrent groups, by the name of the first member.
    """

    program: UProgram
    schedules: Mapping[str, Schedule]
    units: int
    sizes: Sizes
    codes: Mapping[str, Code]
    frames: Mapping[str, StackFrames]
    alone: Collection[str]
    assignments: Mapping[str, Sequence[int]]

    @cached_property
    def moving(self) -> frozenset[str]:
        """Return the loops and recursions that addresses depend on."""
        loops = {loop for value in self.program.values.values() for loop, _ in value.moves}
        return frozenset(loops | {*self.frames})

    def frame(self, name: str) -> str:
        """Return the recursion in whose frames a value lies, or ""."""
        return self.program.root(name).frame

    def number(self, dim: Dim) -> int:
        """Return the value of a dim."""
        return evaluate_dim(dim, self.sizes)

    def table(self, rows: Sequence[Row]) -> np.ndarray:
        """Return a unit's rows as a launch reads them."""
        return rows_of(rows)

    def bytes_of(self, name: str) -> int:
        """Return the bytes of a value's elements."""
        return self.number(self.program.values[name].type.bytes)

    def assigned_units(self, group: Sequence[UTask]) -> Sequence[int]:
        """Return the units of concurrent loops and branches; none for other groups."""
        return self.assignments.get(first_member_name(group), ())

    def is_alone(self, recursion: str) -> bool:
        """Return True if the first unit runs a recursion while the others wait for its end."""
        return recursion in self.alone

    def stacks(self, recursion: str) -> int:
        """Return how many units make calls of their own; 1 if none does."""
        return self.frames[recursion].stacks

    def depth(self, recursion: str) -> int:
        """Return how many of its calls may be open."""
        return self.frames[recursion].depth


class Code(Protocol):
    """The code of a kernel call for any device."""

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The arguments in the order in which the code takes them."""


@dataclass(frozen=True, slots=True)
class LaunchCode:
    """Rows for each unit that has tasks; the other units need not wake up.

    `units` are their numbers; each has `registers` registers, and a stack of `stack` words.
    `operators`, `slots` and `pointers` are the contents of the tables that the rows index; fault n
    + 1 of a row is that of `recursions[n]`; `marks` are the decisions of the rows of the first
    units: all of the first unit's, and those that each other unit makes for itself.
    """

    units: tuple[int, ...]
    rows: tuple[np.ndarray, ...]
    operators: tuple[OperatorTask, ...]
    slots: tuple[str, ...]  # names of values
    pointers: tuple[Pointer, ...]
    runs: tuple[Mapping[int, RunRow], ...]  # for each unit, by row
    registers: int
    stack: int
    recursions: tuple[tuple[str, int], ...]  # functions, and the largest depth of their calls
    marks: tuple[Mapping[int, Mark], ...]


@dataclass(frozen=True, slots=True)
class RunRow:
    """The meaning of a unit's Run row: tasks of an operator, in the n-th launch of the wall."""

    operator: OperatorTask
    first: int
    last: int
    program: int


@dataclass(frozen=True, slots=True)
class Mark:
    """The decision that a row of control flow makes, for the loop, branch or recursion `binding`.

    `kind` is "enter", "trip" (of `trips` trips at once), "branch", or "call", whose register is
    `least` if no other call is open. `own`: one unit decides for itself.
    """

    kind: str
    binding: str
    trips: int = 1
    least: int = 0
    own: bool = False


@dataclass(frozen=True, slots=True)
class HostLoop:
    """A loop that Python decides."""

    task: LoopTask
    body: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class HostBranch:
    """A branch that Python decides."""

    task: BranchTask
    then: tuple[Step, ...]
    orelse: tuple[Step, ...]


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


Step: TypeAlias = LaunchCode | LibraryTask | HostLoop | HostBranch
