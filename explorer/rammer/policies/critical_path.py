"""List scheduling by the longest path to the program's end."""

from __future__ import annotations

import heapq

from explorer.rammer.model import Facts, Placement, Share
from explorer.rammer.policies.lanes import Lanes
from explorer.rammer.policies.op_by_op import place_alone
from explorer.rammer.policies.ready import Ready, longest_paths
from explorer.rammer.policies.rkernels import fastest


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
