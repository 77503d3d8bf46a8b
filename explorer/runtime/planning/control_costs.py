"""Predicted times of a loop's trip, a branch's decision, and a recursion's call.

They come from the model that plans walls. A branch counts by its longer arm, a recursion by its
calls: as many as a profile saw, else the assumed trip count of a loop that only a run can count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from explorer.devices.model import Device
from explorer.devices.target import target_of
from explorer.grinder import (
    BranchTask,
    CallTask,
    ControlSchedules,
    LibraryTask,
    LoopTask,
    RecursionTask,
    Straight,
    UTask,
    uprogram,
)
from explorer.grinder.independent import concurrent_groups, first_member_name, group_name, is_lone
from explorer.grinder.model import key_of, nested_parts, straights
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.control import ControlSchedule
from explorer.ir.dims import Sizes, is_symbol
from explorer.ir.program import Program
from explorer.memory.plan import Options as MemoryOptions
from explorer.rammer import Options as RammerOptions
from explorer.runtime.planning.plan import Planner
from explorer.runtime.planning.task_times import TaskTimes
from explorer.runtime.planning.unit_assignment import (
    ALONE,
    APART,
    GROUP_BARRIERS,
    LONE,
    UNCOUNTED_TRIPS,
    UnitAssignment,
    groups_of,
)


@dataclass(frozen=True, slots=True)
class AssumedCosts:
    """Assumed costs, in microseconds, of a launch from Python and of a barrier of all units.

    None: the machine's own.
    """

    launch_us: float | None = None
    barrier_us: float | None = None


@dataclass(frozen=True, slots=True)
class Time:
    """Predicted microseconds by cause."""

    kernels: float = 0.0
    barriers: float = 0.0
    copies: float = 0.0
    python: float = 0.0

    def __add__(self, other: Time) -> Time:
        """Return the sum by cause."""
        return Time(*(a + b for a, b in zip(self.all, other.all)))

    def times(self, count: float) -> Time:
        """Return the time of `count` repetitions."""
        return Time(*(count * us for us in self.all))

    @property
    def all(self) -> tuple[float, ...]:
        """The times in the order of the fields."""
        return self.kernels, self.barriers, self.copies, self.python

    @property
    def us(self) -> float:
        """The total."""
        return sum(self.all)

    @property
    def terms(self) -> tuple[tuple[str, float], ...]:
        """The terms of a candidate's cost."""
        names = ("kernels", "barriers", "copies", "Python")
        return tuple((name, us) for name, us in zip(names, self.all) if us)


Control: TypeAlias = LoopTask | BranchTask | RecursionTask
HOST_STEPS = CallTask | RecursionTask | LibraryTask  # steps of Python in a call that it follows
Inside: TypeAlias = Callable[[Control], Time]  # the time of nested control flow


class ControlCosts:
    """The uTasks of a program under given schedules, with the times of its straight runs.

    `supposed` replaces the costs between them.
    """

    def __init__(
        self,
        program: Program,
        device: Device,
        rammer: RammerOptions,
        times: TaskTimes,
        schedules: ControlSchedules,
        sizes: Sizes,
        supposed: AssumedCosts = AssumedCosts(),
    ) -> None:
        """Plan the straight runs inside of control flow."""
        self.tasks, self.python = uprogram(program, schedules), device.python
        planner = Planner(
            self.tasks,
            program.env,
            device,
            times.of,
            rammer,
            MemoryOptions(),
            target_of(device).grid_times(program, device),
            times.library,
            program.constants,
        )
        extents = planner.extents(sizes)
        self.control = {part.name: part for part in nested_control(self.tasks.parts)}
        recursions = [p for p in self.control.values() if isinstance(p, RecursionTask)]
        framed = {p.name: p.binding for r in recursions for p in nested_control(r.body)}
        outside = {p.binding for p in self.control.values() if p.name not in framed}
        self.framed = frozenset(framed.values()) - outside  # bindings in recursions alone
        inside = [key_of(s) for part in self.control.values() for s in straights((part,))]
        laid = planner.schedules(sizes, extents, frozenset(inside))
        laid, self.recursions = planner.recursions(laid, planner.units)
        self.schedules = laid
        alone = {name for name, schedule in self.recursions.items() if schedule.mode == ALONE}
        self.unmet = {
            p.name for r in recursions for p in (r, *nested_control(r.body)) if r.name in alone
        }
        self.host = planner.host(sizes, extents)
        met_us = supposed.barrier_us
        self.schedules, self.groups = planner.groups(laid, planner.units, self.host, met_us)
        apart_groups = [g for g in groups_of(self.tasks.parts) if self.runs_apart(g)]
        self.apart = frozenset(p.name for group in apart_groups for p in nested_control(group))
        members = (p for group in apart_groups for p in group if not isinstance(p, Straight))
        self.members = frozenset(p.name for p in members)
        lone = [g for g in apart_groups if is_lone(g)]
        self.alone = frozenset(p.name for group in lone for p in nested_control(group))
        self.several = frozenset(
            first_member_name(g) for g in groups_of(self.tasks.parts) if not is_lone(g)
        )
        self.units = planner.units.units
        self.profiled = planner.profile is not None
        self.again_us = planner.overheads.again_us
        at_work = {s.unit for w in self.schedules.values() for p in w.placement.programs for s in p}
        single = len(at_work) <= 1  # no other unit is woken or awaited
        self.barrier_us = device.task_ns / 1000 if single else self.host.barrier_us
        if supposed.launch_us is not None:
            self.again_us = supposed.launch_us
        if supposed.barrier_us is not None:
            self.barrier_us = supposed.barrier_us
        self.extents = extents

    def barriers(self, part: Control, count: int) -> float:
        """Return the time of `count` barriers; none inside of tasks that one unit runs."""
        return 0.0 if part.name in self.unmet | self.apart else count * self.barrier_us

    def copies(self, part: Control, us: float) -> float:
        """Return the time of a copy shared by all units, or made by one unit that is alone."""
        return us * self.units if part.name in self.apart else us

    def apart_overhead(self, part: Control) -> Time:
        """Return the time of the barriers around tasks that separate units run."""
        return Time(barriers=GROUP_BARRIERS * self.barrier_us * (part.name in self.members))

    def unit_mode(self, part: Control) -> str:
        """Return "alone" if one unit runs a loop or branch, and those in it."""
        return ALONE if part.name in self.alone else ""

    def other_units(self, part: Control, trips: int = 1) -> Iterator[Candidate[str]]:
        """Yield the other unit assignments of a lone loop or branch, priced by one of its trips."""
        assignment = self.groups.get(part.name)
        if assignment is None or not isinstance(part, LoopTask | BranchTask) or part.beside:
            return
        for candidate in assignment.candidates if part.name not in self.several else ():
            if candidate.value != assignment.mode:
                terms = tuple((name, us / max(1, trips)) for name, us in candidate.terms)
                calls = ALONE if candidate.value == APART else candidate.value
                yield Candidate(LONE[candidate.value], calls, terms, candidate.refused)

    def loops(self, binding: str) -> list[LoopTask]:
        """Return the first instance of a loop, and the remainder of its unrolling."""
        mine = (p for p in self.control.values() if isinstance(p, LoopTask))
        instances = [p for p in mine if p.binding == binding]
        first = instances[0].name if instances else ""
        return [p for p in instances if p.name in (first, f"{first}/rest")]

    def symbol(self, loop: LoopTask) -> str:
        """Return the symbol that is a loop's trip count; "" if it is none."""
        value = self.tasks.values.get(loop.trip)
        dim = value.dims[0] if value is not None and value.home == "shape" and value.dims else 0
        return dim.name if is_symbol(dim) else ""

    def branch(self, binding: str) -> BranchTask:
        """Return the first instance of a branch."""
        mine = (p for p in self.control.values() if isinstance(p, BranchTask))
        return next(p for p in mine if p.binding == binding)

    def turn(self, loop: LoopTask, inside: Inside) -> Time:
        """Return the time of one turn of a loop in the program."""
        barriers, copied = self.host.between_turns(loop)
        between = Time(barriers=self.barriers(loop, barriers), copies=self.copies(loop, copied))
        return self.parts(loop.body, inside) + between

    def entry(self, loop: LoopTask) -> Time:
        """Return the time before the first turn, and after the last."""
        entered = self.host.entry_copy_us(loop)
        met = Time(barriers=self.barriers(loop, 2), copies=self.copies(loop, entered))
        return met + self.apart_overhead(loop)

    def trip_on_host(self, loop: LoopTask, inside: Inside) -> Time:
        """Return the time of one trip that Python decides."""
        reads_us = self.python.look_us * (1 + loop.checked)
        copies = sum(2 if c.staging else c.param != c.result for c in loop.carried)
        copies_us = self.python.copy_us * (copies + len(loop.stacked))
        rows = sum(self.host.moved_us(s.value) for s in loop.stacked)
        copied = self.units * (self.host.carried_us(loop) + rows)  # by one thread
        return self.steps(loop.body, inside) + Time(copies=copied, python=reads_us + copies_us)

    def branch_time(self, branch: BranchTask, inside: Inside) -> Time:
        """Return the time of a branch in the program, by its longer arm."""
        arms = []
        for arm, arm_number in ((branch.then, 1), (branch.orelse, 2)):
            barriers, copied = self.host.after_arm(branch, arm_number)
            barriers += self.host.barriers_before_arm(branch, arm_number)
            copied = self.copies(branch, copied)
            ends = Time(barriers=self.barriers(branch, barriers), copies=copied)
            arms.append(self.parts(arm, inside) + ends)
        return max(arms, key=lambda arm: arm.us) + self.apart_overhead(branch)

    def branch_time_on_host(self, branch: BranchTask, inside: Inside) -> Time:
        """Return the time of a branch that Python decides, by its longer arm."""
        arms = [
            self.steps(arm, inside)
            + Time(
                python=self.python.copy_us
                * sum(row[0] != row[arm_number] for row in branch.results)
            )
            for arm, arm_number in ((branch.then, 1), (branch.orelse, 2))
        ]
        return max(arms, key=lambda arm: arm.us) + Time(python=self.python.look_us)

    def calls(self, recursion: RecursionTask) -> tuple[int, str]:
        """Return the number of a recursion's calls, with the outermost, and its source."""
        seen = self.host.seen.get(recursion.name)
        if seen is not None:
            depth = self.host.seen.get(f"{recursion.name}/depth")
            nested = f", {depth:,} deep" if depth else ""
            return seen, f"{seen:,} calls seen{nested}"
        return UNCOUNTED_TRIPS, f"{UNCOUNTED_TRIPS} calls assumed"

    def call_time(self, recursion: RecursionTask, inside: Inside) -> Time:
        """Return the time of one call in the program, without its own calls."""
        pairs = zip(
            (*recursion.params, *recursion.results),
            (*recursion.args, *recursion.outputs),
            strict=True,
        )
        copied = sum(self.host.copy_us(*pair) for pair in pairs)
        met = self.barriers(recursion, 2)
        schedule = self.recursions.get(recursion.name)
        if schedule is not None and schedule.mode == APART:
            return Time(kernels=schedule.candidates[0].cost_us, copies=copied)
        return self.parts(recursion.body, inside) + Time(barriers=met, copies=copied)

    def group_candidates(self) -> Iterator[tuple[str, tuple[Candidate[ControlSchedule], ...]]]:
        """Yield the groups of concurrent loops and branches with their candidates.

        The chosen candidate is first. The candidates of a lone loop or branch are among its own.
        """
        for group in groups_of(self.tasks.parts):
            assignment = self.groups.get(first_member_name(group))
            if assignment is not None and not is_lone(group):
                candidates = (
                    Candidate(w.label, ControlSchedule("device", calls=w.value), w.terms, w.refused)
                    for w in assignment.candidates
                )
                yield group_name(group), tuple(candidates)

    def units_of(self, recursion: RecursionTask) -> tuple[Candidate[ControlSchedule], ...]:
        """Return the unit assignments of a recursion's calls in the program, chosen one first."""
        schedule = self.recursions.get(recursion.name)
        return tuple(
            Candidate(w.label, ControlSchedule("device", calls=w.value), w.terms, w.refused)
            for w in (schedule.candidates if schedule is not None else ())
        )

    def call_time_on_host(self, recursion: RecursionTask, inside: Inside) -> Time:
        """Return the time of one call that Python follows, with its regions.

        There is a region between each two of its calls.
        """
        python = self.python.region_us * _regions(recursion.body)
        return self.parts(recursion.body, inside) + Time(python=python)

    def parts(self, parts: Sequence[UTask], inside: Inside) -> Time:
        """Return the time of consecutive parts in the program."""
        total = Time()
        for part in self.one_by_one(parts):
            match part:
                case UnitAssignment():
                    total += Time(*(us for _, us in part.candidates[0].terms))
                case Straight():
                    total += Time(self.schedules[key_of(part)].wall.total_us)
                case LibraryTask():
                    total += Time(python=self.host.library(part, self.extents).us)
                case LoopTask() | BranchTask() | RecursionTask():
                    total += inside(part)
                case CallTask():
                    continue
        return total

    def one_by_one(self, parts: Sequence[UTask]) -> Iterator[UTask | UnitAssignment]:
        """Yield the parts, with an assignment in place of each group that runs apart."""
        for group in concurrent_groups(parts):
            assignment = self.groups.get(first_member_name(group))
            if assignment is not None and assignment.units and not is_lone(group):
                yield assignment
            else:
                yield from group

    def runs_apart(self, group: Sequence[UTask]) -> bool:
        """Return True if a group's members run on separate units, or a lone one on one unit."""
        assignment = self.groups.get(first_member_name(group))
        return assignment is not None and bool(assignment.units)

    def steps(self, parts: Sequence[UTask], inside: Inside) -> Time:
        """Return the time of parts run from Python: with a launch between each two of its steps."""
        launches, launched = 0, False
        for part in parts:
            python = isinstance(part, LibraryTask) or (
                isinstance(part, LoopTask | BranchTask) and part.level == "host"
            )
            launches += not python and not launched
            launched = not python and not self.tasks.apart
        return self.parts(parts, inside) + Time(python=launches * self.again_us)


def nested_control(parts: Sequence[UTask]) -> Iterator[Control]:
    """Yield every loop, branch and recursion, nested ones first."""
    for part in parts:
        match part:
            case LoopTask(body=body) | RecursionTask(body=body):
                yield from nested_control(body)
                yield part
            case BranchTask(then=then, orelse=orelse):
                yield from nested_control((*then, *orelse))
                yield part
            case _:
                continue


def _regions(parts: Sequence[UTask]) -> int:
    """Return the number of launches in a call that Python follows.

    There is one for the work between two steps of Python, in the longer arm of a branch, and in
    each trip of a loop around calls.
    """
    count, launched = 0, False
    for part in parts:
        python = any(isinstance(p, HOST_STEPS) for p in nested_parts((part,)))
        count += not python and not launched
        launched = not python
        if python and isinstance(part, BranchTask):
            count += max(_regions(part.then), _regions(part.orelse))
        elif python and isinstance(part, LoopTask):
            count += UNCOUNTED_TRIPS * _regions(part.body)
    return count
