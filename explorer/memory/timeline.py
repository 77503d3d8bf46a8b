"""Order of all accesses of a run for the memory planner: the writers and users of each value.

Positions are counted once for a program; a schedule tells which are ordered. A segment lies between
two barriers of all units. A loop's end uses the values that the loop reads from outside, so that
none of them is overwritten between two trips.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

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
from explorer.grinder.independent import concurrent_groups, first_member_name
from explorer.grinder.model import key_of
from explorer.memory.plan import Timeline
from explorer.rammer import Schedule


@dataclass(frozen=True, slots=True)
class Stretch:
    """Positions `begin .. end`: operators of a straight run, or a barrier of all units.

    The `key` of a barrier is "".
    """

    key: str
    begin: int
    end: int


class Uses:
    """For each root the positions that write and use it, and for each position its block.

    A block is a branch arm or a loop body.
    """

    def __init__(self, program: UProgram) -> None:
        """Create a record without positions."""
        self.program = program
        self.writes: dict[str, list[int]] = {}
        self.uses: dict[str, list[int]] = {}
        self.blocks: list[str] = []
        self.used: list[list[str]] = []  # at each position, the roots
        self.stretches: list[Stretch] = []
        self.stacks: dict[str, tuple[int, int]] = {}  # first and last position of a recursion
        self.spans: dict[str, range] = {}  # the positions of a loop or branch
        self.groups: dict[str, list[str]] = {}  # concurrent members, by the first
        self.block = ""

    def write(self, name: str) -> None:
        """Record that the value is written at the last position."""
        root = self.program.values[name].root
        self.writes.setdefault(root, []).append(len(self.blocks) - 1)
        self.read((name,))

    def read(self, names: Iterable[str | None]) -> None:
        """Record that the values are used at the last position."""
        for name in names:
            if name:
                root = self.program.values[name].root
                self.uses.setdefault(root, []).append(len(self.blocks) - 1)
                self.used[-1].append(root)

    def event(self, reads: Iterable[str | None] = (), writes: Iterable[str] = ()) -> None:
        """Record an action of all units, alone in its segment."""
        self.position()
        self.stretches.append(Stretch("", len(self.blocks) - 1, len(self.blocks)))
        self.also(reads, writes)

    def also(self, reads: Iterable[str | None], writes: Iterable[str]) -> None:
        """Record more accesses at the last position."""
        self.read(reads)
        for name in writes:
            self.write(name)

    def straight(self, part: Straight) -> None:
        """Record kernels, whose order depends on their schedule."""
        begin = len(self.blocks)
        for operator in part.operators:
            self.position()
            self.read(operator.args)
            for result in operator.results:
                self.write(result)
        self.stretches.append(Stretch(key_of(part), begin, len(self.blocks)))

    def position(self) -> None:
        """Append a position in the open block."""
        self.blocks.append(self.block)
        self.used.append([])


def uses_of(program: UProgram) -> Uses:
    """Return every use of every value, in the order of a run."""
    uses = Uses(program)
    uses.event(writes=[v for v in program.inputs if program.values[v].home == "buffer"])
    _walk(program.parts, uses)
    uses.event(reads=program.outputs)
    return uses


def timeline(
    uses: Uses,
    schedules: Mapping[str, Schedule],
    units: int,
    assignments: Mapping[str, Sequence[int]],
) -> Timeline:
    """Return the positions as vector clocks, ordered by the schedules' waits.

    `assignments` are the units of the members of groups that run on separate units.
    """
    count, segment = len(uses.blocks), 0
    segments = np.zeros(count, np.int64)
    last, begun = np.ones((count, units), np.int64), np.zeros((count, units), np.int64)
    for stretch in uses.stretches:
        here = slice(stretch.begin, stretch.end)
        if not stretch.key:
            segments[here] = segment
            segment += 1
            continue
        schedule = schedules[stretch.key]
        order = schedule.order
        segments[here] = segment + np.maximum(order.program, 0)
        last[here], begun[here] = order.last, order.ended
        segment += len(schedule.placement.programs)
    clocks = Timeline(segments, last, begun)
    for name, by in assignments.items():
        _make_concurrent([uses.spans[member] for member in uses.groups[name]], by, clocks)
    return clocks


def _make_concurrent(spans: Sequence[range], by: Sequence[int], timeline: Timeline) -> None:
    """Make concurrent members one segment, in which a unit knows only its own steps."""
    segments, last, starts = timeline.segment, timeline.last, timeline.completed
    for unit in set(by):
        mine = [p for span, own in zip(spans, by, strict=True) if own == unit for p in span]
        mine.sort(key=lambda p: int(segments[p]))
        base = 0
        for _, some in groupby(mine, key=lambda p: int(segments[p])):
            here = list(some)
            ended, own_begun = base + last[here, 0], base + starts[here, 0]
            last[here], starts[here] = 0, 0
            last[here, unit], starts[here, unit] = ended, own_begun
            base = int(ended.max())
    first = segments[spans[0].start]
    for span in spans:
        segments[span.start : span.stop] = first


def _walk(parts: Sequence[UTask], uses: Uses) -> None:
    for group in concurrent_groups(parts):
        for part in group:
            begin = len(uses.blocks)
            _part(part, uses)
            if isinstance(part, LoopTask | BranchTask):
                uses.spans[part.name] = range(begin, len(uses.blocks))
        uses.groups[first_member_name(group)] = [
            p.name for p in group if not isinstance(p, Straight)
        ]


def _part(part: UTask, uses: Uses) -> None:
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
    for arm, arm_number, name in ((branch.then, 1, "then"), (branch.orelse, 2, "else")):
        uses.block = f"{branch.name}/{name}"
        _walk(arm, uses)
        made_here = [row[arm_number] for row in branch.results]
        uses.event([branch.cond, *made_here], [row[0] for row in branch.results])
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
    """Record one call for all, as their frames are alike.

    Values that it reads from outside of the frame stay alive until the outermost call ends, and so
    do the stacks of nested recursions.
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
