"""Everything that is decided for one binding of the sizes, before any memory is taken."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from explorer.cached_property import cached_property
from explorer.counters import counters
from explorer.devices.model import Device
from explorer.grinder import LibraryTask, OperatorTask, RecursionTask, UProgram
from explorer.grinder.calls.rename_symbols import known_sizes
from explorer.ir.decisions.memory_plan import MemoryPlan
from explorer.ir.decisions.tiling import Block
from explorer.ir.decisions.wall import Wall
from explorer.ir.program import Constant
from explorer.ir.shapes.dims import ShapeEnv, Sizes
from explorer.rammer import Facts, Overheads, ROperator, Schedule, Share, VDevice, schedule
from explorer.rammer import Options as RammerOptions
from explorer.relax.memory.plan import Options as MemoryOptions
from explorer.relax.memory.storages import StoragePlan
from explorer.runtime.planning.allocations import calls_of, loops_of, recursions_of, straights
from explorer.runtime.planning.donation import overwritable
from explorer.runtime.planning.extents import Extents, ExtentsOf
from explorer.runtime.planning.host_steps import HostSteps, LibraryFacts, no_time
from explorer.runtime.planning.memory import Memory, Placed
from explorer.runtime.planning.planned_wall import planned_wall
from explorer.runtime.planning.runs.run_facts import RunFacts, TaskFacts
from explorer.runtime.planning.runs.sheet_times import SheetTimes
from explorer.runtime.planning.runs.straight_runs import Run, run_of
from explorer.runtime.planning.runs.task_times import TaskFact
from explorer.runtime.planning.timeline import key_of, timeline, uses_of
from explorer.runtime.planning.units.concurrent_control_flow import (
    Prices,
    UnitAssignment,
    ways_of_groups,
)
from explorer.runtime.planning.units.recursion_ways import (
    ALONE,
    UNCOUNTED_TRIPS,
    RecursionWay,
    recursion_way,
)


@dataclass(frozen=True)
class Plan:
    """The schedules by the first operator of each straight run; the wall and the arena are made
    when they are asked for.

    `direct` are the roots that a run writes right into an output: (root, position of the output);
    `recursions` say which units make the calls of each, `groups` which run loops and branches, by
    the name of the first of those that need nothing of each other.
    """

    program: UProgram
    sizes: Sizes
    schedules: Mapping[str, Schedule]
    direct: Mapping[str, int]
    extents: Extents
    units: VDevice
    planner: Planner
    recursions: Mapping[str, RecursionWay] = field(default_factory=dict)
    groups: Mapping[str, UnitAssignment] = field(default_factory=dict)

    @property
    def alone(self) -> frozenset[str]:
        """The recursions that one unit does."""
        return frozenset(name for name, way in self.recursions.items() if way.way == ALONE)

    @property
    def dealt(self) -> Mapping[str, tuple[int, ...]]:
        """The units of the members of each group that units do apart."""
        return {name: way.units for name, way in self.groups.items() if way.units}

    @cached_property
    def wall(self) -> Wall:
        """How a run should go."""
        return self.planner.wall(self)

    @cached_property
    def placed(self) -> Placed:
        """Where each buffer lies."""
        return self.planner.placed(self)

    def implementation(self, operator: OperatorTask) -> OperatorTask:
        """A call with the tiling that it runs with."""
        return operator.implementation(self._kernels.get(operator.name, 0))

    @cached_property
    def _kernels(self) -> Mapping[str, int]:
        """By operator, where it is not the first."""
        return {operator.name: share.kernel for operator, share in self._shares() if share.kernel}

    @property
    def blocks(self) -> Mapping[str, tuple[Block, ...]]:
        """On a data sheet, the thread blocks that each binding runs with where any are printed:
        one, but where it stands in several runs, which may choose differently.
        """
        bindings = {o.name: o.binding for run in self.planner.runs for o in run.operators}
        found: dict[str, dict[Block, None]] = {}
        for operator, share in self._shares():
            block = operator.kernel(share.kernel).block
            if block is not None:
                found.setdefault(bindings[operator.name], {})[block] = None
        return {name: tuple(blocks) for name, blocks in found.items()}

    def _shares(self) -> Iterator[tuple[ROperator, Share]]:
        return (
            (s.facts.operators[share.operator], share)
            for s in self.schedules.values()
            for program in s.placement.programs
            for share in program
        )

    def shape(self, name: str) -> tuple[int, ...]:
        """The extents of a value."""
        return self.extents.shape(name)

    def offset_bytes(self, name: str) -> int:
        """Where a value begins in its root's bytes."""
        return self.extents.offset_bytes(name)

    @cached_property
    def memory(self) -> MemoryPlan:
        """The arena, to look at."""
        return self.planner.memory.rows(self.placed, self.sizes, self.extents)


class Planner:
    """The plans of a program; what no binding changes is worked out here, once."""

    def __init__(
        self,
        program: UProgram,
        env: ShapeEnv,
        device: Device,
        task_facts: TaskFacts,
        rammer: RammerOptions,
        memory: MemoryOptions,
        sheet: SheetTimes | None = None,
        library_facts: LibraryFacts = no_time,
        constants: Mapping[str, Constant] = MappingProxyType({}),
    ) -> None:
        self.program, self.device = program, device
        self.library_facts, self.constants = library_facts, constants
        self.task_facts, self.rammer, self.sheet = task_facts, rammer, sheet
        units, known = rammer.threads or device.units, rammer.profile
        self.profile = known if known is not None and known.fits(units) else None
        # A launch is over when all have heard of it, and have said that they are at its end.
        step_us = device.task_ns / 1000
        said = Overheads(2 * device.barrier_us, device.launch_us, device.barrier_us, step_us)
        self.overheads = (self.profile and self.profile.overheads) or said
        self.units = VDevice(
            units,
            self.overheads.barrier_us,
            device.launch_us,
            own_cache_bytes(device),
            resident=device.kind == "cpu",  # workers stay between rPrograms
            step_us=self.overheads.step_us,
        )
        self.run_facts = RunFacts(program, self.units, task_facts, rammer, sheet)
        self.uses = uses_of(program)
        copied = memory.by_storages and memory.outputs
        self.direct = {} if copied else _direct(program)
        self.memory = Memory(program, self.uses, env, self.direct, memory)
        self.extents = ExtentsOf(program)

    def plan(self, sizes: Sizes) -> Plan:
        """The plan of one binding; BadPolicy, BoundError and ShapeError where there is none."""
        counters.add("walls_planned")
        sizes = known_sizes(self.program.words, sizes)
        extents = self.extents(sizes)
        units, laid = self._laid(self.runs, sizes, extents)
        schedules, ways = self.recursions(laid, units)
        schedules, groups = self.groups(schedules, units, self.host(sizes, extents))
        walls = schedules, self.direct, extents, units, self, ways, groups
        return Plan(self.program, sizes, *walls)

    def recursions(
        self, schedules: Mapping[str, Schedule], units: VDevice
    ) -> tuple[Mapping[str, Schedule], Mapping[str, RecursionWay]]:
        """The schedules with those of recursions that one unit does, and the way of each where
        there are several units.
        """
        found, ways, inner = dict(schedules), dict[str, RecursionWay](), set[str]()
        for task in recursions_of(self.program.parts) if self._has_ways(units) else ():
            if task.name in ways:
                continue
            inside = [part.name for part in recursions_of(task.body)]
            own = self._way(task, found, units, task.name in inner)
            ways[task.name] = own
            inner |= {*inside}
            if own.schedules is not None:
                found |= own.schedules
                ways |= dict.fromkeys(inside, own)
        return found, ways

    def groups(
        self,
        schedules: Mapping[str, Schedule],
        units: VDevice,
        host: HostSteps,
        barrier_us: float | None = None,
    ) -> tuple[Mapping[str, Schedule], Mapping[str, UnitAssignment]]:
        """The schedules with those of what units do apart, and how each group runs; where a barrier
        takes so long, or as long as it does.
        """
        if not self._has_ways(units):
            return schedules, {}
        seen, name, storages = self.overheads, self.device.name, self.memory.by_storages
        times = seen.barrier_us if barrier_us is None else barrier_us, seen.launch_us
        known = schedules, self.rammer, *times, units.units, name, host, storages
        found, laid = ways_of_groups(self.program.parts, Prices(*known)), dict(schedules)
        for way in found.values():
            laid |= way.schedules
        return laid, found

    def _has_ways(self, units: VDevice) -> bool:
        return units.units > 1 and self.sheet is None

    def _way(
        self,
        task: RecursionTask,
        schedules: Mapping[str, Schedule],
        units: VDevice,
        inner: bool,
    ) -> RecursionWay:
        """Which units make the calls of a recursion."""
        seen = dict(self.profile.trips).get(task.name) if self.profile is not None else None
        return recursion_way(
            task,
            schedules,
            self.rammer,
            self.overheads.barrier_us,
            units.units,
            self.device.name,
            inner,
            UNCOUNTED_TRIPS if seen is None else seen,
            self.overheads.launch_us,
        )

    def schedules(
        self, sizes: Sizes, extents: Extents, keys: Collection[str]
    ) -> Mapping[str, Schedule]:
        """The schedules of some straight runs alone."""
        runs = [run for run in self.runs if run.key in keys]
        return self._laid(runs, sizes, extents)[1]

    def _laid(
        self, runs: Sequence[Run], sizes: Sizes, extents: Extents
    ) -> tuple[VDevice, Mapping[str, Schedule]]:
        """The units and the schedules of the way whose walls end first; the first of such."""
        ways = [
            (units, self._schedules(runs, every))
            for units, every in self.run_facts.of(runs, sizes, extents)
        ]
        return min(ways, key=lambda way: sum(s.wall.total_us for s in way[1].values()))

    def _schedules(self, runs: Sequence[Run], every: Sequence[Facts]) -> Mapping[str, Schedule]:
        return {
            run.key: schedule(facts, self.rammer, self.device.name)
            for run, facts in zip(runs, every)
        }

    def wall(self, plan: Plan) -> Wall:
        """A plan drawn: every brick and gap."""
        host = self.host(plan.sizes, plan.extents)
        parts, policy = self.program.parts, self.rammer.policy_name
        walls = plan.schedules, plan.recursions, plan.groups, plan.units, host
        wall = planned_wall(parts, *walls, policy, self.device.name)
        return wall if self.sheet is None else replace(wall, kind="simulated")

    def uncounted(self, plan: Plan) -> list[str]:
        """The loops of which a plan has one trip, and the recursions of which it has one call, as
        nothing before a run says how many.
        """
        host, parts = self.host(plan.sizes, plan.extents), self.program.parts
        calls = [task.name for task in recursions_of(parts) if task.name not in host.seen]
        return [*(loop.name for loop in loops_of(parts) if host.trips(loop) is None), *calls]

    def host(self, sizes: Sizes, extents: Extents) -> HostSteps:
        """What happens between launches and trips."""
        return HostSteps(
            self.program,
            self.device,
            sizes,
            extents,
            self.constants,
            self.library_facts,
            dict(self.profile.trips if self.profile is not None else ()),
            None if self.sheet is not None else self.overheads,
        )

    def facts(self, plan: Plan) -> dict[str, TaskFact]:
        """What was known of every call's tasks."""
        calls = calls_of(self.program.parts)
        return {
            call.name: self.library_facts(call, plan.extents)
            if isinstance(call, LibraryTask)
            else self.task_facts(plan.implementation(call), plan.sizes)
            for call in calls
        }

    def placed(self, plan: Plan) -> Placed:
        """The arena of a plan."""
        units, stacks = plan.units.units, {n: w.stacks for n, w in plan.recursions.items()}
        return self.memory.place(
            plan.sizes,
            plan.extents,
            lambda: timeline(self.uses, plan.schedules, units, plan.dealt),
            stacks,
        )

    @property
    def storages(self) -> StoragePlan:
        """Relax's plan with symbols, whichever policy runs."""
        return self.memory.storages

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """Every straight run, with what each operator waits for."""
        begins = {stretch.key: stretch.begin for stretch in self.uses.stretches}
        turns = dict[int, list[int]]()
        for write, before in self.memory.turns:
            turns.setdefault(write, []).extend(before)
        return tuple(
            run_of(part, self.program, begins[key_of(part)], turns)
            for part in straights(self.program.parts)
        )

    @cached_property
    def overwritable(self) -> Mapping[int, frozenset[int]]:
        """For each output, by position, the inputs in whose memory a run may write it."""
        return overwritable(self.program, self.uses, self.direct, self.runs)


def own_cache_bytes(device: Device) -> int:
    """The farthest memory that a unit has for itself; 0 where a device has no such cache."""
    own = [m.capacity_bytes for m in device.levels if not m.shared and m.capacity_bytes]
    return max(own, default=0) if device.kind == "cpu" else 0


def _direct(program: UProgram) -> dict[str, int]:
    """Outputs that are whole buffers of their own are written in place."""
    direct: dict[str, int] = {}
    for position, name in enumerate(program.outputs):
        value = program.values[name]
        root = program.values[value.root]
        whole = value.is_at(root) and value.type.bytes == root.type.bytes
        if root.home == "buffer" and whole and root.name not in direct:
            direct[root.name] = position
    return direct
