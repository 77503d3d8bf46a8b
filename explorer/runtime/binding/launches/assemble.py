"""Steps of a run: launches as long as possible, and the steps of Python between them."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.grinder import (
    BranchTask,
    CallTask,
    LibraryTask,
    LoopTask,
    RecursionTask,
    Straight,
    UTask,
)
from explorer.grinder.independent_calls import concurrent_groups
from explorer.runtime.binding.launches.addresses import Addresses
from explorer.runtime.binding.launches.call_rows import CallRows
from explorer.runtime.binding.launches.control_rows import ControlRows
from explorer.runtime.binding.launches.kernel_rows import KernelRows, LaunchNumbers
from explorer.runtime.binding.launches.launch_code import HostBranch, HostLoop, LaunchCode, Step
from explorer.runtime.binding.launches.launch_inputs import LaunchInputs
from explorer.runtime.binding.launches.unit_rows import UnitRows
from explorer.runtime.device_program import instructions as isa
from explorer.runtime.workers.launch import rows_of


def assemble(inputs: LaunchInputs) -> tuple[Step, ...]:
    """Return the steps of a run; one launch covers all work between two returns to Python."""
    return _Assembler(inputs).steps(inputs.program.parts)


class _Assembler:
    """Partition of the uTasks into launches and steps of Python."""

    def __init__(self, inputs: LaunchInputs) -> None:
        self.inputs, self.numbers = inputs, LaunchNumbers()

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

    def __init__(self, inputs: LaunchInputs, numbers: LaunchNumbers) -> None:
        self.inputs, self.rows = inputs, UnitRows(inputs.units)
        self.addresses = Addresses(inputs, self.rows)
        self.kernels = KernelRows(inputs, self.rows, self.addresses, numbers)
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
            tuple(rows_of(rows.rows_for(unit, places)) for unit in units),
            tuple(self.kernels.tasks),
            tuple(name for name, _ in self.addresses.slots),
            tuple(self.addresses.pointers),
            tuple(runs[unit] for unit in units),
            self.addresses.deepest + 1,
            self.calls.words,
            tuple(self.calls.recursions),
            rows.marks_of(units),
        )
