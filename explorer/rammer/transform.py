"""From a placement to each unit's instructions, with no wait that another one makes needless."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TypeAlias

import numpy as np

from explorer.ir.decisions.rprogram import Instruction, RProgram, Run, Wait
from explorer.rammer.model import Facts, Placement, ROperator, Share
from explorer.rammer.placement import Placed


@dataclass(frozen=True, slots=True)
class Order:
    """What the waits guarantee, as vector clocks: one row an operator, one column a unit.

    `last` is the step of the operator's last brick on each unit, 0 where it has none; `known` are
    the steps of each unit that have ended before any of its bricks starts; `program` is its launch.
    """

    program: np.ndarray
    last: np.ndarray
    known: np.ndarray

    def before(self, operator: int) -> np.ndarray:
        """For each operator, whether all its tasks have ended before any of this one's starts."""
        same = self.program == self.program[operator]
        ended = (self.last <= self.known[operator]).all(axis=1)
        earlier: np.ndarray = (self.program < self.program[operator]) | (same & ended)
        return earlier


@dataclass(frozen=True, slots=True)
class Bricks:
    """How finely a share is cut: into at most `most`, each `least_us` or longer; or by tasks."""

    tasks: int = 0  # of one brick; 0: from the two below
    most: int = 8
    least_us: float = 5.0

    def cuts(self, share: Share, task_us: float) -> list[int]:
        """Where bricks begin, and the end."""
        count = share.last - share.first
        if self.tasks:
            return [*range(share.first, share.last, self.tasks), share.last]
        parts = max(1, min(self.most, count, int(count * task_us / self.least_us)))
        return [share.first + count * part // parts for part in range(parts + 1)]


def rprograms(
    facts: Facts, placement: Placement, bricks: Bricks
) -> tuple[tuple[RProgram, ...], Order]:
    """One rProgram a launch, and the order that the waits guarantee; or BadPolicy."""
    order, writers = _ordered(facts, placement, bricks, rows=True)
    return tuple(w.program() for w in writers), order


def order_of(facts: Facts, placement: Placement, bricks: Bricks) -> Order:
    """The order that waits guarantee, where nobody reads them: a pair of units each, they take far
    longer to write.
    """
    return _ordered(facts, placement, bricks, rows=False)[0]


def _ordered(
    facts: Facts, placement: Placement, bricks: Bricks, *, rows: bool
) -> tuple[Order, list[_Writer]]:
    size = (len(facts.operators), facts.device.units)
    order = Order(
        np.full(size[0], -1, np.int64), np.zeros(size, np.int64), np.full(size, 1 << 40, np.int64)
    )
    placed, writers = Placed(facts), list[_Writer]()
    for number, shares in enumerate(placement.programs):
        writers.append(_Writer(facts, order, number, placed, bricks, rows=rows))
        writers[-1].write(shares)
    placed.check_all()
    return order, writers


class _Writer:
    """Writes one rProgram, operator by operator.

    Each unit knows its own `steps`, and of others what stands in its `clocks`: the steps that are
    over. Units that waited for the same have one list, which none changes.
    """

    def __init__(
        self,
        facts: Facts,
        order: Order,
        number: int,
        placed: Placed,
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
        """What was written."""
        operators = self.facts.operators
        names = tuple(operators[o].name for o in self.calls)
        kernels = tuple(self.placed.kernels[o] for o in self.calls)
        return RProgram(tuple(tuple(r) for r in self.rows), names, kernels if any(kernels) else ())

    def _operator(self, position: int, shares: Sequence[Share]) -> None:
        """Its waits and Runs."""
        operator = self.facts.operators[position]
        needed = self._needed(operator)
        waiting = _Waiting(needed)
        call = self.calls.setdefault(position, len(self.calls))
        task_us = operator.kernel(shares[0].kernel).task_us
        self.order.program[position] = self.number
        ends, known = self.ends.setdefault(position, {}), _Least()
        for share in shares:
            unit = share.unit
            if operator.aligned:
                waiting = _Waiting(self._with_pieces(needed, operator, share))
            before, clock = self.clocks[unit], waiting.after(self.clocks[unit])
            known.add(clock, unit, self.steps[unit])
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
        row = self.order.known[position]
        np.minimum(row, np.min(known.clocks, axis=0), out=row)
        for read in set(operator.reads):
            if self.placed.is_last_reader(read, position):
                self.ends.pop(read, None)
                self.pieces.pop(read, None)

    def _needed(self, operator: ROperator) -> _Ends:
        """The last bricks of all that any task of it reads."""
        needed: _Ends = {}
        for read in set(operator.reads) - set(operator.aligned):
            for unit, end in self.ends.get(read, {}).items():
                _add(needed, unit, end)
        return needed

    def _with_pieces(self, needed: _Ends, operator: ROperator, share: Share) -> _Ends:
        """And of what the tasks of a share read."""
        needed = dict(needed)
        for read in operator.aligned:
            for piece in self.pieces.get(read, ()):
                end = piece.end(share)
                if end is not None:
                    _add(needed, piece.share.unit, end)
        return needed


_Clock: TypeAlias = list[int]  # by unit, the step of it that is over
_End: TypeAlias = tuple[int, _Clock]  # of a brick: its step, and what its unit knows of others
_Ends: TypeAlias = dict[int, _End]  # by unit


@dataclass(frozen=True, slots=True)
class _Piece:
    """A share, the tasks with which its bricks begin, how many steps its unit had done before it,
    and what that knew of others.
    """

    share: Share
    cuts: list[int]
    steps: int
    clock: _Clock

    def end(self, reader: Share) -> _End | None:
        """Of the last brick that has tasks of the same numbers, if any has."""
        first, last = max(self.share.first, reader.first), min(self.share.last, reader.last)
        if first >= last:
            return None
        return self.steps + bisect_left(self.cuts, last), self.clock


def _add(ends: _Ends, unit: int, end: _End) -> None:
    if unit not in ends or ends[unit][0] < end[0]:
        ends[unit] = end


class _Waiting:
    """What units wait for, and what they know then.

    No unit knows the last step of another before that is over: where one brick implies another, the
    clock of the one has it. So the greatest of all clocks tells which waits are left, and each list
    of steps is looked at once, however many units share it.
    """

    def __init__(self, needed: _Ends) -> None:
        clocks = list({id(clock): clock for _, clock in needed.values()}.values())
        known = list(map(max, *clocks)) if len(clocks) > 1 else [*clocks[0]] if clocks else []
        self.waits = [Wait(u, step) for u, (step, _) in needed.items() if known[u] < step]
        for unit, (step, _) in needed.items():
            known[unit] = max(known[unit], step)
        self.known = known
        self._of: dict[int, tuple[_Clock, _Clock]] = {}  # by the identity of the first of them
        self._left: dict[int, tuple[list[Wait], dict[int, int]]] = {}

    def after(self, clock: _Clock) -> _Clock:
        """What units with a clock know when they have waited: the same list for all of them."""
        if not self.known:
            return clock
        if id(clock) not in self._of:
            merged = list(map(max, clock, self.known))
            self._of[id(clock)] = clock, clock if merged == clock else merged
        return self._of[id(clock)][1]

    def of(self, unit: int, clock: _Clock) -> list[Wait]:
        """The waits of a unit with a clock: not for itself, and for nothing that it knows."""
        if id(clock) not in self._left:
            left = [wait for wait in self.waits if wait.step > clock[wait.unit]]
            self._left[id(clock)] = left, {wait.unit: n for n, wait in enumerate(left)}
        left, places = self._left[id(clock)]
        at = places.get(unit)
        return left if at is None else left[:at] + left[at + 1 :]


class _Least:
    """What every one of some units knows, of lists that many of them share."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[_Clock, dict[int, int]]] = {}

    def add(self, clock: _Clock, unit: int, step: int) -> None:
        """One more unit, which has done so many steps."""
        _, steps = self._found.setdefault(id(clock), (clock, {}))
        if len(steps) < 2:
            steps.setdefault(unit, step)

    @property
    def clocks(self) -> list[_Clock]:
        """Lists whose least is that: a unit that alone has a list knows its own steps as well."""
        found = []
        for clock, steps in self._found.values():
            if len(steps) == 1:
                ((unit, step),) = steps.items()
                clock = [*clock]
                clock[unit] = step
            found.append(clock)
        return found


def awaited(units: Sequence[Sequence[Instruction]]) -> list[set[int]]:
    """For each unit the steps that some unit waits for: the others need not be shown."""
    steps: list[set[int]] = [set() for _ in units]
    for rows in units:
        for row in rows:
            if isinstance(row, Wait):
                steps[row.unit].add(row.step)
    return steps
