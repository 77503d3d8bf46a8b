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
    size = (len(facts.operators), facts.device.units)
    order = Order(
        np.full(size[0], -1, np.int64), np.zeros(size, np.int64), np.full(size, 1 << 40, np.int64)
    )
    placed = Placed(facts)
    programs = tuple(
        _Writer(facts, order, number, placed, bricks).write(shares)
        for number, shares in enumerate(placement.programs)
    )
    placed.check_all()
    return programs, order


class _Writer:
    """Writes one rProgram, operator by operator. `clocks[u][v]`: the step of v that u knows to be
    over.
    """

    def __init__(
        self, facts: Facts, order: Order, number: int, placed: Placed, bricks: Bricks
    ) -> None:
        self.facts, self.order, self.number = facts, order, number
        self.placed, self.bricks = placed, bricks
        units = facts.device.units
        self.clocks = [[0] * units] * units  # one list, which no unit changes: it makes its own
        self.rows: list[list[Instruction]] = [[] for _ in range(units)]
        self.ends: dict[int, _Ends] = {}
        self.pieces: dict[int, list[_Piece]] = {}
        self.calls: dict[int, int] = {}

    def write(self, shares: Sequence[Share]) -> RProgram:
        for position, group in groupby(shares, key=lambda share: share.operator):
            mine = tuple(group)
            self.placed.place(mine, shares)
            self._operator(position, mine)
        operators = self.facts.operators
        names = tuple(operators[o].name for o in self.calls)
        kernels = tuple(self.placed.kernels[o] for o in self.calls)
        return RProgram(tuple(tuple(r) for r in self.rows), names, kernels if any(kernels) else ())

    def _operator(self, position: int, shares: Sequence[Share]) -> None:
        """Its waits and Runs."""
        operator = self.facts.operators[position]
        needed = self._needed(operator)
        waits, after = _waits(needed)
        call = self.calls.setdefault(position, len(self.calls))
        task_us = operator.kernel(shares[0].kernel).task_us
        self.order.program[position] = self.number
        ends, known = self.ends.setdefault(position, {}), []
        for share in shares:
            unit, rows = share.unit, self.rows[share.unit]
            clock = self.clocks[unit]
            if operator.aligned:
                waits, after = _waits(self._with_pieces(needed, operator, share))
            if waits:
                rows.extend([wait for wait in waits if wait.step > clock[wait.unit]])
                clock = list(map(max, clock, after))
            known.append(clock)
            cuts = self.bricks.cuts(share, task_us)
            rows.extend([Run(call, a, b) for a, b in pairwise(cuts)])
            if position in self.placed.aligned:
                self.pieces.setdefault(position, []).append(_Piece(share, cuts, clock))
            self.clocks[unit] = clock = clock[:]
            clock[unit] += len(cuts) - 1
            ends[unit] = clock[unit], clock
            self.order.last[position, unit] = clock[unit]
        row = self.order.known[position]
        np.minimum(row, np.min(known, axis=0), out=row)
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


_End: TypeAlias = tuple[int, list[int]]  # of a brick: its step, and what its unit knows then
_Ends: TypeAlias = dict[int, _End]  # by unit


@dataclass(frozen=True, slots=True)
class _Piece:
    """A share, the tasks with which its bricks begin, and what its unit knew before it."""

    share: Share
    cuts: list[int]
    clock: list[int]

    def end(self, reader: Share) -> _End | None:
        """Of the last brick that has tasks of the same numbers, if any has."""
        first, last = max(self.share.first, reader.first), min(self.share.last, reader.last)
        if first >= last:
            return None
        clock = self.clock[:]
        clock[self.share.unit] += bisect_left(self.cuts, last)
        return clock[self.share.unit], clock


def _add(ends: _Ends, unit: int, end: _End) -> None:
    if unit not in ends or ends[unit][0] < end[0]:
        ends[unit] = end


def _waits(needed: _Ends) -> tuple[list[Wait], list[int]]:
    """For each unit the last brick, where no other one implies it; and the steps that they imply
    together.
    """
    if not needed:
        return [], []
    clocks = [clock for _, clock in needed.values()]
    waits = [
        Wait(unit, step)
        for unit, (step, _) in needed.items()
        if sum(clock[unit] >= step for clock in clocks) == 1  # its own
    ]
    return waits, clocks[0] if len(clocks) == 1 else list(map(max, *clocks))


def awaited(units: Sequence[Sequence[Instruction]]) -> list[set[int]]:
    """For each unit the steps that some unit waits for: the others need not be shown."""
    steps: list[set[int]] = [set() for _ in units]
    for rows in units:
        for row in rows:
            if isinstance(row, Wait):
                steps[row.unit].add(row.step)
    return steps
