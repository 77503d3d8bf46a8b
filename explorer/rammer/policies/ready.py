"""List scheduling: ready operators, and the longest path from each to the end.

Graham, 1969, "Bounds on multiprocessing timing anomalies".
"""

from __future__ import annotations

from explorer.rammer.model import Facts
from explorer.rammer.policies.rkernels import fastest


class Ready:
    """The operators that each operator still waits for; `first` are those that wait for none."""

    def __init__(self, facts: Facts) -> None:
        """Count the operands of each operator."""
        self.readers: list[list[int]] = [[] for _ in facts.operators]
        self.missing: list[int] = []
        for position, operator in enumerate(facts.operators):
            reads = set(operator.reads)
            self.missing.append(len(reads))
            for read in reads:
                self.readers[read].append(position)
        self.first = [p for p, count in enumerate(self.missing) if not count]

    def after(self, position: int) -> list[int]:
        """Return the operators that become ready once this one is placed."""
        ready = []
        for reader in self.readers[position]:
            self.missing[reader] -= 1
            if not self.missing[reader]:
                ready.append(reader)
        return ready


def longest_paths(facts: Facts) -> list[float]:
    """Return each operator's longest time from its start to the program's end, on all units."""
    lengths_us = [0.0] * len(facts.operators)
    for position in reversed(range(len(lengths_us))):
        operator = facts.operators[position]
        kernel = operator.kernel(fastest(operator, facts.device.units))
        lengths_us[position] += -(-kernel.tasks // facts.device.units) * kernel.task_us
        for read in operator.reads:
            lengths_us[read] = max(lengths_us[read], lengths_us[position])
    return lengths_us
