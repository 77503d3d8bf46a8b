"""Rows of straight runs: kernel tasks as scheduled, and waits for steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from explorer.grinder import OperatorTask, Straight
from explorer.ir.decisions.rprogram import Instruction, RProgram, Wait
from explorer.rammer.linearize import linearize
from explorer.rammer.transform import awaited_steps
from explorer.runtime.binding.launches.addresses import Addresses
from explorer.runtime.binding.launches.launch_code import RunRow
from explorer.runtime.binding.launches.launch_inputs import LaunchInputs
from explorer.runtime.binding.launches.unit_rows import UnitRows
from explorer.runtime.device_program import instructions as isa
from explorer.runtime.planning.timeline import key_of


class LaunchNumbers:
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


class KernelRows:
    """Emitter of straight runs; `tasks` are the operators by the number that rows use."""

    def __init__(
        self, inputs: LaunchInputs, rows: UnitRows, addresses: Addresses, numbers: LaunchNumbers
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
                begin = argument.begin_bytes(self.inputs.sizes)
                self.addresses.follow(name, len(values[name].moves), call, at, begin)
