"""Whether loops and branches that need nothing of each other run on units apart, or one after the
other on all units; and whether one that stands alone runs on one unit.

On units apart nobody waits for another until all meet behind them, and each unit takes its own
branches and makes its own trips; all that one does takes it alone. A loop that stands alone meets
nobody from trip to trip then, which may be more than a small body has to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from explorer.grinder import BranchTask, LoopTask, Straight, UTask
from explorer.grinder.independent import is_lone, is_rest
from explorer.grinder.independent_calls import concurrent_groups, first_member_name
from explorer.ir.decisions.candidate import Candidate
from explorer.rammer import Facts, Options, Schedule, schedule
from explorer.runtime.planning.allocations import recursions_of, straights
from explorer.runtime.planning.host_steps import HostSteps
from explorer.runtime.planning.timeline import key_of
from explorer.runtime.planning.units.recursion_ways import (
    APART,
    TOGETHER,
    UNCOUNTED_TRIPS,
    of_one,
)

LABELS = {TOGETHER: "one after the other, all units", APART: "at the same time, units apart"}
LONE = {TOGETHER: "all units", APART: "one unit"}
MEETINGS_APART = 2  # of all units, counted: before the members, and behind


@dataclass(frozen=True, slots=True)
class UnitAssignment:
    """How a group of loops and branches runs: `units` has the unit of each, and is empty where all
    units do one after the other. `schedules` are those of a unit alone. `weighed` are both ways,
    by an entry of the group.
    """

    way: str
    units: tuple[int, ...] = ()
    schedules: Mapping[str, Schedule] = field(default_factory=dict)
    weighed: tuple[Candidate[str], ...] = ()


@dataclass(frozen=True, slots=True)
class Prices:
    """What groups are weighed by. `barrier_us` is one of all units; where the first does all that
    there is, the others need not wake up (`wake_us`). `storages`: values lie in such, by
    memory.policy. What was found is kept: the ways of groups, and the schedules of one unit.
    """

    schedules: Mapping[str, Schedule]
    options: Options
    barrier_us: float
    wake_us: float
    units: int
    device: str
    host: HostSteps
    storages: bool = False
    found: dict[str, UnitAssignment] = field(default_factory=dict)
    one: dict[str, Schedule] = field(default_factory=dict)

    def dealt(self, group: Sequence[UTask]) -> UnitAssignment:
        """The way that was asked for, or that takes least by the model."""
        name = first_member_name(group)
        if name not in self.found:
            self.found[name] = self._dealt(group)
        return self.found[name]

    def _dealt(self, group: Sequence[UTask]) -> UnitAssignment:
        at_work = {s.unit for w in self.schedules.values() for p in w.placement.programs for s in p}
        single, rests = len(at_work) < 2, [n for n, p in enumerate(group) if is_rest(p)]
        together = replace(self, barrier_us=0.0) if single else self
        met_us = MEETINGS_APART * self.barrier_us + (self.wake_us if single else 0.0)
        together_us = together.of_all(group)
        least = shared(self.least(group), self.units, rests)[1] + met_us
        refused = {APART: self.why_not(group), TOGETHER: ""}
        apart, alone = ("kernels, at least", least - met_us), dict[str, Schedule]()
        units: tuple[int, ...] = ()
        if not refused[APART] and (least < together_us or asked(group) == APART):
            alone = {key_of(part): self.alone(key_of(part)) for part in straights(group)}
            one = replace(self, schedules=alone, barrier_us=0.0)
            each = [one.us((part,), self.units) for part in group]
            units, apart_us = shared(each, self.units, rests)
            apart = "kernels", apart_us
        weighed = {
            TOGETHER: (("kernels and barriers", together_us),),
            APART: (apart, ("barriers", met_us)),
        }
        labels = LONE if is_lone(group) else LABELS
        ways = [
            Candidate(labels[way], way, () if refused[way] else terms, refused[way])
            for way, terms in weighed.items()
        ]
        ways.sort(key=lambda way: (bool(way.refused), way.cost_us))
        if asked(group) == APART and not refused[APART]:
            ways.sort(key=lambda way: way.value != APART)
        if ways[0].value == TOGETHER:
            return UnitAssignment(TOGETHER, weighed=tuple(ways))
        return UnitAssignment(APART, units, alone, tuple(ways))

    def why_not(self, group: Sequence[UTask]) -> str:
        """Why its members cannot run on units apart, or shall not; "" if they can."""
        lone = is_lone(group)
        if asked(group) == TOGETHER:
            return "grinder.alone is all" if lone else "grinder.independent is together"
        if self.units < 2:
            return "there is one unit"
        if next(recursions_of(group), None) is not None:
            return "a recursion in one of them has one stack"
        if self.storages:
            return "values lie in buffers, which are shared in the order of one unit"
        if lone and not isinstance(self.options.policy, str) and asked(group) != APART:
            return "rammer.policy is one of your own, which says what all units do"
        return ""

    def alone(self, key: str) -> Schedule:
        """A straight run on one unit."""
        if key not in self.one:
            facts = of_one(self.schedules[key].facts)
            self.one[key] = schedule(facts, self.options, self.device)
        return self.one[key]

    def least(self, group: Sequence[UTask]) -> list[float]:
        """What each member takes at least on one unit: its kernels, and nothing between them."""
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
        """How many turns it makes, or is assumed to."""
        trips = self.host.trips(loop)
        return UNCOUNTED_TRIPS if trips is None else trips

    def us(self, parts: Sequence[UTask], copying: int = 1) -> float:
        """Parts one after the other, each group the way that it goes; a branch by its longer side.
        Of units that copy a value, each copies its part, or one unit all that so many would.
        """
        total = 0.0
        for group in concurrent_groups(parts):
            if self.barrier_us and first_member_name(group):
                total += self.dealt(group).weighed[0].cost_us
            else:
                total += self.of_all(group, copying)
        return total

    def of_all(self, group: Sequence[UTask], copying: int = 1) -> float:
        """The same of one group, by all units that there are."""
        total = 0.0
        for part in group:
            match part:
                case Straight():
                    total += self.schedules[key_of(part)].wall.total_us
                case LoopTask(body=body):
                    meetings, copied = self.host.turned(part)
                    turn = self.us(body, copying) + meetings * self.barrier_us + copying * copied
                    total += 2 * self.barrier_us + copying * self.host.entered_us(part)
                    total += self.trips(part) * turn
                case BranchTask(then=then, orelse=orelse):
                    sides = []
                    for side, made in ((then, 1), (orelse, 2)):
                        meetings, copied = self.host.sided(part, made)
                        met = (self.host.looked(part, made) + meetings) * self.barrier_us
                        sides.append(self.us(side, copying) + met + copying * copied)
                    total += max(sides)
                case _:
                    continue
        return total


def _work_us(facts: Facts) -> float:
    """The least that the kernels of a straight run take on one unit."""
    return sum(
        min(
            kernel.tasks * min(kernel.task_us, kernel.kept_us or kernel.task_us)
            for kernel in o.kernels or (o.kernel(0),)
        )
        for o in facts.operators
    )


def asked(group: Sequence[UTask]) -> str:
    """What was asked for."""
    first = group[0]
    return first.units if isinstance(first, LoopTask | BranchTask) else "auto"


def shared(
    us: Sequence[float], units: int, rests: Sequence[int] = ()
) -> tuple[tuple[int, ...], float]:
    """The unit of each part, the longest first to whoever has least, and until all are done
    (Graham, 1969, Bounds on multiprocessing timing anomalies). Each of the `rests` goes with the
    part before it.
    """
    busy, found, whole = [0.0] * units, [0] * len(us), [*us]
    for n in rests:
        whole[n - 1] += us[n]
    for n in sorted(set(range(len(us))) - {*rests}, key=lambda n: -whole[n]):
        found[n] = min(range(units), key=lambda unit: busy[unit])
        busy[found[n]] += whole[n]
    for n in rests:
        found[n] = found[n - 1]
    return tuple(found), max(busy)


def ways_of_groups(parts: Sequence[UTask], prices: Prices) -> dict[str, UnitAssignment]:
    """How each group runs, by the name of its first member; those in one that units do apart are
    done by their unit one after the other.
    """
    found: dict[str, UnitAssignment] = {}
    for group in concurrent_groups(parts):
        name, apart = first_member_name(group), False
        if name:
            found[name] = prices.dealt(group)
            apart = found[name].way == APART
        for body in () if apart else bodies_of(group):
            found |= ways_of_groups(body, prices)
    return found


def groups_of(parts: Sequence[UTask]) -> Iterator[Sequence[UTask]]:
    """Every group, an outer one before those in it."""
    for group in concurrent_groups(parts):
        if first_member_name(group):
            yield group
        for body in bodies_of(group):
            yield from groups_of(body)


def bodies_of(group: Sequence[UTask]) -> Iterator[Sequence[UTask]]:
    """What loops run in each trip, and both sides of branches."""
    for part in group:
        match part:
            case LoopTask(body=body):
                yield body
            case BranchTask(then=then, orelse=orelse):
                yield from (then, orelse)
            case _:
                continue
