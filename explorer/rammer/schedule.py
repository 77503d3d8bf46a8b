"""From facts to a schedule: the policy places, the transform writes, the simulation times."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.errors import BadPolicy
from explorer.ir.decisions import RProgram, Wall
from explorer.rammer.model import Facts, Placement
from explorer.rammer.options import Options
from explorer.rammer.simulate import simulate
from explorer.rammer.transform import Order, rprograms


@dataclass(frozen=True, slots=True)
class Schedule:
    """What runs where, what that guarantees, and what it should look like."""

    placement: Placement
    programs: tuple[RProgram, ...]
    order: Order
    wall: Wall


def schedule(facts: Facts, options: Options, device_name: str = "") -> Schedule:
    """The schedule of straight-line operators; BadPolicy names what the policy broke."""
    placement = options.place(facts)
    if not isinstance(placement, Placement):
        raise BadPolicy(
            f"the policy {options.policy_name} must return a Placement",
            where=options.policy_name,
            expected="Placement",
            found=type(placement).__name__,
        )
    programs, order = rprograms(facts, placement, options.granularity)
    wall = simulate(
        programs, facts.operators, facts.device, "planned", options.policy_name, device_name
    )
    return Schedule(placement, programs, order, wall)
