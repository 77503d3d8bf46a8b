"""The order of all that a run does, as the memory planner needs it: who writes and uses what.

A segment is what lies between two moments at which all units meet; a loop's end uses whatever the
loop reads from outside, so that nothing of it is overwritten between two trips.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from explorer.grinder import BranchTask, LibraryTask, LoopTask, Straight, UProgram, UTask
from explorer.rammer import Schedule
from explorer.relax.memory_plan import Timeline


class Uses:
    """Positions in time; for each root the ones that write it and the ones that use it."""

    def __init__(self, program: UProgram, units: int) -> None:
        self.program, self.units = program, units
        self.writes: dict[str, list[int]] = {}
        self.uses: dict[str, list[int]] = {}
        self.segments: list[int] = []
        self.lasts: list[np.ndarray] = []
        self.knowns: list[np.ndarray] = []
        self.segment = 0

    @property
    def timeline(self) -> Timeline:
        """The positions as vector clocks."""
        shape = (len(self.segments), self.units)
        return Timeline(
            np.array(self.segments, np.int64),
            np.array(self.lasts, np.int64).reshape(shape),
            np.array(self.knowns, np.int64).reshape(shape),
        )

    def write(self, name: str) -> None:
        """The value is written at the last position."""
        root = self.program.values[name].root
        self.writes.setdefault(root, []).append(len(self.segments) - 1)
        self.read((name,))

    def read(self, names: Iterable[str | None]) -> None:
        """The values are used at the last position."""
        for name in names:
            if name:
                root = self.program.values[name].root
                self.uses.setdefault(root, []).append(len(self.segments) - 1)

    def event(self, reads: Iterable[str | None] = (), writes: Iterable[str] = ()) -> None:
        """Something that all units do, or wait for, alone in its segment."""
        self._position(self.segment, np.ones(self.units), np.zeros(self.units))
        self.segment += 1
        self.read(reads)
        for name in writes:
            self.write(name)

    def straight(self, part: Straight, schedule: Schedule) -> None:
        """Kernels in the order that the schedule's waits guarantee."""
        order = schedule.order
        for n, operator in enumerate(part.operators):
            at = self.segment + max(0, int(order.program[n]))
            self._position(at, order.last[n], order.known[n])
            self.read(operator.args)
            self.write(operator.result)
        self.segment += len(schedule.programs)

    def _position(self, segment: int, last: np.ndarray, known: np.ndarray) -> None:
        self.segments.append(segment)
        self.lasts.append(last)
        self.knowns.append(known)


def uses_of(program: UProgram, schedules: Mapping[str, Schedule], units: int) -> Uses:
    """Every use of every value, in the order of a run."""
    uses = Uses(program, units)
    uses.event(writes=[v for v in program.inputs if program.values[v].home == "buffer"])
    _walk(program.parts, uses, schedules)
    uses.event(reads=program.outputs)
    return uses


def key_of(part: Straight) -> str:
    """Under which name a schedule is kept: the first operator's."""
    return part.operators[0].name


def _walk(parts: Sequence[UTask], uses: Uses, schedules: Mapping[str, Schedule]) -> None:
    for part in parts:
        match part:
            case Straight():
                uses.straight(part, schedules[key_of(part)])
            case LibraryTask(args=args, results=results):
                uses.event(args, results)
            case BranchTask():
                uses.event((part.cond,))
                for arm, made in ((part.then, 1), (part.orelse, 2)):
                    _walk(arm, uses, schedules)
                    uses.event([row[made] for row in part.results], [r[0] for r in part.results])
            case LoopTask():
                _loop(part, uses, schedules)


def _loop(loop: LoopTask, uses: Uses, schedules: Mapping[str, Schedule]) -> None:
    params = [c.param for c in loop.carried] + [loop.iteration, loop.going]
    staged = [c.staging for c in loop.carried if c.staging]
    results = [c.result for c in loop.carried]
    before = set(uses.uses)
    uses.event((loop.trip, loop.cond, *(c.initial for c in loop.carried)), params)
    begin = len(uses.segments)
    uses.event((loop.trip, loop.going, loop.iteration))
    _walk(loop.body, uses, schedules)
    uses.event(results, staged)
    uses.event((*results, *staged), params)
    outside = [root for root in before if uses.uses[root][-1] >= begin]
    uses.event((*outside, *params))
