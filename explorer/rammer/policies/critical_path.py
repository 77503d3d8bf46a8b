"""Of the operators that can start, first the one with the longest way to the program's end."""

from __future__ import annotations

import heapq

from explorer.rammer.model import Facts, Placement, Share
from explorer.rammer.policies.lanes import Lanes
from explorer.rammer.policies.op_by_op import alone
from explorer.rammer.policies.ready import Ready, longest_ways
from explorer.rammer.policies.rkernels import fastest


def critical_path(facts: Facts) -> Placement:
    """One rProgram; library calls, where there are any, cut it."""
    ahead_us, ready = longest_ways(facts), Ready(facts)
    heap = [(-ahead_us[p], p) for p in ready.first]
    heapq.heapify(heap)
    programs: list[tuple[Share, ...]] = []
    lanes = Lanes.empty(facts.device)
    while heap:
        _, position = heapq.heappop(heap)
        operator = facts.operators[position]
        if operator.kind == "library":
            programs += (lanes.shares, alone(facts, position))
            lanes = Lanes.empty(facts.device)
        else:
            lanes.place(position, operator, fastest(operator, facts.device.units))
        for reader in ready.after(position):
            heapq.heappush(heap, (-ahead_us[reader], reader))
    return Placement(tuple(p for p in (*programs, lanes.shares) if p))
