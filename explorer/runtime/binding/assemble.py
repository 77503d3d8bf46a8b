"""From scheduled uTasks to what runs: launches of device rows, and what Python does between."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from explorer.codegen.build import KernelCode
from explorer.grinder import (
    BranchTask,
    CallTask,
    LibraryTask,
    LoopTask,
    OperatorTask,
    RecursionTask,
    Straight,
    UProgram,
    UTask,
)
from explorer.grinder.siblings import groups
from explorer.ir.decisions.rprogram import Instruction, RProgram, Wait
from explorer.ir.shapes.dims import Sizes, evaluate_dim
from explorer.ir.types import ITEM_BYTES
from explorer.rammer import Schedule
from explorer.rammer.one_order import one_order
from explorer.rammer.transform import awaited
from explorer.runtime.binding.call_rows import CallRows
from explorer.runtime.device_program import instructions as isa
from explorer.runtime.planning.stacks import Frames
from explorer.runtime.planning.timeline import key_of
from explorer.runtime.workers.launch import Pointer, Row, rows_of

FIRST_FRAME, NEXT_FRAME, OWN_FRAME = -1, -2, -3  # in the place of a count of moves


@dataclass(frozen=True, slots=True)
class RunRow:
    """What a Run row of a unit is: tasks of an operator, in the n-th launch of the wall."""

    operator: OperatorTask
    first: int
    last: int
    program: int


@dataclass(frozen=True, slots=True)
class Mark:
    """What a row of control flow decides, of the loop, branch or recursion that `binding` binds:
    "enter" and "trip" (of so many `trips` at once), "branch", or "call", whose register is `least`
    where no other is open. `own`: it is a decision of one unit.
    """

    kind: str
    binding: str
    trips: int = 1
    least: int = 0
    own: bool = False


@dataclass(frozen=True, slots=True)
class LaunchCode:
    """Rows for each unit that has tasks: the others need not wake up. `units` are their numbers,
    and each has so many `registers`, and a stack of so many words.

    `operators`, `slots` and `pointers` say what the tables hold that the rows index; fault n + 1 of
    a row is that of `recursions[n]`; `marks` are what the rows of the first units decide: the first
    one's all, of others what each decides for itself.
    """

    units: tuple[int, ...]
    rows: tuple[np.ndarray, ...]
    operators: tuple[OperatorTask, ...]
    slots: tuple[str, ...]  # names of values
    pointers: tuple[Pointer, ...]
    runs: tuple[Mapping[int, RunRow], ...]  # for each unit, by row
    registers: int
    stack: int
    recursions: tuple[tuple[str, int], ...]  # functions, and how deep their calls may nest
    marks: tuple[Mapping[int, Mark], ...]


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
    frames: Mapping[str, Frames],
    alone: Collection[str] = (),
) -> tuple[Step, ...]:
    """The steps of a run; what stays on the device between two returns to Python is one launch.
    `frames` are those of each recursion, with a stack for each unit that makes calls of its own;
    the first unit does those that are `alone`.
    """
    assembler = _Assembler(program, schedules, units, sizes, codes, frames, alone)
    return assembler.steps(program.parts)


class _Assembler:
    def __init__(
        self,
        program: UProgram,
        schedules: Mapping[str, Schedule],
        units: int,
        sizes: Sizes,
        codes: Mapping[str, KernelCode],
        frames: Mapping[str, Frames],
        alone: Collection[str],
    ) -> None:
        self.program, self.schedules, self.units, self.sizes = program, schedules, units, sizes
        self.codes, self.frames, self.launches = codes, frames, 0
        self.numbers: dict[str, int] = {}  # of each straight run's first launch of the wall
        self.alone = alone
        self.moving = {loop for value in program.values.values() for loop, _ in value.moves}
        self.moving |= {*frames}

    def steps(self, parts: Sequence[UTask]) -> tuple[Step, ...]:
        out: list[Step] = []
        group: list[UTask] = []
        for part in parts:
            match part:
                case LibraryTask():
                    out += [*self.launch(group), part]
                    group = []
                case Straight() if self.program.apart:
                    out += [*self.launch(group), *self.launch([part])]
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

    def frame(self, name: str) -> str:
        """The recursion in whose frames a value lies, or ""."""
        return self.program.root(name).frame

    def bytes_of(self, name: str) -> int:
        return evaluate_dim(self.program.values[name].type.bytes, self.sizes)


class _Writer:
    """Writes one launch; every unit has the same control rows at different places."""

    def __init__(self, assembler: _Assembler) -> None:
        self.assembler = assembler
        self.rows: list[list[Row]] = [[] for _ in range(assembler.units)]
        self.runs: list[dict[int, RunRow]] = [{} for _ in self.rows]
        self.marks: list[dict[int, Mark]] = [{} for _ in self.rows]
        self.operators: dict[str, int] = {}
        self.tasks: list[OperatorTask] = []
        self.slots: dict[tuple[str, int], int] = {}  # a value, after so many of its moves
        self.pointers: list[Pointer] = []
        self.waiting: dict[str, list[Pointer]] = {}  # of the loops and recursions that are open
        self.points: dict[
            str, list[tuple[range, list[int]]]
        ] = {}  # the rows that set their pointers
        self.known: dict[str, list[Pointer]] = {}  # of those that were written before
        self.numbers: dict[str, int] = {}  # their registers
        self.registers = self.deepest = 0  # how many are open, and the most at once
        self.calls = CallRows(self)
        self.apart = True  # all units have met since the last row that reads or writes memory
        self.taking = range(assembler.units)  # the units that do what follows
        self.least = 0  # the register of an outermost call
        self.decides: set[int] = set()  # units that did something for themselves

    def code(self) -> LaunchCode:
        self.all(isa.END)
        at_work = {unit for unit, runs in enumerate(self.runs) if runs} | self.decides
        units = tuple(sorted(at_work)) or (0,)
        places = {unit: place for place, unit in enumerate(units)}
        rows = tuple(rows_of([_seen_from(row, places) for row in self.rows[u]]) for u in units)
        runs = tuple(self.runs[unit] for unit in units)
        slots = tuple(name for name, _ in self.slots)
        return LaunchCode(
            units,
            rows,
            tuple(self.tasks),
            slots,
            tuple(self.pointers),
            runs,
            self.deepest + 1,
            self.calls.words,
            tuple(self.calls.recursions),
            (self.marks[units[0]], *self.own_marks(units)),
        )

    def own_marks(self, units: Sequence[int]) -> list[Mapping[int, Mark]]:
        """What units but the first decide for themselves, up to the last of those that do so."""
        found = [{n: m for n, m in self.marks[u].items() if m.own} for u in units[1:]]
        while found and not found[-1]:
            found.pop()
        return list(found)

    @property
    def alone(self) -> bool:
        """Whether one unit does what follows."""
        return len(self.taking) == 1

    def take(self, units: range) -> range:
        """Let these units do what follows; those that did before."""
        before, self.taking = self.taking, units
        if len(units) < len(self.rows):
            self.decides |= {*units}
        return before

    def all(self, op: int, a: int = 0, b: int = 0, c: int = 0, d: int = 0) -> list[int]:
        """One row for every unit that takes part; where each has it."""
        places = []
        for unit in self.taking:
            places.append(len(self.rows[unit]))
            self.rows[unit].append((op, a, b, c, d))
        return places

    def mark(self, places: Sequence[int], kind: str, binding: str, trips: int = 1) -> None:
        """Say what the rows at these places decide."""
        own = len(self.taking) < len(self.rows)
        least = self.least if kind == "call" else 0
        for unit, place in zip(self.taking, places, strict=True):
            self.marks[unit][place] = Mark(kind, binding, trips, least, own)

    def here(self) -> list[int]:
        return [len(self.rows[unit]) for unit in self.taking]

    def aim(self, places: Sequence[int], column: int, targets: Sequence[int]) -> None:
        """Let the rows at these places go to the targets."""
        for unit, place, target in zip(self.taking, places, targets, strict=True):
            row = list(self.rows[unit][place])
            row[column] = target
            op, a, b, c, d = row
            self.rows[unit][place] = (op, a, b, c, d)

    def meet(self) -> None:
        """A barrier, where one is needed."""
        if not (self.apart or self.alone):
            self.all(isa.BARRIER)
        self.apart = True

    def slot(self, name: str) -> int:
        return self.moved(name, len(self.assembler.program.values[name].moves))

    def next_slot(self, name: str, recursion: str) -> int:
        """The slot of a value's address, in the next frame where it lies in one of a recursion."""
        if self.assembler.frame(name) != recursion:
            return self.slot(name)
        return self.moved(name, NEXT_FRAME)

    def own_slot(self, name: str, recursion: str) -> int:
        """The same in the first frame behind the outermost call's of a unit's own stack."""
        if self.assembler.frame(name) != recursion:
            return self.slot(name)
        return self.moved(name, OWN_FRAME)

    def moved(self, name: str, moves: int) -> int:
        """The slot of a value's address where only its first moves are made."""
        found = self.slots.get((name, moves))
        if found is None:
            found = self.slots[name, moves] = len(self.slots)
            if moves > 0 or (moves != FIRST_FRAME and self.assembler.frame(name)):
                self.follow(name, moves, -1, found)
        return found

    def follow(self, name: str, moves: int, call: int, at: int, begin: int = 0) -> None:
        """Let an address follow the last of a value's first moves, or its frame."""
        value, frame = self.assembler.program.values[name], self.assembler.frame(name)
        apart = 0
        if moves > 0:
            mover, step = value.moves[moves - 1]
            source = self.moved(name, moves - 1)
            size = ITEM_BYTES[value.type.element] * evaluate_dim(step, self.assembler.sizes)
        else:
            mover, source, size = (
                frame,
                self.moved(name, FIRST_FRAME),
                self.assembler.frames[frame].frame_bytes,
            )
            begin += size if moves in (NEXT_FRAME, OWN_FRAME) else 0
            apart = self.depth(frame) * size if moves == OWN_FRAME else 0
        self.waiting[mover].append(Pointer(call, at, source, size, begin, apart))

    def begin(self, name: str) -> int:
        """A loop or a recursion begins; its register."""
        register = self.numbers[name] = self.registers
        self.registers += 1
        self.deepest = max(self.deepest, self.registers)
        self.waiting[name], self.points[name] = self.known.pop(name, []), []
        return register

    def point(self, name: str) -> None:
        """Set what follows a loop or a recursion."""
        if name in self.assembler.moving:
            rows = self.all(isa.POINT, 0, 0, self.numbers[name])
            self.points[name].append((self.taking, rows))

    def inside(self, name: str) -> Sequence[str]:
        """The loops and recursions that began after another one and have not ended, in order."""
        return [n for n, register in self.numbers.items() if register > self.numbers[name]]

    def end(self, name: str) -> None:
        """A loop or a recursion ends: by now all is known that follows it."""
        first = len(self.pointers)
        found = self.known[name] = self.waiting.pop(name)
        self.pointers += found
        before = self.taking
        for units, places in self.points.pop(name):
            self.taking = units
            self.aim(places, 1, [first] * len(places))
            self.aim(places, 2, [len(self.pointers)] * len(places))
        self.taking = before
        del self.numbers[name]
        self.registers -= 1

    def parts(self, parts: Sequence[UTask]) -> None:
        for part, calls in groups(parts):
            match part:
                case Straight():
                    self.straight(self.assembler.schedules[key_of(part)], part)
                case LoopTask():
                    self.loop(part)
                case BranchTask():
                    self.branch(part)
                case RecursionTask():
                    self.calls.recursion(part)
                case CallTask():
                    self.calls.again(part.recursion, calls)
                case LibraryTask():
                    raise AssertionError("a library call is no part of a launch")

    def straight(self, schedule: Schedule, part: Straight) -> None:
        by_name = {operator.name: operator for operator in part.operators}
        known = self.assembler.numbers
        if key_of(part) not in known:
            known[key_of(part)] = self.assembler.launches
            self.assembler.launches += len(schedule.programs)
        for number, program in enumerate(schedule.programs, known[key_of(part)]):
            self.meet()
            for unit in self.taking:
                if len(self.taking) < len(self.rows):
                    rows: Sequence[Instruction] = one_order(program)
                    self.unit(unit, rows, program, by_name, number)
                else:
                    self.unit(unit, program.units[unit], program, by_name, number)
            self.apart = False

    def unit(
        self,
        unit: int,
        rows: Sequence[Instruction],
        program: RProgram,
        by_name: Mapping[str, OperatorTask],
        number: int,
    ) -> None:
        """Rows of a unit; it shows its steps where others take part."""
        shown = set() if self.alone else awaited(program.units)[unit]
        step = 0
        for row in rows:
            if isinstance(row, Wait):
                self.rows[unit].append((isa.WAIT, row.unit, row.step, 0, 0))
                continue
            step += 1
            operator = by_name[program.calls[row.call]].implementation(program.kernel(row.call))
            at = len(self.rows[unit])
            self.runs[unit][at] = RunRow(operator, row.first, row.last, number)
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
        frame = self.assembler.frame
        moving = {name for name in given.values() if values[name].moves or frame(name)}
        if not moving:
            return
        for at, argument in enumerate(self.assembler.codes[operator.binding].arguments):
            name = given.get(argument.name, "") if argument.kind == "tensor" else ""
            if name in moving:
                begin = argument.begin_bytes(self.assembler.sizes)
                self.follow(name, len(values[name].moves), call, at, begin)

    def copy(self, target: str, source: str) -> None:
        """Unless they are the same bytes."""
        values = self.assembler.program.values
        if not values[target].is_at(values[source]):
            self.copy_slots(self.slot(target), self.slot(source), self.bytes_of(target))

    def copy_slots(self, target: int, source: int, count: int) -> None:
        """So many bytes from one slot's address to another's."""
        self.all(isa.COPY, target, source, count, int(self.alone))
        self.apart = False

    def is_alone(self, recursion: str) -> bool:
        """Whether the first unit does a recursion while the others wait for its end."""
        return recursion in self.assembler.alone

    def stacks(self, recursion: str) -> int:
        """How many units make calls of their own; 1 where none does."""
        return self.assembler.frames[recursion].stacks

    def bytes_of(self, name: str) -> int:
        """The bytes that a value's elements take."""
        return self.assembler.bytes_of(name)

    def depth(self, recursion: str) -> int:
        """How many of its calls may be open."""
        return self.assembler.frames[recursion].depth

    def truth(self, name: str) -> None:
        self.all(isa.FILL, self.slot(name), 1, 1, int(self.alone))
        self.apart = False

    def branch(self, task: BranchTask) -> None:
        begin = self.decide(task.cond)
        self.mark(begin, "branch", task.binding)
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
        register = self.begin(task.name)
        if not task.rest:  # else the count goes on
            self.mark(self.all(isa.LET, register, 0), "enter", task.binding)
        exits: list[tuple[list[int], int]] = []
        if task.cond and not task.checked:
            exits.append((self.decide(task.cond), 2))
        top = self.here()
        if task.trip:
            ahead = len(task.later)
            exits.append((self.all(isa.LOOP, register, self.slot(task.trip), 0, ahead), 3))
        self.point(task.name)
        for ahead, count in enumerate(task.counts):
            self.all(isa.STORE, self.slot(count), register, ahead, int(self.alone))
        self.apart = False
        if task.checked:
            exits.append((self.decide(task.going), 2))
        self.meet()
        self.parts(task.body)
        self.carry(task)
        root = self.assembler.program.root
        counts = {root(count).name for count in task.counts}
        if any(root(c.result).name in counts for c in task.carried):
            self.meet()  # before unit 0 counts on
        self.mark(self.all(isa.NEXT, register, len(task.later)), "trip", task.binding, task.turn)
        self.aim(self.all(isa.JUMP), 1, top)
        for places, column in exits:
            self.aim(places, column, self.here())
        self.end(task.name)
        self.apart = False

    def enter(self, task: LoopTask) -> None:
        """The values that are carried, as they are before the first trip."""
        for c in task.carried:
            if c.initial:
                self.copy(c.param, c.initial)
            else:
                self.truth(c.param)
        if not task.checked and not task.rest:
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
        if not self.alone:
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
