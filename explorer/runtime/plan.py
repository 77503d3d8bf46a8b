"""Everything that is decided for one binding of the sizes, before any memory is taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from explorer.counters import counters
from explorer.devices.model import Device
from explorer.errors import ShapeError
from explorer.grinder import BranchTask, LoopTask, OperatorTask, Straight, UProgram, UTask
from explorer.ir.decisions import BufferPlacement, MemoryPlan, Wall
from explorer.ir.dims import Sizes, evaluate_dim, evaluate_shape
from explorer.ir.types import ITEM_BYTES
from explorer.rammer import Facts, ROperator, Schedule, VDevice, schedule
from explorer.rammer import Options as RammerOptions
from explorer.relax.memory_plan import Buffer, plan
from explorer.relax.memory_plan import Options as MemoryOptions
from explorer.runtime.planned_wall import planned_wall
from explorer.runtime.timeline import Uses, key_of, uses_of

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

    def shape(self, name: str) -> tuple[int, ...]:
        """The extents of a value."""
        return evaluate_shape(self.program.values[name].type.dims, self.sizes)

    def offset_bytes(self, name: str) -> int:
        """Where a value begins in its root's bytes."""
        value = self.program.values[name]
        return evaluate_dim(value.offset, self.sizes) * ITEM_BYTES[value.type.element]


def make_plan(
    program: UProgram,
    sizes: Sizes,
    device: Device,
    task_facts: TaskFacts,
    rammer: RammerOptions,
    memory: MemoryOptions,
) -> Plan:
    """The plan of one binding; BadPolicy and ShapeError where there is none."""
    counters.add("walls_planned")
    _check_symbols(program, sizes)
    units = VDevice(rammer.threads or device.units, device.barrier_us, device.launch_us)
    schedules = {
        key_of(part): schedule(_facts(part, program, sizes, units, task_facts), rammer, device.name)
        for part in straights(program.parts)
    }
    wall = planned_wall(program.parts, schedules, units, rammer.policy_name, device.name)
    direct = _direct(program)
    uses = uses_of(program, schedules, units.units)
    arena = plan(_buffers(program, sizes, uses, direct), uses.timeline, memory)
    return Plan(program, sizes, schedules, wall, _with_views(arena, program, sizes), direct)


def straights(parts: Sequence[UTask]) -> Iterator[Straight]:
    """Every run of kernels, in order, the ones inside loops and branches included."""
    for part in parts:
        match part:
            case Straight():
                yield part
            case LoopTask(body=body):
                yield from straights(body)
            case BranchTask(then=then, orelse=orelse):
                yield from straights((*then, *orelse))
            case _:
                continue


def _check_symbols(program: UProgram, sizes: Sizes) -> None:
    for value in program.values.values():
        try:
            evaluate_shape(value.type.dims, sizes)
        except KeyError as missing:
            raise ShapeError(
                f"the shape of {value.name} depends on {missing}, which no input's shape tells",
                where=value.name,
            ) from None


def _facts(
    part: Straight, program: UProgram, sizes: Sizes, units: VDevice, task_facts: TaskFacts
) -> Facts:
    writers: dict[str, int] = {}
    operators = []
    for n, operator in enumerate(part.operators):
        roots = [program.values[a].root for a in operator.args]
        reads = tuple(sorted({writers[r] for r in roots if r in writers}))
        tasks, task_us = task_facts(operator, sizes)
        result = program.values[operator.result]
        if not all(evaluate_shape(result.type.dims, sizes)):
            tasks = 0  # nothing to write
        operators.append(ROperator(operator.name, tasks, task_us, reads, operator.origin))
        writers[result.root] = n
    return Facts(tuple(operators), units)


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


def _buffers(
    program: UProgram, sizes: Sizes, uses: Uses, direct: Mapping[str, int]
) -> list[Buffer]:
    """Every root that needs bytes in the arena and is written at all."""
    return [
        Buffer(
            name,
            evaluate_dim(value.type.bytes, sizes),
            tuple(uses.writes[name]),
            tuple(uses.uses[name]),
            str(value.type.bytes),
            value.origin,
        )
        for name, value in program.values.items()
        if value.root == name
        and value.home == "buffer"
        and name in uses.writes
        and name not in direct
    ]


def _with_views(memory: MemoryPlan, program: UProgram, sizes: Sizes) -> MemoryPlan:
    """The plan with a row for each view, after the row of its root."""
    views: dict[str, list[BufferPlacement]] = {}
    rows = {row.name: row for row in memory.buffers}
    for name, value in program.values.items():
        root = rows.get(value.root)
        if root is None or value.root == name:
            continue
        at = root.offset + evaluate_dim(value.offset, sizes) * ITEM_BYTES[value.type.element]
        count = evaluate_dim(value.type.bytes, sizes)
        text = str(value.type.bytes)
        row = BufferPlacement(
            name, count, at, root.first, root.last, text, value.root, value.origin
        )
        views.setdefault(value.root, []).append(row)
    out = [r for row in memory.buffers for r in (row, *views.get(row.name, ()))]
    return MemoryPlan(tuple(out), memory.planned_bytes, memory.naive_bytes)
