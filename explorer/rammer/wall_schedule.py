"""Schedules from facts: the policy places, the transform emits, the simulation times.

A global barrier replaces waits for too many units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from explorer.cached_property import cached_property
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.wall import RProgram, Wall
from explorer.ir.tile_rules import as_integer
from explorer.passes.policy_call import PolicyCall
from explorer.printed import Printed
from explorer.process.user_code import a, shown
from explorer.rammer.fast_simulate import MANY_UNITS, fast_simulate, is_plain
from explorer.rammer.model import Facts, Placement, Share
from explorer.rammer.options import Options
from explorer.rammer.simulator import simulate
from explorer.rammer.transform import Bricks, Order, order_of, rprograms


@dataclass(frozen=True, repr=False)
class Schedule(Printed):
    """A placement with its instructions and its simulated wall.

    `programs` are every unit's instructions, and `order` what their waits guarantee; both are
    computed on first use.
    """

    facts: Facts
    placement: Placement
    bricks: Bricks
    wall: Wall

    def __str__(self) -> str:
        """Return the wall as text."""
        return str(self.wall)

    @property
    def programs(self) -> tuple[RProgram, ...]:
        """The rPrograms, one a launch."""
        return self._written[0]

    @cached_property
    def order(self) -> Order:
        """Return the guaranteed order, as vector clocks."""
        written = self.__dict__.get("_written")
        return order_of(self.facts, self.placement, self.bricks) if written is None else written[1]

    @cached_property
    def _written(self) -> tuple[tuple[RProgram, ...], Order]:
        return rprograms(self.facts, self.placement, self.bricks)


def schedule(facts: Facts, options: Options, device_name: str = "") -> Schedule:
    """Return the schedule of straight-line operators.

    Raises:
        BadPolicy: The policy breaks a rule, which the error names.
    """
    if isinstance(options.policy, str):
        return _lay(facts, options.place(facts), options, device_name)
    query = PolicyCall("Rammer", options.policy)
    with query.guarding():
        placement = options.place(facts)
    check_placement(query, placement)
    with query.guarding():
        return _lay(facts, placement, options, device_name)


def _lay(facts: Facts, placement: Placement, options: Options, device_name: str) -> Schedule:
    bricks, names = options.granularity, ("planned", options.policy_name, device_name)
    if options.meet:  # barriers replace launches
        device = replace(facts.device, launch_us=facts.device.barrier_us)
        facts, placement = (
            replace(facts, device=device),
            insert_barriers(facts, placement, options.meet),
        )
    if facts.device.units > MANY_UNITS and is_plain(facts):
        return Schedule(facts, placement, bricks, fast_simulate(facts, placement, bricks, *names))
    programs = rprograms(facts, placement, bricks)
    wall = simulate(programs[0], facts.operators, facts.device, *names)
    result = Schedule(facts, placement, bricks, wall)
    result.__dict__["_written"] = programs  # the wall was simulated from these
    return result


def check_placement(query: PolicyCall, placement: Any) -> None:
    """Check that a policy's answer is a Placement whose parts have the declared types.

    Its contents are checked where they are laid.

    Raises:
        BadPolicy: A part has another type.
    """
    if not isinstance(placement, Placement):
        raise query.refused(
            f"returned {a(placement)}, and must return a Placement", "Placement", shown(placement)
        )
    for program in _tuple(query, placement.programs, "programs"):
        for share in _tuple(query, program, "shares of a program"):
            if not isinstance(share, Share):
                raise query.refused(f"returned {a(share)} among its shares", "Share", shown(share))
            numbers = (share.operator, share.unit, share.first, share.last, share.kernel)
            if any(as_integer(n) is None for n in numbers):
                raise query.refused("returned a share that is not of integers", actual=shown(share))
    for candidate in _tuple(query, placement.weighed, "candidates"):
        if not isinstance(candidate, Candidate):
            raise query.refused(f"returned {a(candidate)} among its candidates", "Candidate")


def _tuple(query: PolicyCall, values: Any, what: str) -> tuple[Any, ...]:
    if not isinstance(values, tuple | list):
        raise query.refused(f"returned {a(values)} for the {what}", "a tuple", shown(values))
    return tuple(values)


def insert_barriers(facts: Facts, placement: Placement, limit: int) -> Placement:
    """Insert a global barrier where an operator would wait for more than `limit` units.

    Units count that wrote the operator's operands since the last barrier. A barrier starts a new
    rProgram.
    """
    programs = (
        part for shares in placement.programs for part in _cut_program(facts, shares, limit)
    )
    return replace(placement, programs=tuple(programs))


def _cut_program(facts: Facts, shares: Sequence[Share], limit: int) -> list[tuple[Share, ...]]:
    parts, units = [list[Share]()], dict[int, set[int]]()
    for position, group in groupby(shares, key=lambda share: share.operator):
        o, mine = facts.operators[position], tuple(group)
        writers = set[int]().union(*(units.get(r, ()) for r in {*o.reads} - {*o.aligned}))
        if len(writers) > limit:
            parts.append([])
            units.clear()
        parts[-1] += mine
        units.setdefault(position, set()).update(share.unit for share in mine)
    return [tuple(part) for part in parts if part]
