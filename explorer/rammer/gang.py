"""The placement that Rammer's published code makes, where it differs from the paper's Algorithm 1.

All tasks of an operator start together, on the first units that are free by then; all are one
rProgram if its estimate is below the sum of the operators' own times, else each operator is one.
"""

from __future__ import annotations

from explorer.ir.decisions import Candidate
from explorer.rammer.model import Facts, Placement, ROperator, Share


def gang(facts: Facts) -> Placement:
    """The better of one rProgram of gangs and one rProgram for each operator, by the estimates."""
    together, estimate_us = _together(facts)
    alone = [_gang(n, o, [0.0] * facts.device.units, 0.0) for n, o in enumerate(facts.operators)]
    apart_us = sum(end for _, end in alone)
    refused = "" if estimate_us < apart_us else "an rProgram for each operator is estimated faster"
    terms = (("joined", estimate_us), ("apart", apart_us))
    weighed = (Candidate("all operators", None, terms, refused),)
    programs = [shares for shares, _ in alone] if refused else [together]
    return Placement(tuple(tuple(p) for p in programs if p), weighed)


def _together(facts: Facts) -> tuple[list[Share], float]:
    free = [0.0] * facts.device.units
    ends: list[float] = []
    shares: list[Share] = []
    for position, operator in enumerate(facts.operators):
        ready = max((ends[read] + facts.device.barrier_us for read in operator.reads), default=0.0)
        mine, end = _gang(position, operator, free, ready)
        for share in mine:
            free[share.unit] = end
        shares += mine
        ends.append(end)
    return shares, max(free)


def _gang(
    position: int, operator: ROperator, free: list[float], ready: float
) -> tuple[list[Share], float]:
    """The first units that are free when enough are, and when the last task has ended there."""
    needed = min(operator.tasks, len(free))
    if not needed:
        return [], ready
    begin = sorted(free)[needed - 1]
    units = [unit for unit, at in enumerate(free) if at <= begin][:needed]
    cuts = [operator.tasks * n // needed for n in range(needed + 1)]
    shares = [Share(position, u, cuts[n], cuts[n + 1]) for n, u in enumerate(units)]
    rounds = -(-operator.tasks // needed)
    return shares, max(begin, ready) + rounds * operator.task_us
