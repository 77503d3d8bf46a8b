"""The rows of straight runs: tasks of kernels, as the schedules deal them, and waits for steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from explorer.grinder import OperatorTask, Straight
from explorer.ir.decisions.rprogram import Instruction, RProgram, Wait
from explorer.rammer.linearize import linearize
from explorer.rammer.transform import awaited
from explorer.runtime.binding.launches.addresses import Addresses
from explorer.runtime.binding.launches.given import Given
from explorer.runtime.binding.launches.launch_code import RunRow
from explorer.runtime.binding.launches.unit_rows import UnitRows
from explorer.runtime.device_program import instructions as isa
from explorer.runtime.planning.timeline import key_of


class LaunchNumbers:
    """Numbers of the wall's launches; a straight run that is written again has the same."""

    def __init__(self) -> None:
        self._first: dict[str, int] = {}
        self._count = 0

    def first(self, key: str, launches: int) -> int:
        """The first of a straight run's."""
        if key not in self._first:
            self._first[key] = self._count
            self._count += launches
        return self._first[key]


class KernelRows:
    """Writes straight runs; `tasks` are the operators, by the number that rows call them."""

    def __init__(
        self, given: Given, rows: UnitRows, addresses: Addresses, numbers: LaunchNumbers
    ) -> None:
        self.given, self.rows, self.addresses, self.numbers = given, rows, addresses, numbers
        self.runs: list[dict[int, RunRow]] = [{} for _ in rows.by_unit]
        self.tasks: list[OperatorTask] = []
        self._calls: dict[str, int] = {}

    def straight(self, part: Straight) -> None:
        """One launch of the wall after the other, with a barrier between."""
        rows, schedule = self.rows, self.given.schedules[key_of(part)]
        by_name = {operator.name: operator for operator in part.operators}
        first = self.numbers.first(key_of(part), len(schedule.programs))
        for number, program in enumerate(schedule.programs, first):
            rows.meet()
            shown = None if rows.alone else awaited(program.units)
            for unit in rows.taking:
                mine: Sequence[Instruction] = (
                    program.units[unit] if rows.together else linearize(program)
                )
                steps = shown[unit] if shown else set[int]()
                self._unit(unit, mine, program, by_name, number, steps)
            rows.apart = False

    def _unit(
        self,
        unit: int,
        instructions: Sequence[Instruction],
        program: RProgram,
        by_name: Mapping[str, OperatorTask],
        number: int,
        shown: set[int],
    ) -> None:
        """Rows of a unit; it shows the steps that others wait for."""
        rows, step = self.rows.by_unit[unit], 0
        for given in instructions:
            if isinstance(given, Wait):
                rows.append((isa.WAIT, given.unit, given.step, 0, 0))
                continue
            step += 1
            operator = by_name[program.calls[given.call]]
            operator = operator.implementation(program.kernel(given.call))
            self.runs[unit][len(rows)] = RunRow(operator, given.first, given.last, number)
            publish = step if step in shown else 0
            rows.append((isa.RUN, self._call(operator), given.first, given.last, publish))

    def _call(self, operator: OperatorTask) -> int:
        if operator.name not in self._calls:
            call = self._calls[operator.name] = len(self.tasks)
            self.tasks.append(operator)
            self._arguments(operator, call)
        return self._calls[operator.name]

    def _arguments(self, operator: OperatorTask, call: int) -> None:
        """Let the arguments follow the values that move."""
        values, kernel = self.given.program.values, operator.call.kernel
        given = dict(zip(kernel.inputs, operator.args, strict=True))
        given |= zip(kernel.outputs, operator.results, strict=True)
        frame = self.given.frame
        moving = {name for name in given.values() if values[name].moves or frame(name)}
        if not moving:
            return
        for at, argument in enumerate(self.given.codes[operator.binding].arguments):
            name = given.get(argument.name, "") if argument.kind == "tensor" else ""
            if name in moving:
                begin = argument.begin_bytes(self.given.sizes)
                self.addresses.follow(name, len(values[name].moves), call, at, begin)
