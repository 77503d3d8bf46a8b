"""Discrete-event simulation of an rProgram: when each brick would run, and why units idle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from explorer.ir.decisions.wall import Brick, Gap, RProgram, Run, Wait, Wall
from explorer.rammer.cache_model import UnitCache, run_us, unit_caches
from explorer.rammer.model import ROperator, VDevice


@dataclass(slots=True)
class _Unit:
    """The progress of one unit through its instructions."""

    now: float
    row: int = 0
    awaited_us: float = 0.0  # the latest end of a brick awaited since the last Run
    awaited: str = ""  # its call
    last: str = ""  # the call of the last Run
    ends: list[float] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)


def simulate(
    programs: Sequence[RProgram],
    operators: Sequence[ROperator],
    device: VDevice,
    kind: str = "simulated",
    policy: str = "",
    name: str = "",
) -> Wall:
    """Return the wall of these launches in turn; every moment of a unit is a brick or a gap.

    A task whose part of its constant is still in its unit's cache takes `cached_us`; caches keep
    their contents from launch to launch. A library call needs no launch: its time is its cost. The
    caller accounts for the first launch of resident units.
    """
    by_name = {operator.name: operator for operator in operators}
    bricks: list[Brick] = []
    gaps: list[Gap] = []
    cuts: list[float] = []
    caches_of_units = unit_caches(device)
    now = 0.0
    for number, program in enumerate(programs):
        if number:
            cuts.append(now)
        begin = now
        called = [by_name[call] for call in program.calls]
        library = bool(called) and called[0].kind == "library"
        if not library and (number or not device.resident) and device.between_us > 0.0:
            begin += device.between_us
            cause = "barrier" if device.resident else "launch"
            gaps.extend([Gap(unit, now, begin, cause) for unit in range(device.units)])
        launch = _Launch(program, called, device, number, begin, caches_of_units)
        now = launch.run("library" if library else "")
        bricks += launch.bricks
        gaps += launch.gaps
    return Wall(kind, tuple(bricks), tuple(gaps), device.units, now, policy, name, tuple(cuts))


class _Launch:
    """One rProgram in progress."""

    def __init__(
        self,
        program: RProgram,
        operators: Sequence[ROperator],
        device: VDevice,
        number: int,
        begin: float,
        caches: list[UnitCache],
    ) -> None:
        self.program, self.operators, self.device, self.number = program, operators, device, number
        self.kernels = [o.kernel(program.kernel(n)) for n, o in enumerate(operators)]
        self.caches = caches
        self.bricks: list[Brick] = []
        self.gaps: list[Gap] = []
        self.first_starts = device.first_starts
        self.units = [_Unit(begin) for _ in program.units]
        self.parked: dict[tuple[int, int], list[int]] = {}  # units by the step that they wait for
        self.woken: list[int] = []

    def run(self, idle_cause: str) -> float:
        """Advance each unit until it waits, and wake it when its wait is over; return the end.

        `idle_cause` is why units without a brick idle, if that is not the end of the program.
        """
        self.woken = [n for n, rows in reversed(tuple(enumerate(self.program.units))) if rows]
        while self.woken:
            self._go(self.woken.pop())
        stuck = [n for n, u in enumerate(self.units) if u.row < len(self.program.units[n])]
        assert not stuck, f"units {stuck} wait for steps that never come"
        end = max(unit.now for unit in self.units)
        self._tails(end, idle_cause)
        return end

    def _go(self, number: int) -> None:
        unit, rows = self.units[number], self.program.units[number]
        while unit.row < len(rows):
            row = rows[unit.row]
            if isinstance(row, Wait):
                other = self.units[row.unit]
                if len(other.ends) < row.step:
                    self.parked.setdefault((row.unit, row.step), []).append(number)
                    return
                ended = other.ends[row.step - 1]
                if ended > unit.awaited_us:
                    unit.awaited_us, unit.awaited = ended, other.calls[row.step - 1]
            else:
                self._brick(number, unit, row)
                waiting = self.parked.pop((number, len(unit.ends)), None)
                if waiting:
                    self.woken += waiting
            unit.row += 1

    def _brick(self, number: int, unit: _Unit, run: Run) -> None:
        operator = self.operators[run.call]
        if not unit.last and operator.kind != "library":
            self._await_launch(number, unit)
        start = unit.now + (self.device.step_us if unit.last else 0.0)
        if unit.awaited:
            start = max(start, unit.awaited_us + self.device.barrier_us)
        if start > unit.now:
            same = unit.last == unit.awaited
            self.gaps += wait_gaps(number, unit.now, unit.awaited_us, start, same)
        kernel = self.kernels[run.call]
        end = start + run_us(self.caches[number], operator, kernel, run.first, run.last)
        self.bricks.append(
            Brick(
                number, start, end, operator.name, run.first, run.last, operator.origin, self.number
            )
        )
        unit.now, unit.awaited_us, unit.awaited, unit.last = end, 0.0, "", operator.name
        unit.ends.append(end)
        unit.calls.append(operator.name)

    def _await_launch(self, number: int, unit: _Unit) -> None:
        """Let a unit wait for the launch to reach it before its first brick."""
        wait = self.first_starts[number]
        if wait > 0.0:
            self.gaps.append(Gap(number, unit.now, unit.now + wait, "launch"))
            unit.now += wait

    def _tails(self, end: float, idle_cause: str) -> None:
        final = {unit.last for unit in self.units if unit.now == end}
        for number, unit in enumerate(self.units):
            if unit.now < end:
                cause = idle_cause or ("imbalance" if unit.last in final else "tail")
                self.gaps.append(Gap(number, unit.now, end, cause))


def wait_gaps(unit: int, free: float, ended: float, start: float, same: bool) -> list[Gap]:
    """Return the idle time before a brick: until the awaited brick ended, and then to the start.

    `same`: the unit waited for other tasks of the operator that it had just run itself.
    """
    middle = min(max(free, ended), start)
    gaps = []
    if middle > free:
        gaps.append(Gap(unit, free, middle, "imbalance" if same else "dependency"))
    if start > middle:
        gaps.append(Gap(unit, middle, start, "barrier"))
    return gaps
