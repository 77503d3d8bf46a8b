"""The order of all that a run does, as the memory planner needs it: who writes and uses what.

Positions are counted once for a program; a schedule says which are ordered. A segment is what lies
between two moments at which all units meet; a loop's end uses whatever the loop reads from outside,
so that nothing of it is overwritten between two trips.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from explorer.grinder import (
    BranchTask,
    CallTask,
    LibraryTask,
    LoopTask,
    RecursionTask,
    Straight,
    UProgram,
    UTask,
)
from explorer.rammer import Schedule
from explorer.relax.memory.plan import Timeline


@dataclass(frozen=True, slots=True)
class Stretch:
    """Positions `begin .. end`: those of the operators of a straight run, or one where all units
    meet (`key` "").
    """

    key: str
    begin: int
    end: int


class Uses:
    """For each root the positions that write it and that use it, and for each position its block:
    the branch arm or loop body that it is in.
    """

    def __init__(self, program: UProgram) -> None:
        self.program = program
        self.writes: dict[str, list[int]] = {}
        self.uses: dict[str, list[int]] = {}
        self.blocks: list[str] = []
        self.used: list[list[str]] = []  # at each position, the roots
        self.stretches: list[Stretch] = []
        self.stacks: dict[str, tuple[int, int]] = {}  # first and last position of a recursion
        self.block = ""

    def write(self, name: str) -> None:
        """The value is written at the last position."""
        root = self.program.values[name].root
        self.writes.setdefault(root, []).append(len(self.blocks) - 1)
        self.read((name,))

    def read(self, names: Iterable[str | None]) -> None:
        """The values are used at the last position."""
        for name in names:
            if name:
                root = self.program.values[name].root
                self.uses.setdefault(root, []).append(len(self.blocks) - 1)
                self.used[-1].append(root)

    def event(self, reads: Iterable[str | None] = (), writes: Iterable[str] = ()) -> None:
        """Something that all units do, or wait for, alone in its segment."""
        self.position()
        self.stretches.append(Stretch("", len(self.blocks) - 1, len(self.blocks)))
        self.also(reads, writes)

    def also(self, reads: Iterable[str | None], writes: Iterable[str]) -> None:
        """Something that happens at the last position too."""
        self.read(reads)
        for name in writes:
            self.write(name)

    def straight(self, part: Straight) -> None:
        """Kernels, in an order that their schedule will say."""
        begin = len(self.blocks)
        for operator in part.operators:
            self.position()
            self.read(operator.args)
            for result in operator.results:
                self.write(result)
        self.stretches.append(Stretch(key_of(part), begin, len(self.blocks)))

    def position(self) -> None:
        """Another position, in the block that is open."""
        self.blocks.append(self.block)
        self.used.append([])


def uses_of(program: UProgram) -> Uses:
    """Every use of every value, in the order of a run."""
    uses = Uses(program)
    uses.event(writes=[v for v in program.inputs if program.values[v].home == "buffer"])
    _walk(program.parts, uses)
    uses.event(reads=program.outputs)
    return uses


def timeline(uses: Uses, schedules: Mapping[str, Schedule], units: int) -> Timeline:
    """The positions as vector clocks, as the schedules' waits order them."""
    count, segment = len(uses.blocks), 0
    segments = np.zeros(count, np.int64)
    last, known = np.ones((count, units), np.int64), np.zeros((count, units), np.int64)
    for stretch in uses.stretches:
        here = slice(stretch.begin, stretch.end)
        if not stretch.key:
            segments[here] = segment
            segment += 1
            continue
        schedule = schedules[stretch.key]
        order = schedule.order
        segments[here] = segment + np.maximum(order.program, 0)
        last[here], known[here] = order.last, order.known
        segment += len(schedule.programs)
    return Timeline(segments, last, known)


def key_of(part: Straight) -> str:
    """Under which name a schedule is kept: the first operator's."""
    return part.operators[0].name


def _walk(parts: Sequence[UTask], uses: Uses) -> None:
    for part in parts:
        match part:
            case Straight():
                uses.straight(part)
            case CallTask(args=args, results=results, beside=True):
                uses.also(args, results)
            case LibraryTask(args=args, results=results) | CallTask(args=args, results=results):
                uses.event(args, results)
            case RecursionTask():
                _recursion(part, uses)
            case BranchTask():
                _branch(part, uses)
            case LoopTask():
                _loop(part, uses)


def _branch(branch: BranchTask, uses: Uses) -> None:
    uses.event((branch.cond,))
    outside = uses.block
    for arm, made, name in ((branch.then, 1, "then"), (branch.orelse, 2, "else")):
        uses.block = f"{branch.name}/{name}"
        _walk(arm, uses)
        uses.event([row[made] for row in branch.results], [r[0] for r in branch.results])
    uses.block = outside


def _loop(loop: LoopTask, uses: Uses) -> None:
    params = [c.param for c in loop.carried] + [*loop.counts, loop.going]
    params += [s.result for s in loop.stacked]
    staged = [c.staging for c in loop.carried if c.staging]
    results = [c.result for c in loop.carried] + [s.value for s in loop.stacked]
    before = list(uses.uses)
    uses.event((loop.trip, loop.cond, *(c.initial for c in loop.carried)), params)
    begin, outside = len(uses.blocks), uses.block
    uses.block = f"{loop.name}/"
    uses.event((loop.trip, loop.going, *loop.counts))
    _walk(loop.body, uses)
    uses.event(results, staged)
    uses.event((*results, *staged), params)
    from_outside = [root for root in before if uses.uses[root][-1] >= begin]
    uses.event((*from_outside, *params))
    uses.block = outside


def _recursion(task: RecursionTask, uses: Uses) -> None:
    """One call stands for all, as their frames are alike; what one reads from outside of the frame
    is kept until the outermost call ends, and so are the stacks of recursions in it.
    """
    before, outside = list(uses.uses), uses.block
    uses.event(task.args, task.params)
    begin, uses.block = len(uses.blocks), f"{task.name}/"
    _walk(task.body, uses)
    uses.event(task.outputs)
    from_outside = [root for root in before if uses.uses[root][-1] >= begin]
    uses.event(from_outside, task.results)
    uses.block = outside
    for inner in (task.name, *(n for n in uses.stacks if n.startswith(f"{task.name}/"))):
        uses.stacks[inner] = begin - 1, len(uses.blocks) - 1
