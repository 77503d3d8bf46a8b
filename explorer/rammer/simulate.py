"""An rProgram on any device, by discrete events: when each brick would run, and why units idle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from explorer.ir.decisions import Brick, Gap, RProgram, Run, Wait, Wall
from explorer.rammer.model import ROperator, VDevice


@dataclass(slots=True)
class _Unit:
    """One unit's progress through its instructions."""

    now: float
    row: int = 0
    awaited_us: float = 0.0  # the latest end of a brick that was waited for since the last Run
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
    """The wall of these launches in turn; every moment of a unit is a brick or a gap."""
    by_name = {operator.name: operator for operator in operators}
    bricks: list[Brick] = []
    gaps: list[Gap] = []
    cuts: list[float] = []
    now = 0.0
    for number, program in enumerate(programs):
        if number:
            cuts.append(now)
        begin = now + device.launch_us
        if device.launch_us > 0.0:
            gaps.extend(Gap(unit, now, begin, "launch") for unit in range(device.units))
        now = _Launch(program, by_name, device, number, begin, bricks, gaps).run()
    return Wall(kind, tuple(bricks), tuple(gaps), device.units, now, policy, name, tuple(cuts))


class _Launch:
    """One rProgram in progress."""

    def __init__(
        self,
        program: RProgram,
        operators: dict[str, ROperator],
        device: VDevice,
        number: int,
        begin: float,
        bricks: list[Brick],
        gaps: list[Gap],
    ) -> None:
        self.program, self.operators, self.device, self.number = program, operators, device, number
        self.bricks, self.gaps = bricks, gaps
        self.units = [_Unit(begin) for _ in program.units]

    def run(self) -> float:
        """Let each unit go as far as it can, in turn, until all have ended; when that is."""
        moved = True
        while moved:
            moved = any([self._go(number) for number in range(len(self.units))])
        stuck = [n for n, u in enumerate(self.units) if u.row < len(self.program.units[n])]
        assert not stuck, f"units {stuck} wait for steps that never come"
        end = max(unit.now for unit in self.units)
        self._tails(end)
        return end

    def _go(self, number: int) -> bool:
        unit, rows = self.units[number], self.program.units[number]
        before = unit.row
        while unit.row < len(rows):
            row = rows[unit.row]
            if isinstance(row, Wait):
                other = self.units[row.unit]
                if len(other.ends) < row.step:
                    break
                ended = other.ends[row.step - 1]
                if ended > unit.awaited_us:
                    unit.awaited_us, unit.awaited = ended, other.calls[row.step - 1]
            else:
                self._brick(number, unit, row)
            unit.row += 1
        return unit.row > before

    def _brick(self, number: int, unit: _Unit, run: Run) -> None:
        operator = self.operators[self.program.calls[run.call]]
        if not unit.last:
            self._hear(number, unit)
        start = unit.now
        if unit.awaited_us:
            start = max(start, unit.awaited_us + self.device.barrier_us)
            self.gaps.extend(
                wait_gaps(number, unit.now, unit.awaited_us, start, unit.last == unit.awaited)
            )
        end = start + (run.last - run.first) * operator.task_us
        self.bricks.append(
            Brick(
                number, start, end, operator.name, run.first, run.last, operator.origin, self.number
            )
        )
        unit.now, unit.awaited_us, unit.last = end, 0.0, operator.name
        unit.ends.append(end)
        unit.calls.append(operator.name)

    def _hear(self, number: int, unit: _Unit) -> None:
        """Before its first brick a unit must have heard of the launch."""
        wait = self.device.first_starts[number]
        if wait > 0.0:
            self.gaps.append(Gap(number, unit.now, unit.now + wait, "launch"))
            unit.now += wait

    def _tails(self, end: float) -> None:
        final = {unit.last for unit in self.units if unit.now == end}
        for number, unit in enumerate(self.units):
            if unit.now < end:
                cause = "imbalance" if unit.last in final else "tail"
                self.gaps.append(Gap(number, unit.now, end, cause))


def wait_gaps(unit: int, free: float, ended: float, start: float, same: bool) -> list[Gap]:
    """The idle time before a brick: until the awaited brick had ended, and from then to the start.

    `same`: the unit waited for other tasks of the operator that it had just run itself.
    """
    middle = min(max(free, ended), start)
    gaps = []
    if middle > free:
        gaps.append(Gap(unit, free, middle, "imbalance" if same else "dependency"))
    if start > middle:
        gaps.append(Gap(unit, middle, start, "barrier"))
    return gaps
