"""From facts to a schedule: the policy places, the transform writes, the simulation times."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from explorer.errors import BadPolicy
from explorer.ir.decisions import RProgram, Wall
from explorer.rammer.lane_wall import MANY, is_plain, lane_wall
from explorer.rammer.model import Facts, Placement
from explorer.rammer.options import Options
from explorer.rammer.simulate import simulate
from explorer.rammer.transform import Bricks, Order, rprograms


@dataclass(frozen=True)
class Schedule:
    """What runs where, and what it should look like.

    `programs` are every unit's instructions, and `order` what their waits guarantee; both are
    written when they are asked for.
    """

    facts: Facts
    placement: Placement
    bricks: Bricks
    wall: Wall

    @property
    def programs(self) -> tuple[RProgram, ...]:
        """One a launch."""
        return self._written[0]

    @property
    def order(self) -> Order:
        """As vector clocks."""
        return self._written[1]

    @cached_property
    def _written(self) -> tuple[tuple[RProgram, ...], Order]:
        return rprograms(self.facts, self.placement, self.bricks)


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
    bricks, names = options.granularity, ("planned", options.policy_name, device_name)
    if facts.device.units > MANY and is_plain(facts):
        return Schedule(facts, placement, bricks, lane_wall(facts, placement, bricks, *names))
    written = rprograms(facts, placement, bricks)
    wall = simulate(written[0], facts.operators, facts.device, *names)
    found = Schedule(facts, placement, bricks, wall)
    found.__dict__["_written"] = written  # what the wall was made of
    return found
