"""The steps of a run: launches as long as they can be, and what Python does between them."""

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
from explorer.runtime.binding.launches.given import Given
from explorer.runtime.binding.launches.kernel_rows import KernelRows, LaunchNumbers
from explorer.runtime.binding.launches.launch_code import HostBranch, HostLoop, LaunchCode, Step
from explorer.runtime.binding.launches.unit_rows import UnitRows
from explorer.runtime.device_program import instructions as isa
from explorer.runtime.workers.launch import rows_of


def assemble(given: Given) -> tuple[Step, ...]:
    """The steps of a run; what stays on the device between two returns to Python is one launch."""
    return _Assembler(given).steps(given.program.parts)


class _Assembler:
    def __init__(self, given: Given) -> None:
        self.given, self.numbers = given, LaunchNumbers()

    def steps(self, parts: Sequence[UTask]) -> tuple[Step, ...]:
        out: list[Step] = []
        group: list[UTask] = []
        for part in parts:
            match part:
                case LibraryTask():
                    out += [*self.launch(group), part]
                    group = []
                case Straight() if self.given.program.apart:
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
        writer = _Writer(self.given, self.numbers)
        writer.parts(parts)
        return [writer.code()]


class _Writer:
    """Writes one launch."""

    def __init__(self, given: Given, numbers: LaunchNumbers) -> None:
        self.given, self.rows = given, UnitRows(given.units)
        self.addresses = Addresses(given, self.rows)
        self.kernels = KernelRows(given, self.rows, self.addresses, numbers)
        self.control = ControlRows(given, self.rows, self.addresses, self.parts)
        self.calls = CallRows(given, self.rows, self.addresses, self.parts)

    def parts(self, parts: Sequence[UTask]) -> None:
        for group in concurrent_groups(parts):
            first, units = group[0], self.given.dealt_to(group)
            if isinstance(first, CallTask):
                again = [part for part in group if isinstance(part, CallTask)]
                self.calls.again(first.recursion, again)
            elif units and not self.rows.alone:
                self.dealt(group, units)
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

    def dealt(self, group: Sequence[UTask], units: Sequence[int]) -> None:
        """Each member on its own unit; what follows meets."""
        self.rows.meet()
        every = self.rows.taking
        for unit in sorted({*units}):
            self.rows.take(range(unit, unit + 1))
            self.rows.apart = True
            for part, own in zip(group, units, strict=True):
                if own == unit:
                    self.part(part)
        self.rows.take(every)
        self.rows.apart = False

    def code(self) -> LaunchCode:
        rows, runs = self.rows, self.kernels.runs
        rows.all(isa.END)
        at_work = {unit for unit, own in enumerate(runs) if own} | rows.decides
        units = tuple(sorted(at_work)) or (0,)
        places = {unit: place for place, unit in enumerate(units)}
        return LaunchCode(
            units,
            tuple(rows_of(rows.seen_by(unit, places)) for unit in units),
            tuple(self.kernels.tasks),
            tuple(name for name, _ in self.addresses.slots),
            tuple(self.addresses.pointers),
            tuple(runs[unit] for unit in units),
            self.addresses.deepest + 1,
            self.calls.words,
            tuple(self.calls.recursions),
            rows.marks_of(units),
        )
