"""What is decided for a program, once, and for one binding of its sizes, before memory is taken."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from explorer.counters import counters
from explorer.devices.model import Device
from explorer.errors import BoundError, ShapeError
from explorer.grinder import OperatorTask, Straight, UProgram
from explorer.ir.compiled_dims import compile_dims
from explorer.ir.decisions import MemoryPlan, Wall
from explorer.ir.dims import Dim, ShapeEnv, Sizes, evaluate_shape
from explorer.ir.types import ITEM_BYTES
from explorer.rammer import Facts, ROperator, Schedule, VDevice, schedule
from explorer.rammer import Options as RammerOptions
from explorer.relax.memory_plan import Buffer, Buffers
from explorer.relax.memory_plan import Options as MemoryOptions
from explorer.relax.memory_plan import plan as arena_plan
from explorer.relax.storages import StoragePlan, plan_storages
from explorer.runtime.allocations import allocations, steps, straights
from explorer.runtime.memory_rows import StorageRows, with_views
from explorer.runtime.planned_wall import planned_wall
from explorer.runtime.timeline import key_of, timeline, uses_of

TaskFacts: TypeAlias = Callable[[OperatorTask, Sizes], tuple[int, float]]  # tasks, us per task


@dataclass(frozen=True, slots=True)
class Plan:
    """The schedules by the first operator of each straight run, the wall, and the arena.

    `direct` are the roots that a run writes right into an output: (root, position of the output).
    """

    program: UProgram
    sizes: Sizes
    schedules: Mapping[str, Schedule]
    wall: Wall
    memory: MemoryPlan
    direct: Mapping[str, int]
    extents: Extents

    def shape(self, name: str) -> tuple[int, ...]:
        """The extents of a value."""
        return self.extents.shape(name)

    def offset_bytes(self, name: str) -> int:
        """Where a value begins in its root's bytes."""
        return self.extents.offset_bytes(name)


@dataclass(frozen=True, slots=True)
class Extents:
    """Every value's shape, bytes and offset under one binding, behind each other in `numbers`."""

    begins: Mapping[str, int]
    numbers: Sequence[int]

    def shape(self, name: str) -> tuple[int, ...]:
        """The extents of a value."""
        begin = self.begins[name]
        rank = self.numbers[begin]
        return tuple(self.numbers[begin + 3 : begin + 3 + rank])

    def bytes(self, name: str) -> int:
        """The bytes that its elements take."""
        return self.numbers[self.begins[name] + 1]

    def offset_bytes(self, name: str) -> int:
        """Where it begins in its root's bytes."""
        return self.numbers[self.begins[name] + 2]


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
        self.program, self.env, self.device = program, env, device
        self.task_facts, self.rammer, self.memory = task_facts, rammer, memory
        self.units = VDevice(rammer.threads or device.units, device.barrier_us, device.launch_us)
        self.uses = uses_of(program)
        self.by_storages = memory.policy == "storages"
        self.direct = {} if self.by_storages and memory.outputs else _direct(program)
        self.runs = tuple(self._run(part) for part in straights(program.parts))
        self._begins, self._numbers = _numbers(program)

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
        memory = self._memory(sizes, schedules, extents)
        return Plan(self.program, sizes, schedules, wall, memory, self.direct, extents)

    def extents(self, sizes: Sizes) -> Extents:
        """Every value's numbers under a binding."""
        for known in self.env.symbols:
            value = sizes.get(known.name)
            if value is not None and known.high is not None and value > known.high:
                raise BoundError(
                    f"{known.name} is {value} and memory is planned for at most {known.high}",
                    where=known.name,
                    expected=f"at most {known.high}",
                    found=value,
                )
        try:
            return Extents(self._begins, self._numbers(sizes))
        except KeyError:
            _name_the_missing(self.program, sizes)
            raise

    @cached_property
    def storages(self) -> StoragePlan:
        """Relax's plan, whichever policy runs."""
        found = allocations(self.program, self.uses, self.direct)
        names = {a.name for a in found}
        walk = steps(self.program, self.uses, names, self.memory.in_place)
        return plan_storages(found, walk, self.env, self.memory)

    @cached_property
    def _storage_rows(self) -> StorageRows:
        return StorageRows(self.storages, self.program)

    @cached_property
    def _buffers(self) -> Buffers:
        """Every root that needs bytes in the arena and is written at all."""
        return Buffers(
            [
                Buffer(
                    name,
                    tuple(self.uses.writes[name]),
                    tuple(self.uses.uses[name]),
                    str(value.type.bytes),
                    value.origin,
                )
                for name, value in self.program.values.items()
                if value.root == name
                and value.home == "buffer"
                and name in self.uses.writes
                and name not in self.direct
            ]
        )

    @cached_property
    def _formulas(self) -> dict[str, str]:
        """The bytes of every view, in words."""
        values = self.program.values.values()
        return {v.name: str(v.type.bytes) for v in values if v.root != v.name}

    def _memory(
        self, sizes: Sizes, schedules: Mapping[str, Schedule], extents: Extents
    ) -> MemoryPlan:
        if self.by_storages:
            made = self._storage_rows.plan(sizes)
        else:
            counts = [extents.bytes(b.name) for b in self._buffers.all]
            order = timeline(self.uses, schedules, self.units.units)
            made = arena_plan(self._buffers, counts, order, self.memory)
        return with_views(made, self.program, extents, self._formulas)

    def _run(self, part: Straight) -> Run:
        """What each operator of a straight run waits for: those that write what it reads, and with
        storages those that used its bytes before it.
        """
        writers: dict[str, int] = {}
        reads = []
        for n, operator in enumerate(part.operators):
            roots = [self.program.values[a].root for a in operator.args]
            reads.append({writers[r] for r in roots if r in writers})
            writers[self.program.values[operator.result].root] = n
        for n, before in self._earlier(part) if self.by_storages else ():
            reads[n] |= before
        return Run(key_of(part), part.operators, tuple(tuple(sorted(r)) for r in reads))

    def _earlier(self, part: Straight) -> list[tuple[int, set[int]]]:
        """For each operator that writes a storage those of its run that used it before."""
        begin = next(s.begin for s in self.uses.stretches if s.key == key_of(part))
        end = begin + len(part.operators)
        return [
            (write - begin, {p - begin for p in before if begin <= p < write})
            for write, before in self._turns
            if begin <= write < end
        ]

    @cached_property
    def _turns(self) -> list[tuple[int, tuple[int, ...]]]:
        """(a position that writes a storage, the positions that use what lay there before)."""
        out = []
        for storage in self.storages.storages:
            before: tuple[int, ...] = ()
            for token in storage.tokens:
                out += [(write, before) for write in self.uses.writes[token.name] if before]
                before = tuple(sorted(set(self.uses.uses[token.name])))
        return out

    def _facts(self, run: Run, sizes: Sizes, extents: Extents) -> Facts:
        operators = []
        stands_for: list[tuple[int, ...]] = []  # an operator without tasks orders nothing itself
        for n, (operator, reads) in enumerate(zip(run.operators, run.reads)):
            tasks, task_us = self.task_facts(operator, sizes)
            if not all(extents.shape(operator.result)):
                tasks = 0  # nothing to write
            waits = sorted({w for r in reads for w in stands_for[r]}) if self.by_storages else reads
            operators.append(
                ROperator(operator.name, tasks, task_us, tuple(waits), operator.origin)
            )
            stands_for.append((n,) if tasks else tuple(waits))
        return Facts(tuple(operators), self.units)


def _numbers(program: UProgram) -> tuple[dict[str, int], Callable[[Sizes], tuple[int, ...]]]:
    """Where each value's numbers begin (rank, bytes, offset in bytes, extents), and all of them."""
    begins: dict[str, int] = {}
    dims: list[Dim] = []
    for name, value in program.values.items():
        begins[name] = len(dims)
        offset = value.offset * ITEM_BYTES[value.type.element]
        dims += [len(value.type.dims), value.type.bytes, offset, *value.type.dims]
    return begins, compile_dims(dims)


def _name_the_missing(program: UProgram, sizes: Sizes) -> None:
    for value in program.values.values():
        try:
            evaluate_shape(value.type.dims, sizes)
        except KeyError as missing:
            raise ShapeError(
                f"the shape of {value.name} depends on {missing}, which no input's shape tells",
                where=value.name,
            ) from None


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
