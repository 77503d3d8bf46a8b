"""One model under several policies: the walls that come of it, in numbers, side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from explorer.compilation import Compilation
from explorer.garbage import rare_collections
from explorer.ir.decisions.rprogram import Wait
from explorer.ir.decisions.wall import Wall
from explorer.ir.shapes.dims import Sizes
from explorer.rammer import POLICIES, Policy, Schedule
from explorer.rammer.model import Weighed
from explorer.rammer.walls.wall_statistics import Account, account

BASELINE = "op-by-op"  # two-layer scheduling


@dataclass(frozen=True, slots=True)
class Side:
    """A model under one policy, planned for a machine or simulated on a data sheet."""

    policy: str
    account: Account
    wall: Wall
    schedules: tuple[Schedule, ...]

    @property
    def barriers(self) -> int:
        """Waits of one unit for another; the instructions are written to count them, and on
        hundreds of units there are millions.
        """
        programs = (p for s in self.schedules for p in s.programs)
        return sum(isinstance(row, Wait) for p in programs for rows in p.units for row in rows)

    @property
    def weighed(self) -> tuple[Weighed, ...]:
        """What the policy compared: merges of waves, and kernels, each with its times."""
        return tuple(c for s in self.schedules for c in s.placement.weighed)


def side_by_side(
    c: Compilation,
    policies: Sequence[str | Policy] | None = None,
    sizes: Sizes | None = None,
    progress: Callable[[str], None] | None = None,
) -> tuple[Side, ...]:
    """The walls of a binding under each policy (all that there are: None), in the given order.

    Nothing runs. `progress` is told each policy before its wall is laid. Raises BadOption for a
    policy that there is not, and what planning raises.
    """
    found = []
    for policy in tuple(POLICIES) if policies is None else policies:
        options = replace(c.options.rammer, policy=policy)
        if progress is not None:
            progress(options.policy_name)
        other = c if options == c.options.rammer else c.with_options(rammer=options)
        found.append(side(other, sizes))
    return tuple(found)


def side(c: Compilation, sizes: Sizes | None = None) -> Side:
    """A compilation under the policy that it has."""
    with rare_collections():  # a wall of many units is a million bricks and gaps
        wall, schedules = c.planned_wall(sizes), c.schedules(sizes)
    per_core = schedules[0].facts.device.per_core if schedules else 1
    return Side(wall.policy, account(wall, per_core), wall, schedules)
