"""Planned wall of a whole program, from the walls of its straight runs.

All work between two returns to Python is one launch. A loop is drawn trip by trip if constants and
sizes determine its count, else with one trip; a branch with its longer arm.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from explorer.grinder import (
    BranchTask,
    CallTask,
    LibraryTask,
    LoopTask,
    RecursionTask,
    Straight,
    UTask,
)
from explorer.grinder.independent import concurrent_groups, first_member_name
from explorer.grinder.model import key_of
from explorer.ir.decisions.wall import Brick, Gap, Wall
from explorer.rammer import Schedule, VDevice
from explorer.rammer.transform import linearize
from explorer.runtime.planning.host_steps import HostSteps
from explorer.runtime.planning.unit_assignment import (
    ALONE,
    APART,
    RecursionSchedule,
    UnitAssignment,
)

MOST_BRICKS = 1 << 20  # beyond it a loop's trips are left out: a bound on memory, chosen


def planned_wall(
    parts: Sequence[UTask],
    schedules: Mapping[str, Schedule],
    recursions: Mapping[str, RecursionSchedule],
    assignments: Mapping[str, UnitAssignment],
    device: VDevice,
    host: HostSteps,
    policy: str = "",
    name: str = "",
) -> Wall:
    """Return the wall; rPrograms are numbered in the order of the parts, drawn or not."""
    numbers: dict[str, int] = {}
    _number(parts, schedules, numbers)
    builder = _WallBuilder(schedules, recursions, assignments, numbers, device.units, host)
    builder.lay(parts)
    return builder.wall(policy, name)


def _number(
    parts: Sequence[UTask], schedules: Mapping[str, Schedule], numbers: dict[str, int], at: int = 0
) -> int:
    """Set the number of each straight run's first rProgram; return the total."""
    for part in parts:
        match part:
            case Straight():
                numbers[key_of(part)] = at
                at += len(schedules[key_of(part)].placement.programs)
            case LoopTask(body=body) | RecursionTask(body=body):
                at = _number(body, schedules, numbers, at)
            case BranchTask(then=then, orelse=orelse):
                at = _number((*then, *orelse), schedules, numbers, at)
            case LibraryTask() | CallTask():
                continue
    return at


class _WallBuilder:
    """Builder of a wall, one part after the other.

    `cuts` are the ends of rPrograms so far, `launched` is True while the device runs a launch,
    `times` counts the runs of each straight run, and `turn` tells which call of how many of a
    recursion is drawn; `own` is the unit that runs alone, or -1.
    """

    def __init__(
        self,
        schedules: Mapping[str, Schedule],
        recursions: Mapping[str, RecursionSchedule],
        groups: Mapping[str, UnitAssignment],
        numbers: Mapping[str, int],
        units: int,
        host: HostSteps,
    ) -> None:
        self.schedules, self.numbers, self.units, self.host = schedules, numbers, units, host
        self.recursions, self.barrier_us = recursions, host.barrier_us
        self.groups = groups
        self.own = -1
        self.now = 0.0
        self.launched = False
        self.turn: tuple[int, int] | None = None
        self.times = Counter[str]()
        self.bricks: list[Brick] = []
        self.python: list[Brick] = []
        self.gaps: list[Gap] = []
        self.cuts: list[float] = []

    def wall(self, policy: str, name: str) -> Wall:
        cuts = tuple(cut for cut in self.cuts if cut < self.now)
        return Wall(
            "planned",
            tuple(self.bricks),
            tuple(self.gaps),
            self.units,
            self.now,
            policy,
            name,
            cuts,
            tuple(self.python),
        )

    def lay(self, parts: Sequence[UTask]) -> None:
        for group in concurrent_groups(parts):
            assignment = self.groups.get(first_member_name(group))
            if assignment is not None and assignment.units and self.own < 0:
                self.apart(group, assignment.units)
                continue
            for part in group:
                self.part(part)

    def part(self, part: UTask) -> None:
        match part:
            case Straight():
                self.straight(part)
            case LoopTask():
                self.loop(part)
            case BranchTask():
                self.branch(part)
            case LibraryTask():
                self.library(part)
            case RecursionTask():
                self.recursion(part)
            case CallTask():
                pass

    def apart(self, group: Sequence[UTask], units: Sequence[int]) -> None:
        """Lay each member on its own unit, between two barriers."""
        self.launch()
        self.idle(self.barrier_us, "barrier")
        begin, ends, barrier_us = self.now, list[float](), self.barrier_us
        self.barrier_us = 0.0
        for unit in range(self.units):
            self.own, self.now = unit, begin
            self.lay([p for p, own in zip(group, units, strict=True) if own == unit])
            ends.append(self.now)
        self.own, self.barrier_us = -1, barrier_us
        self.wait(ends)

    def wait(self, ends: Sequence[float]) -> None:
        """Let all units meet; the n-th unit is done at the n-th end."""
        self.now = max(ends)
        self.gaps += [
            Gap(unit, ended, self.now, "imbalance")
            for unit, ended in enumerate(ends)
            if ended < self.now
        ]

    def launch(self) -> None:
        """Launch unless the device is running already."""
        if not self.launched:
            self.launched = True
            self.through_python()

    def back(self) -> None:
        """Return to Python."""
        self.launched = False

    def through_python(self) -> None:
        """Add the time of a launch or a library call; the first one begins the run."""
        seen = self.host.overheads
        if seen is not None:
            self.idle(seen.again_us if self.now else seen.launch_us, "launch")

    def idle(self, us: float, cause: str) -> None:
        """Add time in which no unit has a brick."""
        if us > 0.0:
            begin, self.now = self.now, self.now + us
            units = range(self.units) if self.own < 0 else (self.own,)
            self.gaps += [Gap(unit, begin, self.now, cause) for unit in units]

    def straight(self, part: Straight) -> None:
        key = key_of(part)
        if self.host.program.apart:
            self.back()
        self.launch()
        if self.own >= 0:
            self.on_own(key)
            return
        schedule, first = self.schedules[key], self.numbers[key]
        wall, trip, now = schedule.wall, self.times[key], self.now
        self.times[key] += 1
        if not (now or first or trip):
            self.bricks += wall.bricks
            self.gaps += wall.gaps
        else:
            self.bricks += [
                replace(
                    b,
                    start_us=b.start_us + now,
                    end_us=b.end_us + now,
                    program=b.program + first,
                    iteration=trip,
                )
                for b in wall.bricks
            ]
            self.gaps += [
                replace(g, start_us=g.start_us + now, end_us=g.end_us + now) for g in wall.gaps
            ]
        for unit in range(schedule.facts.device.units, self.units):
            self.gaps.append(Gap(unit, now, now + wall.total_us, "imbalance"))
        self.cuts += [cut + now for cut in wall.cuts_us]
        self.now += wall.total_us
        self.cuts.append(self.now)

    def on_own(self, key: str) -> None:
        """Lay a straight run on one unit."""
        schedule, trip = self.schedules[key], self.times[key]
        operators = {o.name: o for o in schedule.facts.operators}
        self.times[key] += 1
        for number, program in enumerate(schedule.programs, self.numbers[key]):
            for row in linearize(program):
                operator, begin = operators[program.calls[row.call]], self.now
                self.now += (row.last - row.first) * operator.task_us
                self.bricks.append(
                    Brick(
                        self.own,
                        begin,
                        self.now,
                        operator.name,
                        row.first,
                        row.last,
                        operator.origin,
                        program=number,
                        iteration=trip,
                    )
                )

    def library(self, task: LibraryTask) -> None:
        """Lay a library call, during which the units idle."""
        self.back()
        self.through_python()
        begin = self.now
        self.now += self.host.library(task, self.host.extents).us
        trip = self.times[task.name]
        self.times[task.name] += 1
        brick = Brick(self.units, begin, self.now, task.name, 0, 1, task.origin, iteration=trip)
        self.python.append(brick)
        self.gaps += [Gap(unit, begin, self.now, "library") for unit in range(self.units)]

    def loop(self, task: LoopTask) -> None:
        on_host = task.level == "host"
        if on_host:
            self.back()
        else:
            self.launch()
            self.idle(2 * self.barrier_us + self.host.entry_copy_us(task), "barrier")
        trips = self.host.trips(task)
        barriers, copied_us = (0, 0.0) if on_host else self.host.between_turns(task)
        between_us = barriers * self.barrier_us + copied_us
        before = self.laid
        for _ in range(1 if trips is None else trips):
            self.lay(task.body)
            if on_host:
                self.back()
            else:
                self.idle(between_us, "barrier")
            if 2 * self.laid - before > MOST_BRICKS:
                break

    @property
    def laid(self) -> int:
        """The number of rows to draw; a trip may have gaps alone."""
        return max(len(self.bricks) + len(self.python), len(self.gaps))

    def recursion(self, task: RecursionTask) -> None:
        """Lay each call after the other, as many as were seen.

        If none were seen, lay the outermost call alone, because only a run can count the others.
        """
        self.launch()
        outside, calls = self.turn, self.host.seen.get(task.name, 1)
        pairs = zip((*task.params, *task.results), (*task.args, *task.outputs), strict=True)
        copied = sum(self.host.copy_us(*pair) for pair in pairs)
        barrier_us, schedule = self.barrier_us, self.recursions.get(task.name, RecursionSchedule())
        if schedule.mode == ALONE:
            self.barrier_us = 0.0
        if schedule.mode != APART:
            self.calls(task, range(calls), calls, copied)
        else:
            self.calls(task, range(min(1, calls)), calls, copied)
            self.lay_distributed(task, schedule.stacks, calls, copied)
        self.turn, self.barrier_us = outside, barrier_us

    def calls(self, task: RecursionTask, some: range, calls: int, copied_us: float) -> None:
        """Lay some of the calls of a recursion."""
        before = self.laid
        for call in some:
            self.turn = call, calls
            self.idle(2 * self.barrier_us + copied_us, "barrier")
            self.lay(task.body)
            if 2 * self.laid - before > MOST_BRICKS:
                break

    def lay_distributed(
        self, task: RecursionTask, units: int, calls: int, copied_us: float
    ) -> None:
        """Lay the calls except the outermost, evenly on some units, followed by a barrier."""
        begin, ends, self.barrier_us = self.now, list[float](), 0.0
        cuts = [1 + (calls - 1) * unit // units for unit in range(units + 1)]
        for self.own, some in enumerate(map(range, cuts, cuts[1:])):
            self.now = begin
            self.calls(task, some, calls, copied_us)
            ends.append(self.now)
        self.own = -1
        self.wait([*ends, *[begin] * (self.units - units)])

    def drawn_arms(self, task: BranchTask) -> tuple[int, ...]:
        """Return the arms (1, 2 or both) that may be drawn; of both the longer one is.

        If the calls that took the first arm were counted, they are spread over all calls.
        """
        seen = self.host.seen.get(f"{task.name}/then")
        if self.turn is None or seen is None:
            return 1, 2
        call, calls = self.turn
        return (1,) if (call + 1) * seen // calls > call * seen // calls else (2,)

    def branch(self, task: BranchTask) -> None:
        if task.level == "host":
            self.back()
        else:
            self.launch()
        builders = []
        for arm_number in self.drawn_arms(task):
            arm = task.then if arm_number == 1 else task.orelse
            shared = self.schedules, self.recursions, self.groups, self.numbers
            builder = _WallBuilder(*shared, self.units, self.host)
            builder.now, builder.launched, builder.times = (
                self.now,
                self.launched,
                self.times.copy(),
            )
            builder.turn, builder.barrier_us, builder.own = self.turn, self.barrier_us, self.own
            if task.level != "host":
                builder.idle(
                    self.host.barriers_before_arm(task, arm_number) * self.barrier_us, "barrier"
                )
            builder.lay(arm)
            if builder.launched:
                barriers, copied_us = self.host.after_arm(task, arm_number)
                builder.idle(barriers * self.barrier_us + copied_us, "barrier")
            builders.append(builder)
        longer = max(builders, key=lambda builder: builder.now)
        self.bricks += longer.bricks
        self.python += longer.python
        self.gaps += longer.gaps
        self.cuts += longer.cuts
        self.now, self.launched = longer.now, longer.launched
        self.times = longer.times
        if task.level == "host":
            self.back()
