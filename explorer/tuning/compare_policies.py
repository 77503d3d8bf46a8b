"""Walls of one model under several Rammer policies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from explorer.compilation import Compilation
from explorer.garbage import rare_collections
from explorer.ir.decisions.rprogram import Wait
from explorer.ir.decisions.wall import Wall
from explorer.ir.shapes.dims import Sizes
from explorer.passes.pipeline.progress import report_progress
from explorer.rammer import POLICIES, Policy, Schedule
from explorer.rammer.model import Weighed
from explorer.rammer.walls.wall_statistics import WallStatistics, wall_statistics

BASELINE = "op-by-op"  # two-layer scheduling


@dataclass(frozen=True, slots=True)
class PolicyWall:
    """A model under one policy, planned for a machine or simulated on a data sheet."""

    policy: str
    statistics: WallStatistics
    wall: Wall
    schedules: tuple[Schedule, ...]

    @property
    def barriers(self) -> int:
        """The number of waits of one unit for another.

        The instructions are generated to count them: on hundreds of units there are millions.
        """
        programs = (p for s in self.schedules for p in s.programs)
        return sum(isinstance(row, Wait) for p in programs for rows in p.units for row in rows)

    @property
    def weighed(self) -> tuple[Weighed, ...]:
        """The candidates that the policy compared: merges of waves, and kernels, with times."""
        return tuple(c for s in self.schedules for c in s.placement.weighed)


def compare_policies(
    c: Compilation,
    policies: Sequence[str | Policy] | None = None,
    sizes: Sizes | None = None,
    progress: Callable[[str], None] | None = None,
) -> tuple[PolicyWall, ...]:
    """Plan a binding under each policy, in this order; by default under all policies.

    Nothing runs. `progress` is called with each policy before its wall is planned.

    Raises:
        BadOption: a policy is unknown.
    """
    walls = []
    requested = tuple(POLICIES) if policies is None else policies
    for n, policy in enumerate(requested):
        options = replace(c.options.rammer, policy=policy)
        report_progress("schedule under each policy", n, len(requested))
        if progress is not None:
            progress(options.policy_name)
        other = c if options == c.options.rammer else c.with_options(rammer=options)
        walls.append(policy_wall(other, sizes))
    return tuple(walls)


def policy_wall(c: Compilation, sizes: Sizes | None = None) -> PolicyWall:
    """Plan a compilation under its own policy."""
    with rare_collections():  # a wall of many units is a million bricks and gaps
        wall, schedules = c.planned_wall(sizes), c.schedules(sizes)
    per_core = schedules[0].facts.device.per_core if schedules else 1
    return PolicyWall(wall.policy, wall_statistics(wall, per_core), wall, schedules)
