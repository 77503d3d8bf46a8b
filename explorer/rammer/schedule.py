"""From facts to a schedule: the policy places, the transform writes, the simulation times."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from explorer.cached_property import cached_property
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.rprogram import RProgram
from explorer.ir.decisions.wall import Wall
from explorer.ir.tile_rules import whole
from explorer.passes.pipeline.own_policy import Asked, a, shown
from explorer.printed import Printed
from explorer.rammer.insert_barriers import insert_barriers
from explorer.rammer.model import Facts, Placement, Share
from explorer.rammer.options import Options
from explorer.rammer.transform import Bricks, Order, order_of, rprograms
from explorer.rammer.walls.fast_simulate import MANY_UNITS, fast_simulate, is_plain
from explorer.rammer.walls.simulate import simulate


@dataclass(frozen=True, repr=False)
class Schedule(Printed):
    """What runs where, and what it should look like.

    `programs` are every unit's instructions, and `order` what their waits guarantee; both are
    written when they are asked for.
    """

    facts: Facts
    placement: Placement
    bricks: Bricks
    wall: Wall

    def __str__(self) -> str:
        return str(self.wall)

    @property
    def programs(self) -> tuple[RProgram, ...]:
        """One a launch."""
        return self._written[0]

    @cached_property
    def order(self) -> Order:
        """As vector clocks."""
        written = self.__dict__.get("_written")
        return order_of(self.facts, self.placement, self.bricks) if written is None else written[1]

    @cached_property
    def _written(self) -> tuple[tuple[RProgram, ...], Order]:
        return rprograms(self.facts, self.placement, self.bricks)


def schedule(facts: Facts, options: Options, device_name: str = "") -> Schedule:
    """The schedule of straight-line operators; BadPolicy names the policy and what it broke."""
    if isinstance(options.policy, str):
        return _laid(facts, options.place(facts), options, device_name)
    asked = Asked("Rammer", options.policy)
    with asked.answering():
        placement = options.place(facts)
    checked(asked, placement)
    with asked.answering():
        return _laid(facts, placement, options, device_name)


def _laid(facts: Facts, placement: Placement, options: Options, device_name: str) -> Schedule:
    bricks, names = options.granularity, ("planned", options.policy_name, device_name)
    if options.meet:  # then nothing is launched between
        device = replace(facts.device, launch_us=facts.device.barrier_us)
        facts, placement = (
            replace(facts, device=device),
            insert_barriers(facts, placement, options.meet),
        )
    if facts.device.units > MANY_UNITS and is_plain(facts):
        return Schedule(facts, placement, bricks, fast_simulate(facts, placement, bricks, *names))
    written = rprograms(facts, placement, bricks)
    wall = simulate(written[0], facts.operators, facts.device, *names)
    found = Schedule(facts, placement, bricks, wall)
    found.__dict__["_written"] = written  # what the wall was made of
    return found


def checked(asked: Asked, placement: Any) -> None:
    """BadPolicy unless an answer is a Placement in which nothing is of another type than it says;
    what it places is judged where it is laid.
    """
    if not isinstance(placement, Placement):
        raise asked.refused(
            f"gave {a(placement)}, and must return a Placement", "Placement", shown(placement)
        )
    for program in _tuple(asked, placement.programs, "programs"):
        for share in _tuple(asked, program, "shares of a program"):
            if not isinstance(share, Share):
                raise asked.refused(f"gave {a(share)} among its shares", "Share", shown(share))
            numbers = (share.operator, share.unit, share.first, share.last, share.kernel)
            if any(whole(n) is None for n in numbers):
                raise asked.refused("gave a share that is not of whole numbers", found=shown(share))
    for candidate in _tuple(asked, placement.weighed, "candidates that it weighed"):
        if not isinstance(candidate, Candidate):
            raise asked.refused(f"gave {a(candidate)} among what it weighed", "Candidate")


def _tuple(asked: Asked, values: Any, what: str) -> tuple[Any, ...]:
    if not isinstance(values, tuple | list):
        raise asked.refused(f"gave {a(values)} for the {what}", "a tuple", shown(values))
    return tuple(values)
