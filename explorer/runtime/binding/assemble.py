"""Steps of a run: launches as long as possible, and the steps of Python between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from explorer.grinder import (
    BranchTask,
    CallTask,
    LibraryTask,
    LoopTask,
    OperatorTask,
    RecursionTask,
    Straight,
    UTask,
)
from explorer.grinder.independent import concurrent_groups
from explorer.grinder.model import key_of
from explorer.ir.decisions.wall import Instruction, RProgram, Wait
from explorer.rammer.transform import awaited_steps, linearize
from explorer.runtime.binding.control_rows import CallRows, ControlRows
from explorer.runtime.binding.launch_code import (
    HostBranch,
    HostLoop,
    LaunchCode,
    LaunchInputs,
    RunRow,
    Step,
)
from explorer.runtime.binding.unit_rows import Addresses, UnitRows
from explorer.runtime.device_program import instructions as isa


def assemble(inputs: LaunchInputs) -> tuple[Step, ...]:
    """Return the steps of a run; one launch covers all work between two returns to Python."""
    return _Assembler(inputs).steps(inputs.program.parts)


class _Assembler:
    """Partition of the uTasks into launches and steps of Python."""

    def __init__(self, inputs: LaunchInputs) -> None:
        self.inputs, self.numbers = inputs, _LaunchNumbers()

    def steps(self, parts: Sequence[UTask]) -> tuple[Step, ...]:
        out: list[Step] = []
        group: list[UTask] = []
        for part in parts:
            match part:
                case LibraryTask():
                    out += [*self.launch(group), part]
                    group = []
                case Straight() if self.inputs.program.apart:
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
        writer = _LaunchEmitter(self.inputs, self.numbers)
        writer.parts(parts)
        return [writer.code()]


class _LaunchEmitter:
    """Emitter of one launch."""

    def __init__(self, inputs: LaunchInputs, numbers: _LaunchNumbers) -> None:
        self.inputs, self.rows = inputs, UnitRows(inputs.units)
        self.addresses = Addresses(inputs, self.rows)
        self.kernels = _KernelRows(inputs, self.rows, self.addresses, numbers)
        self.control = ControlRows(inputs, self.rows, self.addresses, self.parts)
        self.calls = CallRows(inputs, self.rows, self.addresses, self.parts)

    def parts(self, parts: Sequence[UTask]) -> None:
        for group in concurrent_groups(parts):
            first, units = group[0], self.inputs.assigned_units(group)
            if isinstance(first, CallTask):
                calls = [part for part in group if isinstance(part, CallTask)]
                self.calls.recursive_calls(first.recursion, calls)
            elif units and not self.rows.alone:
                self.assigned(group, units)
            else:
                for part in group:
                    self.part(part)

    def part(self, part: UTask) -> None:
        match part:
            case Straight():
                self.kernels.straight(part)
            case LoopTask():
                self.control.loop(part)
            case BranchTask():
                self.control.branch(part)
            case RecursionTask():
                self.calls.recursion(part)
            case LibraryTask() | CallTask():
                raise AssertionError(f"{part.name} is no part of a launch by itself")

    def assigned(self, group: Sequence[UTask], units: Sequence[int]) -> None:
        """Run each member on its own unit; a barrier follows."""
        self.rows.barrier()
        every = self.rows.participants
        for unit in sorted({*units}):
            self.rows.take(range(unit, unit + 1))
            self.rows.synchronised = True
            for part, own in zip(group, units, strict=True):
                if own == unit:
                    self.part(part)
        self.rows.take(every)
        self.rows.synchronised = False

    def code(self) -> LaunchCode:
        rows, runs = self.rows, self.kernels.runs
        rows.emit(isa.END)
        at_work = {unit for unit, own in enumerate(runs) if own} | rows.deciders
        units = tuple(sorted(at_work)) or (0,)
        places = {unit: place for place, unit in enumerate(units)}
        return LaunchCode(
            units,
            tuple(self.inputs.table(rows.rows_for(unit, places)) for unit in units),
            tuple(self.kernels.tasks),
            tuple(name for name, _ in self.addresses.slots),
            tuple(self.addresses.pointers),
            tuple(runs[unit] for unit in units),
            self.addresses.deepest + 1,
            self.calls.words,
            tuple(self.calls.recursions),
            rows.marks_of(units),
        )


class _LaunchNumbers:
    """Numbers of the wall's launches; a straight run that is emitted again has the same number."""

    def __init__(self) -> None:
        """Start at 0."""
        self._first: dict[str, int] = {}
        self._count = 0

    def first(self, key: str, launches: int) -> int:
        """Return the number of a straight run's first launch."""
        if key not in self._first:
            self._first[key] = self._count
            self._count += launches
        return self._first[key]


class _KernelRows:
    """Emitter of straight runs; `tasks` are the operators by the number that rows use."""

    def __init__(
        self, inputs: LaunchInputs, rows: UnitRows, addresses: Addresses, numbers: _LaunchNumbers
    ) -> None:
        """Create an emitter to these rows."""
        self.inputs, self.rows, self.addresses, self.numbers = inputs, rows, addresses, numbers
        self.runs: list[dict[int, RunRow]] = [{} for _ in rows.by_unit]
        self.tasks: list[OperatorTask] = []
        self._calls: dict[str, int] = {}

    def straight(self, part: Straight) -> None:
        """Emit the launches of the wall one after the other, separated by barriers."""
        rows, schedule = self.rows, self.inputs.schedules[key_of(part)]
        by_name = {operator.name: operator for operator in part.operators}
        first = self.numbers.first(key_of(part), len(schedule.programs))
        for number, program in enumerate(schedule.programs, first):
            rows.barrier()
            published = None if rows.alone else awaited_steps(program.units)
            for unit in rows.participants:
                mine: Sequence[Instruction] = (
                    program.units[unit] if rows.together else linearize(program)
                )
                steps = published[unit] if published else set[int]()
                self._unit(unit, mine, program, by_name, number, steps)
            rows.synchronised = False

    def _unit(
        self,
        unit: int,
        instructions: Sequence[Instruction],
        program: RProgram,
        by_name: Mapping[str, OperatorTask],
        number: int,
        published: set[int],
    ) -> None:
        """Emit the rows of a unit; it publishes the steps that others wait for."""
        rows, step = self.rows.by_unit[unit], 0
        for instruction in instructions:
            if isinstance(instruction, Wait):
                rows.append((isa.WAIT, instruction.unit, instruction.step, 0, 0))
                continue
            step += 1
            operator = by_name[program.calls[instruction.call]]
            operator = operator.implementation(program.kernel(instruction.call))
            self.runs[unit][len(rows)] = RunRow(
                operator, instruction.first, instruction.last, number
            )
            publish = step if step in published else 0
            rows.append(
                (isa.RUN, self._call(operator), instruction.first, instruction.last, publish)
            )

    def _call(self, operator: OperatorTask) -> int:
        if operator.name not in self._calls:
            call = self._calls[operator.name] = len(self.tasks)
            self.tasks.append(operator)
            self._arguments(operator, call)
        return self._calls[operator.name]

    def _arguments(self, operator: OperatorTask, call: int) -> None:
        """Let the arguments follow the values that move."""
        values, kernel = self.inputs.program.values, operator.call.kernel
        operands = dict(zip(kernel.inputs, operator.args, strict=True))
        operands |= zip(kernel.outputs, operator.results, strict=True)
        frame = self.inputs.frame
        moving = {name for name in operands.values() if values[name].moves or frame(name)}
        if not moving:
            return
        for at, argument in enumerate(self.inputs.codes[operator.binding].arguments):
            name = operands.get(argument.name, "") if argument.kind == "tensor" else ""
            if name in moving:
                begin = self.inputs.number(argument.offset) * argument.item_bytes
                self.addresses.follow(name, len(values[name].moves), call, at, begin)
