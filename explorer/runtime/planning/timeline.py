"""The order of all that a run does, as the memory planner needs it: who writes and uses what.

Positions are counted once for a program; a schedule says which are ordered. A segment is what lies
between two moments at which all units meet; a loop's end uses whatever the loop reads from outside,
so that nothing of it is overwritten between two trips.
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
from explorer.grinder.independent_calls import concurrent_groups, first_member_name
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
        self.spans: dict[str, range] = {}  # the positions of a loop or branch
        self.groups: dict[str, list[str]] = {}  # beside each other, by the first
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


def timeline(
    uses: Uses,
    schedules: Mapping[str, Schedule],
    units: int,
    dealt: Mapping[str, Sequence[int]],
) -> Timeline:
    """The positions as vector clocks, as the schedules' waits order them; `dealt` are the units of
    the members of groups that units do apart.
    """
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
        segment += len(schedule.placement.programs)
    found = Timeline(segments, last, known)
    for name, by in dealt.items():
        _deal([uses.spans[member] for member in uses.groups[name]], by, found)
    return found


def _deal(spans: Sequence[range], by: Sequence[int], timeline: Timeline) -> None:
    """Let what units do apart be one segment, in which a unit knows of its own steps alone."""
    segments, last, known = timeline.segment, timeline.last, timeline.known
    for unit in set(by):
        mine = [p for span, own in zip(spans, by, strict=True) if own == unit for p in span]
        mine.sort(key=lambda p: int(segments[p]))
        base = 0
        for _, some in groupby(mine, key=lambda p: int(segments[p])):
            here = list(some)
            ended, begun = base + last[here, 0], base + known[here, 0]
            last[here], known[here] = 0, 0
            last[here, unit], known[here, unit] = ended, begun
            base = int(ended.max())
    first = segments[spans[0].start]
    for span in spans:
        segments[span.start : span.stop] = first


def key_of(part: Straight) -> str:
    """Under which name a schedule is kept: the first operator's."""
    return part.operators[0].name


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
    for arm, made, name in ((branch.then, 1, "then"), (branch.orelse, 2, "else")):
        uses.block = f"{branch.name}/{name}"
        _walk(arm, uses)
        made_here = [row[made] for row in branch.results]
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
