"""List scheduling: which operators can be placed next, and how long the way after each is.

Graham, 1969, "Bounds on multiprocessing timing anomalies".
"""

from __future__ import annotations

from explorer.rammer.model import Facts
from explorer.rammer.policies.rkernels import fastest


class Ready:
    """What each operator still waits for; `first` are those that wait for nothing."""

    def __init__(self, facts: Facts) -> None:
        self.readers: list[list[int]] = [[] for _ in facts.operators]
        self.missing: list[int] = []
        for position, operator in enumerate(facts.operators):
            reads = set(operator.reads)
            self.missing.append(len(reads))
            for read in reads:
                self.readers[read].append(position)
        self.first = [p for p, count in enumerate(self.missing) if not count]

    def after(self, position: int) -> list[int]:
        """Those that can be placed now that this one is."""
        found = []
        for reader in self.readers[position]:
            self.missing[reader] -= 1
            if not self.missing[reader]:
                found.append(reader)
        return found


def longest_ways(facts: Facts) -> list[float]:
    """For each operator the longest time from its start to the program's end, on all units."""
    ways = [0.0] * len(facts.operators)
    for position in reversed(range(len(ways))):
        operator = facts.operators[position]
        kernel = operator.kernel(fastest(operator, facts.device.units))
        ways[position] += -(-kernel.tasks // facts.device.units) * kernel.task_us
        for read in operator.reads:
            ways[read] = max(ways[read], ways[position])
    return ways
