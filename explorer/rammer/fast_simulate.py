"""Fast simulation of a placement on hundreds of units, share by share.

It gives the wall that `simulate` computes from instructions, without emitting the waits of each
pair of units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise

from explorer.ir.decisions.wall import Brick, Gap, Wall
from explorer.rammer.model import Facts, Placement, ROperator, Share
from explorer.rammer.placement_checker import PlacementChecker
from explorer.rammer.simulator import wait_gaps
from explorer.rammer.transform import Bricks

MANY_UNITS = 64  # waits grow with its square; a bound on time, chosen


def is_plain(facts: Facts) -> bool:
    """Return True if units wait for complete operands and a task takes the same time everywhere."""
    device = facts.device
    if device.resident or device.step_us:
        return False
    return not any(
        o.kind or o.aligned or (o.constant and device.cache_bytes) for o in facts.operators
    )


def fast_simulate(
    facts: Facts,
    placement: Placement,
    bricks: Bricks,
    kind: str = "simulated",
    policy: str = "",
    name: str = "",
) -> Wall:
    """Return the wall of plain facts, launch by launch.

    Raises:
        BadPolicy: The placement breaks a rule.
    """
    device, placed = facts.device, PlacementChecker(facts)
    laid: list[Brick] = []
    gaps: list[Gap] = []
    cuts: list[float] = []
    now = 0.0
    for number, shares in enumerate(placement.programs):
        if number:
            cuts.append(now)
        begin = now + device.launch_us
        if device.launch_us > 0.0:
            gaps.extend([Gap(unit, now, begin, "launch") for unit in range(device.units)])
        launch = _Launch(facts, bricks, number, begin, laid, gaps)
        for _, group in groupby(shares, key=lambda share: share.operator):
            mine = tuple(group)
            placed.place(mine, shares)
            launch.lay(mine)
        now = launch.end()
    placed.check_all()
    return Wall(kind, tuple(laid), tuple(gaps), device.units, now, policy, name, tuple(cuts))


@dataclass(slots=True)
class _ReadyTimes:
    """The times at which an operator's results are ready: its last unit, its end, and others'."""

    call: str
    unit: int = -1
    latest_us: float = 0.0
    others_us: float = 0.0

    def ends(self, unit: int, us: float) -> None:
        """Record the end of another share."""
        if unit == self.unit:
            self.latest_us = max(self.latest_us, us)
        elif us > self.latest_us:
            self.others_us, self.unit, self.latest_us = self.latest_us, unit, us
        else:
            self.others_us = max(self.others_us, us)


@dataclass(slots=True)
class _Awaited:
    """The wait of an operator: the last brick of its operands, and the last of the other units."""

    unit: int = -1
    latest_us: float = 0.0
    call: str = ""
    others_us: float = 0.0
    other_call: str = ""

    def on(self, unit: int) -> tuple[float, str]:
        """Return when the bricks that this unit waits for have ended, and their call.

        The time is 0 without a wait.
        """
        if unit == self.unit:
            return self.others_us, self.other_call
        return self.latest_us, self.call


@dataclass(slots=True)
class _Launch:
    """One rProgram in progress."""

    facts: Facts
    bricks: Bricks
    number: int
    begin: float
    laid: list[Brick]
    gaps: list[Gap]
    first_starts: list[float] = field(init=False)
    free: list[float] = field(init=False)
    last: list[str] = field(init=False)
    written: dict[int, _ReadyTimes] = field(default_factory=dict)
    awaited: dict[int, _Awaited] = field(default_factory=dict)

    def __post_init__(self) -> None:
        units = self.facts.device.units
        self.first_starts = self.facts.device.first_starts
        self.free, self.last = [self.begin] * units, [""] * units

    def lay(self, shares: Sequence[Share]) -> None:
        """Append the gaps and bricks of adjacent shares of one operator."""
        position = shares[0].operator
        operator, barrier_us = self.facts.operators[position], self.facts.device.barrier_us
        task_us = operator.kernel(shares[0].kernel).task_us
        awaited = self._awaited(position)
        written = self.written.setdefault(position, _ReadyTimes(operator.name))
        for share in shares:
            unit = share.unit
            now = self._launched_us(unit)
            ended, call = awaited.on(unit)
            if call and ended + barrier_us > now:
                start = ended + barrier_us
                self.gaps += wait_gaps(unit, now, ended, start, self.last[unit] == call)
                now = start
            now = self._bricks(share, operator, task_us, now)
            self.free[unit], self.last[unit] = now, operator.name
            written.ends(unit, now)

    def end(self) -> float:
        """Return the end of all units; units that ended earlier get a last gap."""
        end = max(self.free)
        final = {call for call, free in zip(self.last, self.free) if free == end}
        for unit, free in enumerate(self.free):
            if free < end:
                cause = "imbalance" if self.last[unit] in final else "tail"
                self.gaps.append(Gap(unit, free, end, cause))
        return end

    def _launched_us(self, unit: int) -> float:
        """Return when the unit is free; its first brick waits for the launch to reach it."""
        now, wait_us = self.free[unit], self.first_starts[unit]
        if self.last[unit] or wait_us <= 0.0:
            return now
        self.gaps.append(Gap(unit, now, now + wait_us, "launch"))
        return now + wait_us

    def _bricks(self, share: Share, operator: ROperator, task_us: float, start: float) -> float:
        """Append the bricks of a share one after the other; return the end of the last."""
        first, last = share.first, share.last
        cuts = [first, last] if last - first == 1 else self.bricks.cuts(share, task_us)
        for first, last in pairwise(cuts):
            end = start + (last - first) * task_us
            self.laid.append(
                Brick(
                    share.unit, start, end, operator.name, first, last, operator.origin, self.number
                )
            )
            start = end
        return start

    def _awaited(self, position: int) -> _Awaited:
        awaited = self.awaited.get(position)
        if awaited is None:
            awaited = self.awaited[position] = self._reads(position)
        return awaited

    def _reads(self, position: int) -> _Awaited:
        """Return the wait for all operands of an operator that this launch writes."""
        reads = self.facts.operators[position].reads
        operands = [self.written[r] for r in reads if r in self.written]
        if not operands:
            return _Awaited()
        last = max(operands, key=lambda w: w.latest_us)
        others = [
            (w.latest_us if w.unit != last.unit else w.others_us, w.call)
            for w in operands
            if w.unit != last.unit or w.others_us > 0.0
        ]
        others_us, other_call = max(others, default=(0.0, ""), key=lambda o: o[0])
        return _Awaited(last.unit, last.latest_us, last.call, others_us, other_call)
