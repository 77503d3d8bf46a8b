"""Rules of a placement, and the error for the first rule that is broken."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from explorer.errors import BadPolicy
from explorer.rammer.model import Facts, Share


class PlacementChecker:
    """The shares placed so far.

    `kernels` are the implementations that were chosen, `aligned` the operators of which some
    reader's task n reads only what task n wrote.
    """

    def __init__(self, facts: Facts) -> None:
        """Create a checker before any share is placed."""
        self.facts = facts
        self.counts = [0] * len(facts.operators)
        self.tasks = [o.tasks for o in facts.operators]  # of the chosen implementation
        self.kernels: dict[int, int] = {}
        self._parts: list[list[tuple[int, int]]] = [[] for _ in facts.operators]
        self._readers = [0] * len(facts.operators)
        self._ready: set[int] = set()
        self.aligned = {read for operator in facts.operators for read in operator.aligned}
        for operator in facts.operators:
            for read in set(operator.reads):
                self._readers[read] += 1

    def place(self, shares: Sequence[Share], program: Sequence[Share]) -> None:
        """Place adjacent shares of one operator in a program.

        Raises:
            BadPolicy: The shares break a rule.
        """
        for share in shares:
            self._check_share(share)
        position = shares[0].operator
        if position not in self._ready:
            self._check_reads(position)
            self._ready.add(position)
        if self.facts.operators[position].kind == "library":
            self._check_library_call(shares, program)
        for share in shares:
            self.counts[position] += share.last - share.first
            self._parts[position].append((share.first, share.last))
        if self.counts[position] > self.tasks[position]:
            self._check_disjoint(position)

    def is_last_reader(self, read: int, reader: int) -> bool:
        """Return True if all readers of an operator's result are placed, with `reader` the last."""
        if self.counts[reader] == self.tasks[reader]:
            self._readers[read] -= 1
        return not self._readers[read]

    def check_all(self) -> None:
        """Check that each task of every operator was placed once.

        Raises:
            BadPolicy: Some tasks were left out, or placed twice.
        """
        for position, operator in enumerate(self.facts.operators):
            tasks = self.tasks[position]
            if self.counts[position] != tasks:
                raise BadPolicy(
                    f"the policy placed {self.counts[position]} of the {tasks} tasks of "
                    f"{operator.name}",
                    where=operator.name,
                    expected=tasks,
                    actual=self.counts[position],
                )
            self._check_disjoint(position)

    def _check_disjoint(self, position: int) -> None:
        for before, after in pairwise(sorted(self._parts[position])):
            if after[0] < before[1]:
                operator = self.facts.operators[position]
                raise BadPolicy(
                    f"{operator.name} must have each task placed once, and task {after[0]} "
                    "is placed twice",
                    where=operator.name,
                    actual=after[0],
                )

    def _check_share(self, share: Share) -> None:
        if not 0 <= share.operator < len(self.facts.operators):
            raise BadPolicy(f"the policy made a share of no operator: {share}", actual=share)
        if self.kernels.get(share.operator) != share.kernel:
            self._choose_kernel(share)
        tasks, units = self.tasks[share.operator], self.facts.device.units
        if not (0 <= share.unit < units and 0 <= share.first < share.last <= tasks):
            raise BadPolicy(
                f"the policy made an impossible share: {share}",
                where=self.facts.operators[share.operator].name,
                expected=f"units 0 to {units - 1}, tasks 0 to {tasks}",
                actual=share,
            )

    def _choose_kernel(self, share: Share) -> None:
        """Record the implementation of the first share; all others must have the same."""
        operator = self.facts.operators[share.operator]
        if share.operator in self.kernels:
            raise BadPolicy(
                f"all tasks of {operator.name} run with one implementation",
                where=operator.name,
                expected=self.kernels[share.operator],
                actual=share.kernel,
            )
        if not 0 <= share.kernel < max(1, len(operator.kernels)):
            raise BadPolicy(
                f"{operator.name} has no implementation {share.kernel}",
                where=operator.name,
                expected=f"0 to {max(1, len(operator.kernels)) - 1}",
                actual=share.kernel,
            )
        self.kernels[share.operator] = share.kernel
        self.tasks[share.operator] = operator.kernel(share.kernel).tasks

    def _check_reads(self, position: int) -> None:
        operators = self.facts.operators
        for read in operators[position].reads:
            if self.counts[read] != self.tasks[read]:
                raise BadPolicy(
                    f"the policy placed {operators[position].name} before {operators[read].name}, "
                    "which it reads",
                    where=operators[position].name,
                )

    def _check_library_call(self, shares: Sequence[Share], program: Sequence[Share]) -> None:
        operator = self.facts.operators[shares[0].operator]
        if len(program) > 1 or shares[0].unit != 0:
            raise BadPolicy(
                f"{operator.name} is a library call: it is an rProgram of its own, on unit 0",
                where=operator.name,
            )
