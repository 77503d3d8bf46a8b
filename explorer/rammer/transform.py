"""From a placement to each unit's instructions, with no wait that another one makes needless."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from explorer.errors import BadPolicy
from explorer.ir.decisions import Instruction, RProgram, Run, Wait
from explorer.rammer.model import Facts, Placement, Share


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
    placed = [0] * len(facts.operators)
    programs = tuple(
        _Writer(facts, order, number, placed, bricks).write(shares)
        for number, shares in enumerate(placement.programs)
    )
    for operator, tasks in zip(facts.operators, placed):
        if tasks != operator.tasks:
            raise BadPolicy(
                f"the policy placed {tasks} of the {operator.tasks} tasks of {operator.name}",
                where=operator.name,
                expected=operator.tasks,
                found=tasks,
            )
    return programs, order


class _Writer:
    """Writes one rProgram share by share. `clocks[u][v]`: the step of v that u knows to be over."""

    def __init__(
        self, facts: Facts, order: Order, number: int, placed: list[int], bricks: Bricks
    ) -> None:
        self.facts, self.order, self.number = facts, order, number
        self.placed, self.bricks = placed, bricks
        units = range(facts.device.units)
        self.clocks = [[0] * len(units) for _ in units]
        self.rows: list[list[Instruction]] = [[] for _ in units]
        self.lasts: dict[int, dict[int, int]] = {}  # operator -> unit -> step
        self.known: dict[tuple[int, int], list[int]] = {}  # (unit, step) -> clock at its end
        self.needs: dict[int, tuple[list[Wait], list[int]]] = {}
        self.calls: dict[int, int] = {}

    def write(self, shares: Iterable[Share]) -> RProgram:
        for share in shares:
            self._check(share)
            self._wait(share)
            self._run(share)
        names = tuple(self.facts.operators[o].name for o in self.calls)
        return RProgram(tuple(tuple(r) for r in self.rows), names)

    def _check(self, share: Share) -> None:
        operator = self.facts.operators[share.operator]
        if not (0 <= share.unit < len(self.rows) and share.first < share.last <= operator.tasks):
            raise BadPolicy(f"the policy made an impossible share: {share}", where=operator.name)
        if share.first != self.placed[share.operator]:
            raise BadPolicy(
                f"the tasks of {operator.name} must be placed in order, each once",
                where=operator.name,
                expected=self.placed[share.operator],
                found=share.first,
            )
        for read in operator.reads:
            if self.placed[read] != self.facts.operators[read].tasks:
                raise BadPolicy(
                    f"the policy placed {operator.name} before {self.facts.operators[read].name}, "
                    "which it reads",
                    where=operator.name,
                )
        self.placed[share.operator] = share.last

    def _wait(self, share: Share) -> None:
        """Only for the last awaited brick of each unit, and only where no other wait implies it."""
        if share.operator not in self.needs:
            self.needs[share.operator] = self._needs(share.operator)
        waits, after = self.needs[share.operator]
        clock = self.clocks[share.unit]
        for wait in waits:
            if wait.step > clock[wait.unit]:
                self.rows[share.unit].append(wait)
        if after:
            clock[:] = map(max, clock, after)

    def _needs(self, operator: int) -> tuple[list[Wait], list[int]]:
        """The bricks that must be over before the operator, and the steps that this implies."""
        steps: dict[int, int] = {}
        for read in self.facts.operators[operator].reads:
            for unit, step in self.lasts.get(read, {}).items():
                steps[unit] = max(step, steps.get(unit, 0))
        ends = {unit: self.known[unit, step] for unit, step in steps.items()}
        waits = [
            Wait(unit, step)
            for unit, step in steps.items()
            if not any(other != unit and end[unit] >= step for other, end in ends.items())
        ]
        return waits, [max(column) for column in zip(*ends.values())]

    def _run(self, share: Share) -> None:
        unit, clock = share.unit, self.clocks[share.unit]
        position = share.operator
        call = self.calls.setdefault(position, len(self.calls))
        self.order.program[position] = self.number
        known = self.order.known[position]
        np.minimum(known, clock, out=known)
        cuts = self.bricks.cuts(share, self.facts.operators[position].task_us)
        self.rows[unit].extend(Run(call, a, b) for a, b in pairwise(cuts))
        clock[unit] += len(cuts) - 1
        self.lasts.setdefault(position, {})[unit] = clock[unit]
        self.order.last[position, unit] = clock[unit]
        self.known[unit, clock[unit]] = clock[:]


def awaited(units: Sequence[Sequence[Instruction]]) -> list[set[int]]:
    """For each unit the steps that some unit waits for: the others need not be shown."""
    steps: list[set[int]] = [set() for _ in units]
    for rows in units:
        for row in rows:
            if isinstance(row, Wait):
                steps[row.unit].add(row.step)
    return steps
