"""The whole program's planned wall, from the walls of its straight runs.

A loop is drawn with one trip, a branch with its longer way: how it will go is not known yet. A
library call has no modelled time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from explorer.grinder import BranchTask, LibraryTask, LoopTask, Straight, UTask
from explorer.ir.decisions import Brick, Gap, Wall
from explorer.rammer import Schedule, VDevice
from explorer.runtime.timeline import key_of


def planned_wall(
    parts: Sequence[UTask],
    schedules: Mapping[str, Schedule],
    device: VDevice,
    policy: str = "",
    name: str = "",
) -> Wall:
    """Launches are numbered in the order of the parts, whether drawn or not."""
    mason = _Mason(schedules, device)
    mason.lay(parts)
    return mason.wall(policy, name)


class _Mason:
    """Lays one straight run after the other; `cuts` are the ends of launches so far."""

    def __init__(self, schedules: Mapping[str, Schedule], device: VDevice, first: int = 0) -> None:
        self.schedules, self.device, self.programs = schedules, device, first
        self.now = 0.0
        self.bricks: list[Brick] = []
        self.gaps: list[Gap] = []
        self.cuts: list[float] = []

    def wall(self, policy: str, name: str) -> Wall:
        cuts = tuple(cut for cut in self.cuts if cut < self.now)
        return Wall(
            "planned",
            tuple(self.bricks),
            tuple(self.gaps),
            self.device.units,
            self.now,
            policy,
            name,
            cuts,
        )

    def lay(self, parts: Sequence[UTask]) -> None:
        for part in parts:
            match part:
                case Straight():
                    self.straight(self.schedules[key_of(part)])
                case LoopTask(body=body):
                    self.lay(body)
                case BranchTask(then=then, orelse=orelse):
                    self.branch(then, orelse)
                case LibraryTask():
                    continue

    def straight(self, found: Schedule) -> None:
        wall = found.wall
        alone = not self.bricks and not self.programs
        self.bricks += (
            wall.bricks
            if alone
            else [
                replace(
                    b,
                    start_us=b.start_us + self.now,
                    end_us=b.end_us + self.now,
                    program=b.program + self.programs,
                )
                for b in wall.bricks
            ]
        )
        self.gaps += (
            wall.gaps
            if alone
            else [
                replace(g, start_us=g.start_us + self.now, end_us=g.end_us + self.now)
                for g in wall.gaps
            ]
        )
        self.cuts += [cut + self.now for cut in wall.cuts_us]
        self.now += wall.total_us
        self.cuts.append(self.now)
        self.programs += len(found.programs)

    def branch(self, then: Sequence[UTask], orelse: Sequence[UTask]) -> None:
        ways = []
        for arm in (then, orelse):
            way = _Mason(self.schedules, self.device, self.programs)
            way.now = self.now
            way.lay(arm)
            self.programs = way.programs
            ways.append(way)
        longer = max(ways, key=lambda way: way.now)
        self.bricks += longer.bricks
        self.gaps += longer.gaps
        self.cuts += longer.cuts
        self.now = longer.now
