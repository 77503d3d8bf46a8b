"""Two-layer scheduling, Rammer's baseline: one operator at a time, then all units meet."""

from __future__ import annotations

from explorer.rammer.model import Facts, Placement, Share
from explorer.rammer.policies.rkernels import fastest


def op_by_op(facts: Facts) -> Placement:
    """Each operator is an rProgram of its fastest implementation, evenly cut."""
    return Placement(tuple(p for n in range(len(facts.operators)) if (p := alone(facts, n))))


def alone(facts: Facts, position: int) -> tuple[Share, ...]:
    """One operator on all units; a library call, where it has to be."""
    operator = facts.operators[position]
    units = 1 if operator.kind == "library" else facts.device.units
    number = fastest(operator, units)
    tasks = operator.kernel(number).tasks
    cuts = [tasks * unit // units for unit in range(units + 1)]
    return tuple(
        Share(position, unit, cuts[unit], cuts[unit + 1], number)
        for unit in range(units)
        if cuts[unit] < cuts[unit + 1]
    )
