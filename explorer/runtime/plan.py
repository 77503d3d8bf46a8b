"""Everything that is decided for one binding of the sizes, before any memory is taken."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from explorer.counters import counters
from explorer.devices.model import Device
from explorer.grinder import OperatorTask, Straight, UProgram
from explorer.ir.decisions import MemoryPlan, Wall
from explorer.ir.dims import ShapeEnv, Sizes
from explorer.rammer import Facts, ROperator, Schedule, VDevice, schedule
from explorer.rammer import Options as RammerOptions
from explorer.relax.memory_plan import Options as MemoryOptions
from explorer.relax.storages import StoragePlan
from explorer.runtime.allocations import straights
from explorer.runtime.extents import Extents, ExtentsOf
from explorer.runtime.memory import Memory, Placed
from explorer.runtime.planned_wall import planned_wall
from explorer.runtime.timeline import key_of, timeline, uses_of

TaskFacts: TypeAlias = Callable[[OperatorTask, Sizes], tuple[int, float]]  # tasks, us per task


@dataclass(frozen=True)
class Plan:
    """The schedules by the first operator of each straight run, the wall, and the arena.

    `direct` are the roots that a run writes right into an output: (root, position of the output).
    """

    program: UProgram
    sizes: Sizes
    schedules: Mapping[str, Schedule]
    wall: Wall
    direct: Mapping[str, int]
    extents: Extents
    placed: Placed
    planner: Memory

    def shape(self, name: str) -> tuple[int, ...]:
        """The extents of a value."""
        return self.extents.shape(name)

    def offset_bytes(self, name: str) -> int:
        """Where a value begins in its root's bytes."""
        return self.extents.offset_bytes(name)

    @cached_property
    def memory(self) -> MemoryPlan:
        """The arena, to look at."""
        return self.planner.rows(self.placed, self.sizes, self.extents)


@dataclass(frozen=True, slots=True)
class Run:
    """A straight run as Rammer is told of it, but for the numbers that a binding gives."""

    key: str
    operators: tuple[OperatorTask, ...]
    reads: tuple[tuple[int, ...], ...]


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
    ) -> None:
        self.program, self.device = program, device
        self.task_facts, self.rammer = task_facts, rammer
        self.units = VDevice(rammer.threads or device.units, device.barrier_us, device.launch_us)
        self.uses = uses_of(program)
        copied = memory.policy == "storages" and memory.outputs
        self.direct = {} if copied else _direct(program)
        self.memory = Memory(program, self.uses, env, self.direct, memory)
        self.extents = ExtentsOf(program)

    def plan(self, sizes: Sizes) -> Plan:
        """The plan of one binding; BadPolicy, BoundError and ShapeError where there is none."""
        counters.add("walls_planned")
        extents = self.extents(sizes)
        schedules = {
            run.key: schedule(self._facts(run, sizes, extents), self.rammer, self.device.name)
            for run in self.runs
        }
        parts, policy = self.program.parts, self.rammer.policy_name
        wall = planned_wall(parts, schedules, self.units, policy, self.device.name)
        placed = self.memory.place(
            sizes, extents, lambda: timeline(self.uses, schedules, self.units.units)
        )
        return Plan(self.program, sizes, schedules, wall, self.direct, extents, placed, self.memory)

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
            _run(part, self.program, begins[key_of(part)], turns)
            for part in straights(self.program.parts)
        )

    def _facts(self, run: Run, sizes: Sizes, extents: Extents) -> Facts:
        operators = []
        stands_for: list[tuple[int, ...]] = []  # an operator without tasks orders nothing itself
        for n, (operator, reads) in enumerate(zip(run.operators, run.reads)):
            tasks, task_us = self.task_facts(operator, sizes)
            if not all(extents.shape(operator.result)):
                tasks = 0  # nothing to write
            waits = reads
            if self.memory.by_storages:
                waits = tuple(sorted({w for read in reads for w in stands_for[read]}))
            operators.append(ROperator(operator.name, tasks, task_us, waits, operator.origin))
            stands_for.append((n,) if tasks else waits)
        return Facts(tuple(operators), self.units)


def _run(part: Straight, program: UProgram, begin: int, turns: Mapping[int, list[int]]) -> Run:
    """Each operator waits for those that write what it reads, and for those of its run that used
    the storage that it writes before it.
    """
    writers: dict[str, int] = {}
    reads = []
    for n, operator in enumerate(part.operators):
        roots = [program.values[a].root for a in operator.args]
        waits = {writers[r] for r in roots if r in writers}
        here = begin + n
        waits |= {p - begin for p in turns.get(here, ()) if begin <= p < here}
        reads.append(tuple(sorted(waits)))
        writers[program.values[operator.result].root] = n
    return Run(key_of(part), part.operators, tuple(reads))


def _direct(program: UProgram) -> dict[str, int]:
    """Outputs that are whole buffers of their own are written in place."""
    direct: dict[str, int] = {}
    for position, name in enumerate(program.outputs):
        value = program.values[name]
        root = program.values[value.root]
        whole = value.offset == 0 and value.type.bytes == root.type.bytes
        if root.home == "buffer" and whole and root.name not in direct:
            direct[root.name] = position
    return direct


__all__ = ["Extents", "Plan", "Planner", "TaskFacts", "straights"]
