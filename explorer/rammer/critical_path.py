"""List scheduling: among ready operators, the one on the longest path to the program's end."""

from __future__ import annotations

import heapq

from explorer.rammer.lanes import Lanes
from explorer.rammer.model import Facts, Placement, Share
from explorer.rammer.rkernels import fastest
from explorer.rammer.wavefront import place_alone


def critical_path(facts: Facts) -> Placement:
    """Place the ready operator with the longest remaining path first, in one rProgram.

    Library calls, if any, cut the program.
    """
    ahead_us, ready = longest_paths(facts), Ready(facts)
    heap = [(-ahead_us[p], p) for p in ready.first]
    heapq.heapify(heap)
    programs: list[tuple[Share, ...]] = []
    lanes = Lanes.empty(facts.device)
    while heap:
        _, position = heapq.heappop(heap)
        operator = facts.operators[position]
        if operator.kind == "library":
            programs += (lanes.shares, place_alone(facts, position))
            lanes = Lanes.empty(facts.device)
        else:
            lanes.place(position, operator, fastest(operator, facts.device.units))
        for reader in ready.after(position):
            heapq.heappush(heap, (-ahead_us[reader], reader))
    return Placement(tuple(p for p in (*programs, lanes.shares) if p))


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
