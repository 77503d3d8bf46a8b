"""Assignment of independent loops, branches and calls to separate units, or to one unit.

The alternative is to run them one after the other on all units. On separate units none waits for
another until the barrier behind them, and each unit takes its own branches and makes its own trips;
one unit runs all tasks of its member. A lone loop on one unit has no barriers between trips, which
may cost more than a small body.

Calls of a recursion may be so short that one unit is done before several have met at a barrier.
Independent calls can be distributed to the units: nothing before a run tells how even the trees
are, so the largest part is assumed to be the mean of random cuts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from explorer.grinder import BranchTask, CallTask, LoopTask, RecursionTask, Straight, UTask
from explorer.grinder.independent import (
    concurrent_groups,
    first_member_name,
    is_lone,
    is_remainder,
    max_concurrency,
)
from explorer.grinder.model import key_of, recursions_of, straights
from explorer.ir.decisions.candidate import Candidate
from explorer.rammer import Facts, Options, Schedule, schedule
from explorer.runtime.planning.host_steps import HostSteps

TOGETHER, ALONE, APART = "together", "alone", "apart"
UNCOUNTED_TRIPS = 8  # of a loop, or calls of a recursion, that only a run can count; assumed
RECURSION_BARRIERS = 3  # of all units, counted: before separate calls, after them, at the end
RECURSION_LABELS = {
    TOGETHER: "in the program, all units together",
    ALONE: "in the program, one unit",
    APART: "in the program, units apart",
}
GROUP_LABELS = {TOGETHER: "one after the other, all units", APART: "at the same time, units apart"}
LONE = {TOGETHER: "all units", APART: "one unit"}
GROUP_BARRIERS = 2  # of all units, counted: before the members, and after


@dataclass(frozen=True, slots=True)
class UnitAssignment:
    """The units of a group of loops and branches.

    `units` has the unit of each member, and is empty if all units run them one after the other.
    `schedules` are those of a unit alone. `candidates` are both assignments, by an entry of the
    group.
    """

    mode: str
    units: tuple[int, ...] = ()
    schedules: Mapping[str, Schedule] = field(default_factory=dict)
    candidates: tuple[Candidate[str], ...] = ()


@dataclass(frozen=True, slots=True)
class GroupCosts:
    """Costs of groups.

    `barrier_us` is that of all units; if the first unit runs everything, the others need not wake
    up (`wake_us`). `storages`: values lie in storages, by memory.policy. The assignments of groups
    and the schedules of one unit are cached.
    """

    schedules: Mapping[str, Schedule]
    options: Options
    barrier_us: float
    wake_us: float
    units: int
    device: str
    host: HostSteps
    storages: bool = False
    assignments: dict[str, UnitAssignment] = field(default_factory=dict)
    single_unit_schedules: dict[str, Schedule] = field(default_factory=dict)

    def assign(self, group: Sequence[UTask]) -> UnitAssignment:
        """Return the requested assignment, or the one with the least modelled time."""
        name = first_member_name(group)
        if name not in self.assignments:
            self.assignments[name] = self._assign(group)
        return self.assignments[name]

    def _assign(self, group: Sequence[UTask]) -> UnitAssignment:
        at_work = {s.unit for w in self.schedules.values() for p in w.placement.programs for s in p}
        single, remainders = len(at_work) < 2, [n for n, p in enumerate(group) if is_remainder(p)]
        together = replace(self, barrier_us=0.0) if single else self
        met_us = GROUP_BARRIERS * self.barrier_us + (self.wake_us if single else 0.0)
        together_us = together.of_all(group)
        least = balance(self.least(group), self.units, remainders)[1] + met_us
        refused = {APART: self.apart_refusal(group), TOGETHER: ""}
        apart, alone = ("kernels, at least", least - met_us), dict[str, Schedule]()
        units: tuple[int, ...] = ()
        if not refused[APART] and (least < together_us or requested_mode(group) == APART):
            alone = {key_of(part): self.alone(key_of(part)) for part in straights(group)}
            on_one_unit = replace(self, schedules=alone, barrier_us=0.0)
            each = [on_one_unit.us((part,), self.units) for part in group]
            units, apart_us = balance(each, self.units, remainders)
            apart = "kernels", apart_us
        costs = {
            TOGETHER: (("kernels and barriers", together_us),),
            APART: (apart, ("barriers", met_us)),
        }
        labels = LONE if is_lone(group) else GROUP_LABELS
        candidates = [
            Candidate(labels[mode], mode, () if refused[mode] else terms, refused[mode])
            for mode, terms in costs.items()
        ]
        candidates.sort(key=lambda c: (bool(c.refused), c.cost_us))
        if requested_mode(group) == APART and not refused[APART]:
            candidates.sort(key=lambda c: c.value != APART)
        if candidates[0].value == TOGETHER:
            return UnitAssignment(TOGETHER, candidates=tuple(candidates))
        return UnitAssignment(APART, units, alone, tuple(candidates))

    def apart_refusal(self, group: Sequence[UTask]) -> str:
        """Return why its members cannot or shall not run on separate units; "" if they can."""
        lone = is_lone(group)
        if requested_mode(group) == TOGETHER:
            return "grinder.alone is all" if lone else "grinder.independent is together"
        if self.units < 2:
            return "there is one unit"
        if next(recursions_of(group), None) is not None:
            return "a recursion in one of them has one stack"
        if self.storages:
            return "values lie in buffers, which are shared in the order of one unit"
        if lone and not isinstance(self.options.policy, str) and requested_mode(group) != APART:
            return "rammer.policy is a function, which places the tasks of all units"
        return ""

    def alone(self, key: str) -> Schedule:
        """Return the schedule of a straight run on one unit."""
        if key not in self.single_unit_schedules:
            facts = on_one_unit(self.schedules[key].facts)
            self.single_unit_schedules[key] = schedule(facts, self.options, self.device)
        return self.single_unit_schedules[key]

    def least(self, group: Sequence[UTask]) -> list[float]:
        """Return a lower bound of each member's time on one unit: its kernels alone."""
        works = {
            key_of(part): _work_us(self.schedules[key_of(part)].facts) for part in straights(group)
        }
        return [self._least((part,), works) for part in group]

    def _least(self, parts: Sequence[UTask], works: Mapping[str, float]) -> float:
        total = 0.0
        for part in parts:
            match part:
                case Straight():
                    total += works[key_of(part)]
                case LoopTask(body=body):
                    total += self.trips(part) * self._least(body, works)
                case BranchTask(then=then, orelse=orelse):
                    total += max(self._least(then, works), self._least(orelse, works))
                case _:
                    continue
        return total

    def trips(self, loop: LoopTask) -> int:
        """Return the number of its turns, or the assumed one."""
        trips = self.host.trips(loop)
        return UNCOUNTED_TRIPS if trips is None else trips

    def us(self, parts: Sequence[UTask], copying: int = 1) -> float:
        """Return the time of consecutive parts, each group as assigned; a branch by its longer arm.

        If units copy a value together, each copies its part; one unit alone copies `copying` parts.
        """
        total = 0.0
        for group in concurrent_groups(parts):
            if self.barrier_us and first_member_name(group):
                total += self.assign(group).candidates[0].cost_us
            else:
                total += self.of_all(group, copying)
        return total

    def of_all(self, group: Sequence[UTask], copying: int = 1) -> float:
        """Return the time of one group on all units."""
        total = 0.0
        for part in group:
            match part:
                case Straight():
                    total += self.schedules[key_of(part)].wall.total_us
                case LoopTask(body=body):
                    barriers, copied = self.host.between_turns(part)
                    turn = self.us(body, copying) + barriers * self.barrier_us + copying * copied
                    total += 2 * self.barrier_us + copying * self.host.entry_copy_us(part)
                    total += self.trips(part) * turn
                case BranchTask(then=then, orelse=orelse):
                    arms = []
                    for arm, arm_number in ((then, 1), (orelse, 2)):
                        barriers, copied = self.host.after_arm(part, arm_number)
                        met = (
                            self.host.barriers_before_arm(part, arm_number) + barriers
                        ) * self.barrier_us
                        arms.append(self.us(arm, copying) + met + copying * copied)
                    total += max(arms)
                case _:
                    continue
        return total


@dataclass(frozen=True, slots=True)
class RecursionSchedule:
    """The schedule of a recursion's calls; `stacks`: the number of separate units.

    `schedules` are those of its body if they differ from those of all units; `candidates` are
    priced by a call.
    """

    mode: str = TOGETHER
    stacks: int = 1
    schedules: Mapping[str, Schedule] | None = None
    candidates: tuple[Candidate[str], ...] = ()


def select_recursion_schedule(
    task: RecursionTask,
    schedules: Mapping[str, Schedule],
    options: Options,
    barrier_us: float,
    units: int,
    device: str,
    inner: bool = False,
    calls: int = UNCOUNTED_TRIPS,
    launch_us: float = 0.0,
) -> RecursionSchedule:
    """Return the requested schedule, or the one with the least modelled time for `calls` calls.

    The costs of the calls that all units make together are shared among all; `inner`: another
    recursion makes it.
    """
    keys = [key_of(part) for part in straights(task.body)]
    alone = {key: schedule(on_one_unit(schedules[key].facts), options, device) for key in keys}
    kernels_us = sum(schedules[key].wall.total_us for key in keys)
    met_us = barrier_us * (1 + count_barriers(task.body))
    alone_us = sum(item.wall.total_us for item in alone.values())
    stacks = min(units, max_concurrency(task.body))
    costs = {
        TOGETHER: (("kernels", kernels_us), ("barriers", met_us)),
        ALONE: (("kernels", alone_us),),
        APART: (
            ("kernels", alone_us * largest_part(max(1, stacks))),
            ("barriers", (met_us + RECURSION_BARRIERS * barrier_us + launch_us) / max(1, calls)),
        ),
    }
    refused = {APART: apart_refusal(task, stacks, inner)}
    candidates = tuple(
        Candidate(
            RECURSION_LABELS[mode], mode, () if refused.get(mode) else terms, refused.get(mode, "")
        )
        for mode, terms in costs.items()
    )
    best = min(candidates, key=lambda item: item.cost_us)
    if task.units == "parallel" and not refused[APART]:
        best = candidates[-1]
    candidates = (best, *(w for w in candidates if w is not best))
    if best.value == APART:
        return RecursionSchedule(APART, stacks, None, candidates)
    return RecursionSchedule(best.value, 1, alone if best.value == ALONE else None, candidates)


def largest_part(units: int) -> float:
    """Return the largest part of calls that are cut in two at a random place, repeatedly."""
    return (1 + 1 / units) / 2


def apart_refusal(task: RecursionTask, stacks: int, inner: bool) -> str:
    """Return why its calls cannot or shall not run on separate units; "" if they can."""
    if task.units == "serial":
        return "grinder.recursion is serial"
    if stacks < 2:
        return "its calls depend on each other"
    if inner or next(recursions_of(task.body), None) is not None:
        return "a recursion in another one has one stack"
    return ""


def on_one_unit(facts: Facts) -> Facts:
    """Return the same facts for one unit."""
    return replace(facts, device=replace(facts.device, units=1))


def count_barriers(parts: Sequence[UTask]) -> int:
    """Return the number of barriers in parts: in each arm of a branch, in one trip of a loop."""
    count = 0
    for part in parts:
        match part:
            case Straight():
                count += 1
            case CallTask():
                count += 2
            case BranchTask(then=then, orelse=orelse):
                count += 2 + count_barriers((*then, *orelse))
            case LoopTask(body=body) | RecursionTask(body=body):
                count += 3 + count_barriers(body)
            case _:
                continue
    return count


def _work_us(facts: Facts) -> float:
    """Return the least time of the kernels of a straight run on one unit."""
    return sum(
        min(
            kernel.tasks * min(kernel.task_us, kernel.cached_us or kernel.task_us)
            for kernel in o.kernels or (o.kernel(0),)
        )
        for o in facts.operators
    )


def requested_mode(group: Sequence[UTask]) -> str:
    """Return the requested assignment."""
    first = group[0]
    return first.units if isinstance(first, LoopTask | BranchTask) else "auto"


def balance(
    us: Sequence[float], units: int, remainders: Sequence[int] = ()
) -> tuple[tuple[int, ...], float]:
    """Return the unit of each part, and the time until all are done.

    The longest goes first to the least loaded unit (Graham, 1969, Bounds on multiprocessing timing
    anomalies). Each of the `remainders` goes with the part before it.
    """
    busy, assigned, with_remainders = [0.0] * units, [0] * len(us), [*us]
    for n in remainders:
        with_remainders[n - 1] += us[n]
    for n in sorted(set(range(len(us))) - {*remainders}, key=lambda n: -with_remainders[n]):
        assigned[n] = min(range(units), key=lambda unit: busy[unit])
        busy[assigned[n]] += with_remainders[n]
    for n in remainders:
        assigned[n] = assigned[n - 1]
    return tuple(assigned), max(busy)


def assign_groups(parts: Sequence[UTask], prices: GroupCosts) -> dict[str, UnitAssignment]:
    """Return the assignment of each group, by the name of its first member.

    Groups inside of a member on a separate unit run on that unit one after the other.
    """
    assignments: dict[str, UnitAssignment] = {}
    for group in concurrent_groups(parts):
        name, apart = first_member_name(group), False
        if name:
            assignments[name] = prices.assign(group)
            apart = assignments[name].mode == APART
        for body in () if apart else bodies_of(group):
            assignments |= assign_groups(body, prices)
    return assignments


def groups_of(parts: Sequence[UTask]) -> Iterator[Sequence[UTask]]:
    """Yield every group, an outer one before those inside."""
    for group in concurrent_groups(parts):
        if first_member_name(group):
            yield group
        for body in bodies_of(group):
            yield from groups_of(body)


def bodies_of(group: Sequence[UTask]) -> Iterator[Sequence[UTask]]:
    """Yield the bodies of loops, and both arms of branches."""
    for part in group:
        match part:
            case LoopTask(body=body):
                yield body
            case BranchTask(then=then, orelse=orelse):
                yield from (then, orelse)
            case _:
                continue
