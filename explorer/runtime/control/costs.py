"""What a trip of a loop, a decision of a branch, or a call of a recursion should take: predictions,
by the model that plans walls.

A branch counts by its longer side, a recursion by its calls: as many as were seen in a profile,
else so many as a loop that only a run counts has trips.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from explorer.devices.model import Device
from explorer.grinder import (
    BranchTask,
    CallTask,
    LibraryTask,
    LoopTask,
    RecursionTask,
    Straight,
    UTask,
    Ways,
    uprogram,
)
from explorer.grinder.independent import group_name, is_lone
from explorer.grinder.independent_calls import concurrent_groups, first_member_name
from explorer.grinder.unroll import every
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.control import ControlWay
from explorer.ir.program import Program
from explorer.ir.shapes.algebra import is_symbol
from explorer.ir.shapes.dims import Sizes
from explorer.rammer import Options as RammerOptions
from explorer.relax.memory.plan import Options as MemoryOptions
from explorer.runtime.planning.allocations import straights
from explorer.runtime.planning.plan import Planner
from explorer.runtime.planning.runs.sheet_times import SheetTimes
from explorer.runtime.planning.runs.task_times import TaskTimes
from explorer.runtime.planning.timeline import key_of
from explorer.runtime.planning.units.concurrent_control_flow import (
    LONE,
    MEETINGS_APART,
    UnitAssignment,
    groups_of,
)
from explorer.runtime.planning.units.recursion_ways import ALONE, APART, UNCOUNTED_TRIPS


@dataclass(frozen=True, slots=True)
class Supposed:
    """Another launch from Python, and another barrier of all units, than the machine's, in
    microseconds; None: as they are.
    """

    launch_us: float | None = None
    barrier_us: float | None = None


@dataclass(frozen=True, slots=True)
class Time:
    """Predicted microseconds by what takes them."""

    kernels: float = 0.0
    barriers: float = 0.0
    copies: float = 0.0
    python: float = 0.0

    def __add__(self, other: Time) -> Time:
        return Time(*(a + b for a, b in zip(self.all, other.all)))

    def times(self, count: float) -> Time:
        """So often."""
        return Time(*(count * us for us in self.all))

    @property
    def all(self) -> tuple[float, ...]:
        return self.kernels, self.barriers, self.copies, self.python

    @property
    def us(self) -> float:
        """In all."""
        return sum(self.all)

    @property
    def terms(self) -> tuple[tuple[str, float], ...]:
        """As a candidate has them."""
        names = ("kernels", "barriers", "copies", "Python")
        return tuple((name, us) for name, us in zip(names, self.all) if us)


Control: TypeAlias = LoopTask | BranchTask | RecursionTask
FOLLOWED = CallTask | RecursionTask | LibraryTask  # by Python, where it follows a call around them
Inside: TypeAlias = Callable[[Control], Time]  # the time of what is nested


class Tree:
    """The uTasks of a program that goes certain ways, with the times of its straight runs. What was
    `supposed` counts between them.
    """

    def __init__(
        self,
        program: Program,
        device: Device,
        rammer: RammerOptions,
        times: TaskTimes,
        ways: Ways,
        sizes: Sizes,
        supposed: Supposed = Supposed(),
    ) -> None:
        self.tasks, self.python = uprogram(program, ways), device.python
        planner = Planner(
            self.tasks,
            program.env,
            device,
            times.of,
            rammer,
            MemoryOptions(),
            SheetTimes(program, device) if device.kind == "gpu" else None,
            times.library,
            program.constants,
        )
        extents = planner.extents(sizes)
        self.control = {part.name: part for part in control(self.tasks.parts)}
        recursions = [p for p in self.control.values() if isinstance(p, RecursionTask)]
        framed = {p.name: p.binding for r in recursions for p in control(r.body)}
        outside = {p.binding for p in self.control.values() if p.name not in framed}
        self.framed = frozenset(framed.values()) - outside  # bindings in recursions alone
        inside = [key_of(s) for part in self.control.values() for s in straights((part,))]
        laid = planner.schedules(sizes, extents, frozenset(inside))
        laid, self.recursions = planner.recursions(laid, planner.units)
        self.schedules = laid
        alone = {name for name, way in self.recursions.items() if way.way == ALONE}
        self.unmet = {p.name for r in recursions for p in (r, *control(r.body)) if r.name in alone}
        self.host = planner.host(sizes, extents)
        met_us = supposed.barrier_us
        self.schedules, self.groups = planner.groups(laid, planner.units, self.host, met_us)
        dealt = [g for g in groups_of(self.tasks.parts) if self.is_dealt(g)]
        self.apart = frozenset(p.name for group in dealt for p in control(group))
        members = (p for group in dealt for p in group if not isinstance(p, Straight))
        self.members = frozenset(p.name for p in members)
        lone = [g for g in dealt if is_lone(g)]
        self.alone = frozenset(p.name for group in lone for p in control(group))
        self.several = frozenset(
            first_member_name(g) for g in groups_of(self.tasks.parts) if not is_lone(g)
        )
        self.units = planner.units.units
        self.profiled = planner.profile is not None
        self.again_us = planner.overheads.again_us
        at_work = {s.unit for w in self.schedules.values() for p in w.placement.programs for s in p}
        single = len(at_work) <= 1  # nobody else is woken up, and nobody waited for
        self.barrier_us = device.task_ns / 1000 if single else self.host.barrier_us
        if supposed.launch_us is not None:
            self.again_us = supposed.launch_us
        if supposed.barrier_us is not None:
            self.barrier_us = supposed.barrier_us
        self.extents = extents

    def barriers(self, part: Control, count: int) -> float:
        """The time of so many meetings of all units; none in what one unit does."""
        return 0.0 if part.name in self.unmet | self.apart else count * self.barrier_us

    def copies(self, part: Control, us: float) -> float:
        """The time of what all units copy, a part each, or one unit where it is alone."""
        return us * self.units if part.name in self.apart else us

    def dealt_out(self, part: Control) -> Time:
        """What is spent before and behind what one unit does while others do something else."""
        return Time(barriers=MEETINGS_APART * self.barrier_us * (part.name in self.members))

    def units_way(self, part: Control) -> str:
        """ "alone" where one unit does a loop or branch, and those in it."""
        return ALONE if part.name in self.alone else ""

    def other_units(self, part: Control, trips: int = 1) -> Iterator[Candidate[str]]:
        """On which units a loop or branch that stands alone could run too, by one of its trips."""
        found = self.groups.get(part.name)
        if found is None or not isinstance(part, LoopTask | BranchTask) or part.beside:
            return
        for way in found.weighed if part.name not in self.several else ():
            if way.value != found.way:
                terms = tuple((name, us / max(1, trips)) for name, us in way.terms)
                calls = ALONE if way.value == APART else way.value
                yield Candidate(LONE[way.value], calls, terms, way.refused)

    def loops(self, binding: str) -> list[LoopTask]:
        """A loop where it stands first, and what is left of its turns."""
        mine = (p for p in self.control.values() if isinstance(p, LoopTask))
        found = [p for p in mine if p.binding == binding]
        first = found[0].name if found else ""
        return [p for p in found if p.name in (first, f"{first}/rest")]

    def symbol(self, loop: LoopTask) -> str:
        """The symbol that a loop's trips are; "" where they are something else."""
        value = self.tasks.values.get(loop.trip)
        dim = value.dims[0] if value is not None and value.home == "shape" and value.dims else 0
        return dim.name if is_symbol(dim) else ""

    def branch(self, binding: str) -> BranchTask:
        """A branch where it stands first."""
        mine = (p for p in self.control.values() if isinstance(p, BranchTask))
        return next(p for p in mine if p.binding == binding)

    def turn(self, loop: LoopTask, inside: Inside) -> Time:
        """One turn of a loop in the program."""
        meetings, copied = self.host.turned(loop)
        between = Time(barriers=self.barriers(loop, meetings), copies=self.copies(loop, copied))
        return self.parts(loop.body, inside) + between

    def entered(self, loop: LoopTask) -> Time:
        """What stands before the first turn, and behind the last."""
        entered = self.host.entered_us(loop)
        met = Time(barriers=self.barriers(loop, 2), copies=self.copies(loop, entered))
        return met + self.dealt_out(loop)

    def trip_on_host(self, loop: LoopTask, inside: Inside) -> Time:
        """One trip that Python decides."""
        looks = self.python.look_us * (1 + loop.checked)
        copies = sum(2 if c.staging else c.param != c.result for c in loop.carried)
        deeds = self.python.copy_us * (copies + len(loop.stacked))
        rows = sum(self.host.moved_us(s.value) for s in loop.stacked)
        copied = self.units * (self.host.carried_us(loop) + rows)  # by one thread
        return self.steps(loop.body, inside) + Time(copies=copied, python=looks + deeds)

    def decided(self, branch: BranchTask, inside: Inside) -> Time:
        """A branch in the program, by its longer side."""
        sides = []
        for side, made in ((branch.then, 1), (branch.orelse, 2)):
            meetings, copied = self.host.sided(branch, made)
            meetings += self.host.looked(branch, made)
            copied = self.copies(branch, copied)
            ends = Time(barriers=self.barriers(branch, meetings), copies=copied)
            sides.append(self.parts(side, inside) + ends)
        return max(sides, key=lambda side: side.us) + self.dealt_out(branch)

    def decided_on_host(self, branch: BranchTask, inside: Inside) -> Time:
        """A branch that Python decides, by its longer side."""
        sides = [
            self.steps(side, inside)
            + Time(python=self.python.copy_us * sum(row[0] != row[made] for row in branch.results))
            for side, made in ((branch.then, 1), (branch.orelse, 2))
        ]
        return max(sides, key=lambda side: side.us) + Time(python=self.python.look_us)

    def calls(self, recursion: RecursionTask) -> tuple[int, str]:
        """How many calls a recursion has, the outermost among them, and how that is known."""
        seen = self.host.seen.get(recursion.name)
        if seen is not None:
            depth = self.host.seen.get(f"{recursion.name}/depth")
            nested = f", {depth:,} deep" if depth else ""
            return seen, f"{seen:,} calls seen{nested}"
        return UNCOUNTED_TRIPS, f"{UNCOUNTED_TRIPS} calls assumed"

    def called(self, recursion: RecursionTask, inside: Inside) -> Time:
        """One call in the program; those in it are counted for themselves."""
        pairs = zip(
            (*recursion.params, *recursion.results),
            (*recursion.args, *recursion.outputs),
            strict=True,
        )
        copied = sum(self.host.copy_us(*pair) for pair in pairs)
        met = self.barriers(recursion, 2)
        way = self.recursions.get(recursion.name)
        if way is not None and way.way == APART:
            return Time(kernels=way.weighed[0].cost_us, copies=copied)
        return self.parts(recursion.body, inside) + Time(barriers=met, copies=copied)

    def weighed_groups(self) -> Iterator[tuple[str, tuple[Candidate[ControlWay], ...]]]:
        """Loops and branches that need nothing of each other, and how they could run, the way that
        is taken first. What stands alone has that among its own ways.
        """
        for group in groups_of(self.tasks.parts):
            found = self.groups.get(first_member_name(group))
            if found is not None and not is_lone(group):
                ways = (
                    Candidate(w.label, ControlWay("device", calls=w.value), w.terms, w.refused)
                    for w in found.weighed
                )
                yield group_name(group), tuple(ways)

    def units_of(self, recursion: RecursionTask) -> tuple[Candidate[ControlWay], ...]:
        """Which units could make its calls in the program, the way that is taken first."""
        way = self.recursions.get(recursion.name)
        return tuple(
            Candidate(w.label, ControlWay("device", calls=w.value), w.terms, w.refused)
            for w in (way.weighed if way is not None else ())
        )

    def called_on_host(self, recursion: RecursionTask, inside: Inside) -> Time:
        """The same where Python follows the calls: each has a region for what is between them."""
        python = self.python.region_us * _regions(recursion.body)
        return self.parts(recursion.body, inside) + Time(python=python)

    def parts(self, parts: Sequence[UTask], inside: Inside) -> Time:
        """Parts one after the other in the program."""
        total = Time()
        for part in self.one_by_one(parts):
            match part:
                case UnitAssignment():
                    total += Time(*(us for _, us in part.weighed[0].terms))
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
        """The parts, and in the place of several that units do apart how they do."""
        for group in concurrent_groups(parts):
            found = self.groups.get(first_member_name(group))
            if found is not None and found.units and not is_lone(group):
                yield found
            else:
                yield from group

    def is_dealt(self, group: Sequence[UTask]) -> bool:
        """Whether its members run on units apart, or a lone one on one."""
        found = self.groups.get(first_member_name(group))
        return found is not None and bool(found.units)

    def steps(self, parts: Sequence[UTask], inside: Inside) -> Time:
        """The same from Python: a launch for what stands between two things that it does."""
        launches, launched = 0, False
        for part in parts:
            python = isinstance(part, LibraryTask) or (
                isinstance(part, LoopTask | BranchTask) and part.level == "host"
            )
            launches += not python and not launched
            launched = not python and not self.tasks.apart
        return self.parts(parts, inside) + Time(python=launches * self.again_us)


def control(parts: Sequence[UTask]) -> Iterator[Control]:
    """Every loop, branch and recursion, what is inside of one before it."""
    for part in parts:
        match part:
            case LoopTask(body=body) | RecursionTask(body=body):
                yield from control(body)
                yield part
            case BranchTask(then=then, orelse=orelse):
                yield from control((*then, *orelse))
                yield part
            case _:
                continue


def _regions(parts: Sequence[UTask]) -> int:
    """How often Python launches something in a call that it follows: once for what stands between
    two of its deeds, in the longer side of a branch, and in each trip of a loop around calls.
    """
    count, launched = 0, False
    for part in parts:
        python = any(isinstance(p, FOLLOWED) for p in every((part,)))
        count += not python and not launched
        launched = not python
        if python and isinstance(part, BranchTask):
            count += max(_regions(part.then), _regions(part.orelse))
        elif python and isinstance(part, LoopTask):
            count += UNCOUNTED_TRIPS * _regions(part.body)
    return count
