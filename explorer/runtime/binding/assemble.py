"""From scheduled uTasks to what runs: launches of device rows, and what Python does between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from explorer.codegen.build import KernelCode
from explorer.grinder import (
    BranchTask,
    LibraryTask,
    LoopTask,
    OperatorTask,
    Straight,
    UProgram,
    UTask,
)
from explorer.ir.decisions import RProgram, Wait
from explorer.ir.shapes.dims import Sizes, evaluate_dim
from explorer.ir.types import ITEM_BYTES
from explorer.rammer import Schedule
from explorer.rammer.transform import awaited
from explorer.runtime.device_program import instructions as isa
from explorer.runtime.planning.timeline import key_of
from explorer.runtime.workers.launch import Pointer, Row, rows_of


@dataclass(frozen=True, slots=True)
class RunRow:
    """What a Run row of a unit is: tasks of an operator, in the n-th launch of the wall."""

    operator: OperatorTask
    first: int
    last: int
    program: int


@dataclass(frozen=True, slots=True)
class LaunchCode:
    """Rows for each unit that has tasks: the others need not wake up. `units` are their numbers,
    and each has so many `registers`.

    `operators`, `slots` and `pointers` say what the tables hold that the rows index.
    """

    units: tuple[int, ...]
    rows: tuple[np.ndarray, ...]
    operators: tuple[OperatorTask, ...]
    slots: tuple[str, ...]  # names of values
    pointers: tuple[Pointer, ...]
    runs: tuple[Mapping[int, RunRow], ...]  # for each unit, by row
    registers: int


@dataclass(frozen=True, slots=True)
class HostLoop:
    """A loop whose decisions are made in Python."""

    task: LoopTask
    body: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class HostBranch:
    """A branch whose decision is made in Python."""

    task: BranchTask
    then: tuple[Step, ...]
    orelse: tuple[Step, ...]


Step: TypeAlias = LaunchCode | LibraryTask | HostLoop | HostBranch


def assemble(
    program: UProgram,
    schedules: Mapping[str, Schedule],
    units: int,
    sizes: Sizes,
    codes: Mapping[str, KernelCode],
) -> tuple[Step, ...]:
    """The steps of a run; what stays on the device between two returns to Python is one launch."""
    return _Assembler(program, schedules, units, sizes, codes).steps(program.parts)


class _Assembler:
    def __init__(
        self,
        program: UProgram,
        schedules: Mapping[str, Schedule],
        units: int,
        sizes: Sizes,
        codes: Mapping[str, KernelCode],
    ) -> None:
        self.program, self.schedules, self.units, self.sizes = program, schedules, units, sizes
        self.codes, self.launches = codes, 0
        self.moving = {loop for value in program.values.values() for loop, _ in value.moves}

    def steps(self, parts: Sequence[UTask]) -> tuple[Step, ...]:
        out: list[Step] = []
        group: list[UTask] = []
        for part in parts:
            match part:
                case LibraryTask():
                    out += [*self.launch(group), part]
                    group = []
                case LoopTask(level="host"):
                    out += self.launch(group)
                    group = []
                    out.append(HostLoop(part, self.steps(part.body)))
                case BranchTask(level="host"):
                    out += self.launch(group)
                    group = []
                    out.append(HostBranch(part, self.steps(part.then), self.steps(part.orelse)))
                case _:
                    group.append(part)
        return (*out, *self.launch(group))

    def launch(self, parts: Sequence[UTask]) -> list[LaunchCode]:
        if not parts:
            return []
        writer = _Writer(self)
        writer.parts(parts)
        return [writer.code()]

    def bytes_of(self, name: str) -> int:
        return evaluate_dim(self.program.values[name].type.bytes, self.sizes)


class _Writer:
    """Writes one launch; every unit has the same control rows at different places."""

    def __init__(self, assembler: _Assembler) -> None:
        self.assembler = assembler
        self.rows: list[list[Row]] = [[] for _ in range(assembler.units)]
        self.runs: list[dict[int, RunRow]] = [{} for _ in self.rows]
        self.operators: dict[str, int] = {}
        self.tasks: list[OperatorTask] = []
        self.slots: dict[tuple[str, int], int] = {}  # a value, after so many of its moves
        self.pointers: list[Pointer] = []
        self.waiting: dict[str, list[Pointer]] = {}  # of the loops that are open
        self.registers = self.deepest = 0  # loops that are open, and the most at once
        self.apart = True  # all units have met since the last row that reads or writes memory

    def code(self) -> LaunchCode:
        self.all(isa.END)
        units = tuple(unit for unit, runs in enumerate(self.runs) if runs) or (0,)
        places = {unit: place for place, unit in enumerate(units)}
        rows = tuple(rows_of([_seen_from(row, places) for row in self.rows[u]]) for u in units)
        runs = tuple(self.runs[unit] for unit in units)
        slots = tuple(name for name, _ in self.slots)
        return LaunchCode(
            units, rows, tuple(self.tasks), slots, tuple(self.pointers), runs, self.deepest + 1
        )

    def all(self, op: int, a: int = 0, b: int = 0, c: int = 0) -> list[int]:
        """One row for every unit; where each has it."""
        places = []
        for rows in self.rows:
            places.append(len(rows))
            rows.append((op, a, b, c, 0))
        return places

    def here(self) -> list[int]:
        return [len(rows) for rows in self.rows]

    def aim(self, places: Sequence[int], column: int, targets: Sequence[int]) -> None:
        """Let the rows at these places go to the targets."""
        for rows, place, target in zip(self.rows, places, targets):
            row = list(rows[place])
            row[column] = target
            op, a, b, c, d = row
            rows[place] = (op, a, b, c, d)

    def meet(self) -> None:
        """A barrier, where one is needed."""
        if not self.apart:
            self.all(isa.BARRIER)
            self.apart = True

    def slot(self, name: str) -> int:
        return self.moved(name, len(self.assembler.program.values[name].moves))

    def moved(self, name: str, moves: int) -> int:
        """The slot of a value's address where only its first moves are made."""
        found = self.slots.get((name, moves))
        if found is None:
            found = self.slots[name, moves] = len(self.slots)
            if moves:
                self.point(name, moves, -1, found)
        return found

    def point(self, name: str, moves: int, call: int, at: int, begin: int = 0) -> None:
        """Let an address follow the last of a value's first moves."""
        value = self.assembler.program.values[name]
        loop, step = value.moves[moves - 1]
        source = self.moved(name, moves - 1)
        size = ITEM_BYTES[value.type.element] * evaluate_dim(step, self.assembler.sizes)
        self.waiting[loop].append(Pointer(call, at, source, size, begin))

    def parts(self, parts: Sequence[UTask]) -> None:
        for part in parts:
            match part:
                case Straight():
                    self.straight(self.assembler.schedules[key_of(part)], part)
                case LoopTask():
                    self.loop(part)
                case BranchTask():
                    self.branch(part)
                case LibraryTask():
                    raise AssertionError("a library call is no part of a launch")

    def straight(self, schedule: Schedule, part: Straight) -> None:
        by_name = {operator.name: operator for operator in part.operators}
        for program in schedule.programs:
            self.meet()
            for unit in range(len(self.rows)):
                self.unit(unit, program, by_name)
            self.assembler.launches += 1
            self.apart = False

    def unit(self, unit: int, program: RProgram, by_name: Mapping[str, OperatorTask]) -> None:
        shown = awaited(program.units)[unit]
        step = 0
        for row in program.units[unit]:
            if isinstance(row, Wait):
                self.rows[unit].append((isa.WAIT, row.unit, row.step, 0, 0))
                continue
            step += 1
            operator = by_name[program.calls[row.call]]
            at = len(self.rows[unit])
            self.runs[unit][at] = RunRow(operator, row.first, row.last, self.assembler.launches)
            call = self.call(operator)
            publish = step if step in shown else 0
            self.rows[unit].append((isa.RUN, call, row.first, row.last, publish))

    def call(self, operator: OperatorTask) -> int:
        if operator.name not in self.operators:
            call = self.operators[operator.name] = len(self.tasks)
            self.tasks.append(operator)
            self.arguments(operator, call)
        return self.operators[operator.name]

    def arguments(self, operator: OperatorTask, call: int) -> None:
        """Let the arguments follow the values that move."""
        values, kernel = self.assembler.program.values, operator.call.kernel
        given = dict(zip(kernel.inputs, operator.args, strict=True))
        given |= zip(kernel.outputs, operator.results, strict=True)
        if not any(values[name].moves for name in given.values()):
            return
        for at, argument in enumerate(self.assembler.codes[operator.binding].arguments):
            name = given.get(argument.name, "") if argument.kind == "tensor" else ""
            if name and values[name].moves:
                begin = argument.begin_bytes(self.assembler.sizes)
                self.point(name, len(values[name].moves), call, at, begin)

    def copy(self, target: str, source: str) -> None:
        """Unless they are the same bytes."""
        values = self.assembler.program.values
        if not values[target].is_at(values[source]):
            count = self.assembler.bytes_of(target)
            self.all(isa.COPY, self.slot(target), self.slot(source), count)
            self.apart = False

    def truth(self, name: str) -> None:
        self.all(isa.FILL, self.slot(name), 1, 1)
        self.apart = False

    def branch(self, task: BranchTask) -> None:
        begin = self.decide(task.cond)
        self.arm(task.then, [(row[0], row[1]) for row in task.results])
        over = self.all(isa.JUMP)
        self.aim(begin, 2, self.here())
        self.apart = True
        self.arm(task.orelse, [(row[0], row[2]) for row in task.results])
        self.aim(over, 1, self.here())

    def arm(self, parts: Sequence[UTask], results: Sequence[tuple[str, str]]) -> None:
        self.parts(parts)
        self.meet()
        for result, value in results:
            self.copy(result, value)
        self.meet()

    def loop(self, task: LoopTask) -> None:
        self.meet()
        self.enter(task)
        self.meet()
        register = self.registers
        self.registers += 1
        self.deepest = max(self.deepest, self.registers)
        self.all(isa.LET, register, 0)
        exits: list[tuple[list[int], int]] = []
        if task.cond and not task.checked:
            exits.append((self.decide(task.cond), 2))
        top = self.here()
        if task.trip:
            exits.append((self.all(isa.LOOP, register, self.slot(task.trip)), 3))
        points = self.all(isa.POINT, 0, 0, register) if self.is_moving(task) else []
        self.waiting[task.name] = []
        self.all(isa.STORE, self.slot(task.iteration), register)
        self.apart = False
        if task.checked:
            exits.append((self.decide(task.going), 2))
        self.meet()
        self.parts(task.body)
        self.carry(task)
        self.aim(points, 1, [len(self.pointers)] * len(points))
        self.pointers += self.waiting.pop(task.name)
        self.aim(points, 2, [len(self.pointers)] * len(points))
        root = self.assembler.program.root
        if any(root(c.result) == root(task.iteration) for c in task.carried):
            self.meet()  # before unit 0 counts on
        self.all(isa.NEXT, register)
        self.aim(self.all(isa.JUMP), 1, top)
        for places, column in exits:
            self.aim(places, column, self.here())
        self.registers -= 1
        self.apart = False

    def is_moving(self, task: LoopTask) -> bool:
        """Whether a value moves with a loop."""
        return task.name in self.assembler.moving

    def enter(self, task: LoopTask) -> None:
        """The values that are carried, as they are before the first trip."""
        for c in task.carried:
            if c.initial:
                self.copy(c.param, c.initial)
            else:
                self.truth(c.param)
        if not task.checked:
            self.truth(task.going)

    def carry(self, task: LoopTask) -> None:
        """The rows, and the carried values, from one trip to the next; all are read before one is
        written.
        """
        self.meet()
        for s in task.stacked:
            self.copy(s.row, s.value)
        for c in task.carried:
            if c.staging:
                self.copy(c.staging, c.result)
        self.meet()
        for c in task.carried:
            self.copy(c.param, c.staging or c.result)

    def decide(self, name: str) -> list[int]:
        """All units look at a scalar, and go elsewhere where it is zero; where they do."""
        self.meet()
        register = self.registers  # one that no open loop has
        self.all(isa.LOOK, register, self.slot(name), self.width(name))
        self.all(isa.BARRIER)
        self.apart = True
        return self.all(isa.BRANCH, register)

    def width(self, name: str) -> int:
        """How many bytes a scalar has that is looked at."""
        return 1 if self.assembler.program.values[name].type.element == "bool" else 8


def _seen_from(row: Row, places: Mapping[int, int]) -> Row:
    """A row with the awaited unit's place among those that take part."""
    op, a, b, c, d = row
    return (op, places[a], b, c, d) if op == isa.WAIT else row
