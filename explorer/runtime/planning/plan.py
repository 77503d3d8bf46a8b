"""Plans: all decisions for one binding of the sizes, before memory is allocated."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from explorer.cached_property import cached_property
from explorer.devices.model import Device
from explorer.devices.target import target_of
from explorer.grinder import LibraryTask, OperatorTask, RecursionTask, UProgram
from explorer.grinder.model import calls_of, key_of, loops_of, recursions_of, straights
from explorer.grinder.recursion import extend_sizes
from explorer.grinder.straight_runs import StraightRun, straight_run
from explorer.ir.decisions.memory_plan import MemoryPlan
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.decisions.wall import Wall
from explorer.ir.dims import ShapeEnv, Sizes
from explorer.ir.program import Constant
from explorer.memory.allocations import overwritable
from explorer.memory.extents import Extents, ExtentsOf
from explorer.memory.plan import Options as MemoryOptions
from explorer.memory.planner import ArenaPlacement, MemoryPlanner
from explorer.memory.storages import StoragePlan
from explorer.memory.timeline import timeline, uses_of
from explorer.process.counters import counters
from explorer.rammer import Facts, Overheads, ROperator, Schedule, Share, VDevice, schedule
from explorer.rammer import Options as RammerOptions
from explorer.runtime.planning.host_steps import HostSteps, LibraryFacts, no_time
from explorer.runtime.planning.planned_wall import planned_wall
from explorer.runtime.planning.task_times import RunFacts, TaskFact, TaskFacts
from explorer.runtime.planning.unit_assignment import (
    ALONE,
    UNCOUNTED_TRIPS,
    GroupCosts,
    RecursionSchedule,
    UnitAssignment,
    assign_groups,
    select_recursion_schedule,
)

if TYPE_CHECKING:  # grids of thread blocks are timed for GPUs alone
    from explorer.runtime.planning.sheet_times import SheetTimes


@dataclass(frozen=True)
class Plan:
    """The schedules of one binding by the first operator of each straight run.

    The wall and the arena are computed on first use. `direct` are the roots that a run writes right
    into an output: (root, position of the output); `recursions` are the schedules of recursions,
    `groups` the units of concurrent loops and branches, by the name of each group's first member.
    """

    program: UProgram
    sizes: Sizes
    schedules: Mapping[str, Schedule]
    direct: Mapping[str, int]
    extents: Extents
    units: VDevice
    planner: Planner
    recursions: Mapping[str, RecursionSchedule] = field(default_factory=dict)
    groups: Mapping[str, UnitAssignment] = field(default_factory=dict)

    @property
    def alone(self) -> frozenset[str]:
        """The recursions that one unit runs."""
        return frozenset(
            name for name, schedule in self.recursions.items() if schedule.mode == ALONE
        )

    @property
    def unit_assignments(self) -> Mapping[str, tuple[int, ...]]:
        """The units of the members of each group that runs on separate units."""
        return {
            name: assignment.units for name, assignment in self.groups.items() if assignment.units
        }

    @cached_property
    def wall(self) -> Wall:
        """Return the planned wall."""
        return self.planner.wall(self)

    @cached_property
    def placed(self) -> ArenaPlacement:
        """Return the places of buffers."""
        return self.planner.placed(self)

    def implementation(self, operator: OperatorTask) -> OperatorTask:
        """Return a call with the tiling that it runs with."""
        return operator.implementation(self._kernels.get(operator.name, 0))

    @cached_property
    def _kernels(self) -> Mapping[str, int]:
        """Return the implementation of each operator that does not use the first."""
        return {operator.name: share.kernel for operator, share in self._shares() if share.kernel}

    @property
    def blocks(self) -> Mapping[str, tuple[Tiling, ...]]:
        """The thread blocks of each binding on a data sheet, if any are printed.

        A binding in several runs may have several blocks.
        """
        bindings = {o.name: o.binding for run in self.planner.runs for o in run.operators}
        by_binding: dict[str, dict[Tiling, None]] = {}
        for operator, share in self._shares():
            block = operator.kernel(share.kernel).block
            if block is not None:
                by_binding.setdefault(bindings[operator.name], {})[block] = None
        return {name: tuple(blocks) for name, blocks in by_binding.items()}

    def _shares(self) -> Iterator[tuple[ROperator, Share]]:
        return (
            (s.facts.operators[share.operator], share)
            for s in self.schedules.values()
            for program in s.placement.programs
            for share in program
        )

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the extents of a value."""
        return self.extents.shape(name)

    def offset_bytes(self, name: str) -> int:
        """Return a value's offset in its root's bytes."""
        return self.extents.offset_bytes(name)

    @cached_property
    def memory(self) -> MemoryPlan:
        """Return the memory plan for display."""
        return self.planner.memory.rows(self.placed, self.sizes, self.extents)


class Planner:
    """Planner of a program; parts that no binding changes are computed once."""

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
        """Prepare the parts that no binding changes."""
        self.program, self.device = program, device
        self.library_facts, self.constants = library_facts, constants
        self.task_facts, self.rammer, self.sheet = task_facts, rammer, sheet
        units, profile = rammer.threads or device.units, rammer.profile
        self.profile = profile if profile is not None and profile.fits(units) else None
        # A launch costs two barriers: its start reaches all units, and its end comes back.
        step_us = device.task_ns / 1000
        modelled = Overheads(2 * device.barrier_us, device.launch_us, device.barrier_us, step_us)
        self.overheads = (self.profile and self.profile.overheads) or modelled
        self.units = VDevice(
            units,
            self.overheads.barrier_us,
            device.launch_us,
            own_cache_bytes(device),
            resident=target_of(device).has_resident_workers,
            step_us=self.overheads.step_us,
        )
        self.run_facts = RunFacts(program, self.units, task_facts, rammer, sheet)
        self.uses = uses_of(program)
        copied = memory.by_storages and memory.outputs
        self.direct = {} if copied else _direct(program)
        self.memory = MemoryPlanner(program, self.uses, env, self.direct, memory)
        self.extents = ExtentsOf(program)

    def plan(self, sizes: Sizes) -> Plan:
        """Return the plan of one binding.

        Raises BadPolicy, BoundError and ShapeError.
        """
        counters.add("walls_planned")
        sizes = extend_sizes(self.program.symbol_renaming, sizes)
        extents = self.extents(sizes)
        units, laid = self._best_schedules(self.runs, sizes, extents)
        schedules, recursion_schedules = self.recursions(laid, units)
        schedules, groups = self.groups(schedules, units, self.host(sizes, extents))
        walls = schedules, self.direct, extents, units, self, recursion_schedules, groups
        return Plan(self.program, sizes, *walls)

    def recursions(
        self, schedules: Mapping[str, Schedule], units: VDevice
    ) -> tuple[Mapping[str, Schedule], Mapping[str, RecursionSchedule]]:
        """Return the schedules, with those of recursions that one unit runs, and all of recursions.

        There are recursion schedules only for several units.
        """
        all_schedules, recursion_schedules, inner = (
            dict(schedules),
            dict[str, RecursionSchedule](),
            set[str](),
        )
        for task in recursions_of(self.program.parts) if self._has_choice(units) else ():
            if task.name in recursion_schedules:
                continue
            inside = [part.name for part in recursions_of(task.body)]
            own = self._recursion_schedule(task, all_schedules, units, task.name in inner)
            recursion_schedules[task.name] = own
            inner |= {*inside}
            if own.schedules is not None:
                all_schedules |= own.schedules
                recursion_schedules |= dict.fromkeys(inside, own)
        return all_schedules, recursion_schedules

    def groups(
        self,
        schedules: Mapping[str, Schedule],
        units: VDevice,
        host: HostSteps,
        barrier_us: float | None = None,
    ) -> tuple[Mapping[str, Schedule], Mapping[str, UnitAssignment]]:
        """Return the schedules with those of separate units, and the assignment of each group.

        `barrier_us` replaces the time of a barrier.
        """
        if not self._has_choice(units):
            return schedules, {}
        seen, name, storages = self.overheads, self.device.name, self.memory.by_storages
        times = seen.barrier_us if barrier_us is None else barrier_us, seen.launch_us
        costs = schedules, self.rammer, *times, units.units, name, host, storages
        assignments, laid = assign_groups(self.program.parts, GroupCosts(*costs)), dict(schedules)
        for assignment in assignments.values():
            laid |= assignment.schedules
        return laid, assignments

    def _has_choice(self, units: VDevice) -> bool:
        return units.units > 1 and self.sheet is None

    def _recursion_schedule(
        self,
        task: RecursionTask,
        schedules: Mapping[str, Schedule],
        units: VDevice,
        inner: bool,
    ) -> RecursionSchedule:
        """Return the schedule of a recursion's calls."""
        seen = dict(self.profile.trips).get(task.name) if self.profile is not None else None
        return select_recursion_schedule(
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
        """Return the schedules of some straight runs."""
        runs = [run for run in self.runs if run.key in keys]
        return self._best_schedules(runs, sizes, extents)[1]

    def _best_schedules(
        self, runs: Sequence[StraightRun], sizes: Sizes, extents: Extents
    ) -> tuple[VDevice, Mapping[str, Schedule]]:
        """Return the units and the schedules whose walls end first."""
        candidates = [
            (units, self._schedules(runs, every))
            for units, every in self.run_facts.of(runs, sizes, extents)
        ]
        return min(
            candidates, key=lambda candidate: sum(s.wall.total_us for s in candidate[1].values())
        )

    def _schedules(
        self, runs: Sequence[StraightRun], every: Sequence[Facts]
    ) -> Mapping[str, Schedule]:
        return {
            run.key: schedule(facts, self.rammer, self.device.name)
            for run, facts in zip(runs, every)
        }

    def wall(self, plan: Plan) -> Wall:
        """Return a plan's wall: every brick and gap."""
        host = self.host(plan.sizes, plan.extents)
        parts, policy = self.program.parts, self.rammer.policy_name
        walls = plan.schedules, plan.recursions, plan.groups, plan.units, host
        wall = planned_wall(parts, *walls, policy, self.device.name)
        return wall if self.sheet is None else replace(wall, kind="simulated")

    def uncounted(self, plan: Plan) -> list[str]:
        """Return the loops and recursions whose trips and calls only a run can count.

        A plan has one trip or call of each.
        """
        host, parts = self.host(plan.sizes, plan.extents), self.program.parts
        calls = [task.name for task in recursions_of(parts) if task.name not in host.seen]
        return [*(loop.name for loop in loops_of(parts) if host.trips(loop) is None), *calls]

    def host(self, sizes: Sizes, extents: Extents) -> HostSteps:
        """Return the steps between launches and trips."""
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
        """Return the facts about every call's tasks."""
        calls = calls_of(self.program.parts)
        return {
            call.name: self.library_facts(call, plan.extents)
            if isinstance(call, LibraryTask)
            else self.task_facts(plan.implementation(call), plan.sizes)
            for call in calls
        }

    def placed(self, plan: Plan) -> ArenaPlacement:
        """Return the arena of a plan."""
        units, stacks = plan.units.units, {n: w.stacks for n, w in plan.recursions.items()}
        return self.memory.place(
            plan.sizes,
            plan.extents,
            lambda: timeline(self.uses, plan.schedules, units, plan.unit_assignments),
            stacks,
        )

    @property
    def storages(self) -> StoragePlan:
        """Relax's plan with symbols, whichever policy is used."""
        return self.memory.storages

    @cached_property
    def runs(self) -> tuple[StraightRun, ...]:
        """Return every straight run, with the operators that each operator waits for."""
        begins = {stretch.key: stretch.begin for stretch in self.uses.stretches}
        turns = dict[int, list[int]]()
        for write, before in self.memory.turns:
            turns.setdefault(write, []).extend(before)
        return tuple(
            straight_run(part, self.program, begins[key_of(part)], turns)
            for part in straights(self.program.parts)
        )

    @cached_property
    def overwritable(self) -> Mapping[int, frozenset[int]]:
        """Return for each output, by position, the inputs whose memory a run may write it into."""
        return overwritable(self.program, self.uses, self.direct, self.runs)

    @cached_property
    def written_inputs(self) -> Mapping[int, int | None]:
        """Return the inputs that kernels write into, and the output that each becomes, or None."""
        inputs, values = self.program.inputs, self.program.values
        written = (n for n, name in enumerate(inputs) if self.uses.writes.get(name))
        outputs = {
            values[name].root: n
            for n, name in reversed([*enumerate(self.program.outputs)])
            if is_complete(self.program, name)
        }
        return {at: outputs.get(inputs[at]) for at in written}


def own_cache_bytes(device: Device) -> int:
    """Return the capacity of a worker's largest private cache; 0 if no worker stays."""
    own = [m.capacity_bytes for m in device.levels if not m.shared and m.capacity_bytes]
    return max(own, default=0) if target_of(device).has_resident_workers else 0


def _direct(program: UProgram) -> dict[str, int]:
    """Return the outputs that are complete buffers, which are written in place."""
    direct: dict[str, int] = {}
    for position, name in enumerate(program.outputs):
        root = program.values[program.values[name].root]
        if root.home == "buffer" and is_complete(program, name) and root.name not in direct:
            direct[root.name] = position
    return direct


def is_complete(program: UProgram, name: str) -> bool:
    """Return True if a value is all of the memory that it lies in."""
    value = program.values[name]
    root = program.values[value.root]
    return value.is_at(root) and value.type.bytes == root.type.bytes
