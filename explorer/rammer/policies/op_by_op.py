"""Two-layer scheduling, Rammer's baseline: one operator at a time, separated by barriers."""

from __future__ import annotations

from explorer.rammer.model import Facts, Placement, Share
from explorer.rammer.policies.rkernels import fastest


def op_by_op(facts: Facts) -> Placement:
    """Make each operator an rProgram of its fastest implementation, evenly cut."""
    return Placement(tuple(p for n in range(len(facts.operators)) if (p := place_alone(facts, n))))


def place_alone(facts: Facts, position: int) -> tuple[Share, ...]:
    """Return the shares of one operator on all units; of a library call, on unit 0."""
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
