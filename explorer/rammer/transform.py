"""Instructions of each unit from a placement, without redundant waits, and their one order."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TypeAlias

import numpy as np

from explorer.ir.decisions.wall import Instruction, RProgram, Run, Wait
from explorer.rammer.model import Facts, Placement, ROperator, Share
from explorer.rammer.placement_checker import PlacementChecker


@dataclass(frozen=True, slots=True)
class Order:
    """The order that waits guarantee, as vector clocks: one row an operator, one column a unit.

    `last` is the step of the operator's last brick on each unit, 0 without one; `ended` are the
    steps of each unit that have ended before any of its bricks starts; `program` is its launch.
    """

    program: np.ndarray
    last: np.ndarray
    ended: np.ndarray

    def before(self, operator: int) -> np.ndarray:
        """Return for each operator whether all its tasks end before this one's first starts."""
        same = self.program == self.program[operator]
        ended = (self.last <= self.ended[operator]).all(axis=1)
        earlier: np.ndarray = (self.program < self.program[operator]) | (same & ended)
        return earlier


@dataclass(frozen=True, slots=True)
class Bricks:
    """The granularity of bricks, by tasks or by time.

    A share has at most `most` bricks, each of `least_us` or longer.
    """

    tasks: int = 0  # of one brick; 0: `most` and `least_us` apply
    most: int = 8
    least_us: float = 5.0

    def cuts(self, share: Share, task_us: float) -> list[int]:
        """Return the first task of each brick, and the end."""
        count = share.last - share.first
        if self.tasks:
            return [*range(share.first, share.last, self.tasks), share.last]
        parts = max(1, min(self.most, count, int(count * task_us / self.least_us)))
        return [share.first + count * part // parts for part in range(parts + 1)]


def rprograms(
    facts: Facts, placement: Placement, bricks: Bricks
) -> tuple[tuple[RProgram, ...], Order]:
    """Return one rProgram a launch, and the order that the waits guarantee.

    Raises:
        BadPolicy: The placement breaks a rule.
    """
    order, writers = _ordered(facts, placement, bricks, rows=True)
    return tuple(w.program() for w in writers), order


def order_of(facts: Facts, placement: Placement, bricks: Bricks) -> Order:
    """Return the order that waits guarantee, without emitting the waits, which takes far longer."""
    return _ordered(facts, placement, bricks, rows=False)[0]


def _ordered(
    facts: Facts, placement: Placement, bricks: Bricks, *, rows: bool
) -> tuple[Order, list[_Emitter]]:
    size = (len(facts.operators), facts.device.units)
    order = Order(
        np.full(size[0], -1, np.int64), np.zeros(size, np.int64), np.full(size, 1 << 40, np.int64)
    )
    placed, writers = PlacementChecker(facts), list[_Emitter]()
    for number, shares in enumerate(placement.programs):
        writers.append(_Emitter(facts, order, number, placed, bricks, rows=rows))
        writers[-1].write(shares)
    placed.check_all()
    return order, writers


class _Emitter:
    """Emitter of one rProgram, operator by operator.

    Each unit knows its own `steps`, and the completed steps of others in its `clocks`. Units that
    waited for the same steps share one list, which is never changed.
    """

    def __init__(
        self,
        facts: Facts,
        order: Order,
        number: int,
        placed: PlacementChecker,
        bricks: Bricks,
        *,
        rows: bool,
    ) -> None:
        self.facts, self.order, self.number = facts, order, number
        self.placed, self.bricks = placed, bricks
        units = facts.device.units
        self.clocks, self.steps = [[0] * units] * units, [0] * units
        self.rows: list[list[Instruction]] = [[] for _ in range(units if rows else 0)]
        self.ends: dict[int, _Ends] = {}
        self.pieces: dict[int, list[_Piece]] = {}
        self.calls: dict[int, int] = {}

    def write(self, shares: Sequence[Share]) -> None:
        for position, group in groupby(shares, key=lambda share: share.operator):
            mine = tuple(group)
            self.placed.place(mine, shares)
            self._operator(position, mine)

    def program(self) -> RProgram:
        """Return the rProgram."""
        operators = self.facts.operators
        names = tuple(operators[o].name for o in self.calls)
        kernels = tuple(self.placed.kernels[o] for o in self.calls)
        return RProgram(tuple(tuple(r) for r in self.rows), names, kernels if any(kernels) else ())

    def _operator(self, position: int, shares: Sequence[Share]) -> None:
        """Emit the waits and Runs of an operator."""
        operator = self.facts.operators[position]
        needed = self._needed(operator)
        waiting = _Waiting(needed)
        call = self.calls.setdefault(position, len(self.calls))
        task_us = operator.kernel(shares[0].kernel).task_us
        self.order.program[position] = self.number
        ends, minimum = self.ends.setdefault(position, {}), _MinimumClock()
        for share in shares:
            unit = share.unit
            if operator.aligned:
                waiting = _Waiting(self._with_pieces(needed, operator, share))
            before, clock = self.clocks[unit], waiting.after(self.clocks[unit])
            minimum.add(clock, unit, self.steps[unit])
            cuts = self.bricks.cuts(share, task_us)
            if self.rows:
                self.rows[unit].extend(waiting.of(unit, before))
                self.rows[unit].extend([Run(call, a, b) for a, b in pairwise(cuts)])
            if position in self.placed.aligned:
                piece = _Piece(share, cuts, self.steps[unit], clock)
                self.pieces.setdefault(position, []).append(piece)
            self.clocks[unit] = clock
            self.steps[unit] += len(cuts) - 1
            ends[unit] = self.steps[unit], clock
            self.order.last[position, unit] = self.steps[unit]
        row = self.order.ended[position]
        np.minimum(row, np.min(minimum.clocks, axis=0), out=row)
        for read in set(operator.reads):
            if self.placed.is_last_reader(read, position):
                self.ends.pop(read, None)
                self.pieces.pop(read, None)

    def _needed(self, operator: ROperator) -> _Ends:
        """Return the last bricks of all operands that any task of an operator reads."""
        needed: _Ends = {}
        for read in set(operator.reads) - set(operator.aligned):
            for unit, end in self.ends.get(read, {}).items():
                _add(needed, unit, end)
        return needed

    def _with_pieces(self, needed: _Ends, operator: ROperator, share: Share) -> _Ends:
        """Return `needed` with the bricks of aligned operands that a share reads."""
        needed = dict(needed)
        for read in operator.aligned:
            for piece in self.pieces.get(read, ()):
                end = piece.end(share)
                if end is not None:
                    _add(needed, piece.share.unit, end)
        return needed


_Clock: TypeAlias = list[int]  # by unit, its last completed step
_End: TypeAlias = tuple[int, _Clock]  # of a brick: its step, and its unit's clock
_Ends: TypeAlias = dict[int, _End]  # by unit


@dataclass(frozen=True, slots=True)
class _Piece:
    """A share with the first tasks of its bricks, its unit's steps before it, and its clock."""

    share: Share
    cuts: list[int]
    steps: int
    clock: _Clock

    def end(self, reader: Share) -> _End | None:
        """Return the end of the last brick with tasks of the same numbers; None without one."""
        first, last = max(self.share.first, reader.first), min(self.share.last, reader.last)
        if first >= last:
            return None
        return self.steps + bisect_left(self.cuts, last), self.clock


def _add(ends: _Ends, unit: int, end: _End) -> None:
    if unit not in ends or ends[unit][0] < end[0]:
        ends[unit] = end


class _Waiting:
    """Waits of units, and their clocks afterwards.

    No unit knows the last step of another before that step is over: where one brick implies
    another, its clock includes it. So the maximum of all clocks tells which waits are needed, and
    each list of steps is visited once, however many units share it.
    """

    def __init__(self, needed: _Ends) -> None:
        clocks = list({id(clock): clock for _, clock in needed.values()}.values())
        merged = list(map(max, *clocks)) if len(clocks) > 1 else [*clocks[0]] if clocks else []
        self.waits = [Wait(u, step) for u, (step, _) in needed.items() if merged[u] < step]
        for unit, (step, _) in needed.items():
            merged[unit] = max(merged[unit], step)
        self.clock = merged
        self._of: dict[int, tuple[_Clock, _Clock]] = {}  # by the identity of the first clock
        self._left: dict[int, tuple[list[Wait], dict[int, int]]] = {}

    def after(self, clock: _Clock) -> _Clock:
        """Return the clock after the waits; units with the same clock share the result."""
        if not self.clock:
            return clock
        if id(clock) not in self._of:
            merged = list(map(max, clock, self.clock))
            self._of[id(clock)] = clock, clock if merged == clock else merged
        return self._of[id(clock)][1]

    def of(self, unit: int, clock: _Clock) -> list[Wait]:
        """Return the waits of a unit with a clock, without itself and the steps it knows."""
        if id(clock) not in self._left:
            left = [wait for wait in self.waits if wait.step > clock[wait.unit]]
            self._left[id(clock)] = left, {wait.unit: n for n, wait in enumerate(left)}
        left, places = self._left[id(clock)]
        at = places.get(unit)
        return left if at is None else left[:at] + left[at + 1 :]


class _MinimumClock:
    """Elementwise minimum of the clocks of units, many of which share a list."""

    def __init__(self) -> None:
        self._by_identity: dict[int, tuple[_Clock, dict[int, int]]] = {}

    def add(self, clock: _Clock, unit: int, step: int) -> None:
        """Add a unit with its clock and its completed steps."""
        _, steps = self._by_identity.setdefault(id(clock), (clock, {}))
        if len(steps) < 2:
            steps.setdefault(unit, step)

    @property
    def clocks(self) -> list[_Clock]:
        """The lists to take the minimum of.

        A unit with a list of its own also knows its own steps.
        """
        clocks = []
        for clock, steps in self._by_identity.values():
            if len(steps) == 1:
                ((unit, step),) = steps.items()
                clock = [*clock]
                clock[unit] = step
            clocks.append(clock)
        return clocks


def awaited_steps(units: Sequence[Sequence[Instruction]]) -> list[set[int]]:
    """Return for each unit the steps that some unit waits for; only these need a flag."""
    steps: list[set[int]] = [set() for _ in units]
    for rows in units:
        for row in rows:
            if isinstance(row, Wait):
                steps[row.unit].add(row.step)
    return steps


def linearize(program: RProgram) -> tuple[Run, ...]:
    """Return the Runs of all units in an order that respects every Wait, earlier calls first."""
    at, ended = [0] * len(program.units), [0] * len(program.units)
    out: list[Run] = []
    while True:
        ready = []
        for unit, rows in enumerate(program.units):
            while at[unit] < len(rows):
                row = rows[at[unit]]
                if isinstance(row, Run):
                    ready.append((row.call, row.first, unit, row))
                    break
                if ended[row.unit] < row.step:
                    break
                at[unit] += 1
        if not ready:
            return tuple(out)
        _, _, unit, run = min(ready, key=lambda entry: entry[:3])
        out.append(run)
        at[unit] += 1
        ended[unit] += 1
