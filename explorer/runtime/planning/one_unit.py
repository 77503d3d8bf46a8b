"""Recursions whose calls are so short that one unit has done them before several have met."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from explorer.grinder import BranchTask, CallTask, LoopTask, RecursionTask, Straight, UTask
from explorer.rammer import Facts, Options, Schedule, schedule
from explorer.runtime.planning.allocations import straights
from explorer.runtime.planning.timeline import key_of


def one_unit_schedules(
    task: RecursionTask,
    schedules: Mapping[str, Schedule],
    options: Options,
    barrier_us: float,
    device: str,
) -> Mapping[str, Schedule]:
    """The schedules of a recursion's body for one unit, where a call is faster so: it need not meet
    others. Else none.
    """
    keys = [key_of(part) for part in straights(task.body)]
    alone = {key: schedule(_of_one(schedules[key].facts), options, device) for key in keys}
    together_us = sum(schedules[key].wall.total_us for key in keys)
    together_us += barrier_us * (1 + meetings(task.body))
    alone_us = sum(found.wall.total_us for found in alone.values())
    return alone if alone_us < together_us else {}


def _of_one(facts: Facts) -> Facts:
    return replace(facts, device=replace(facts.device, units=1))


def meetings(parts: Sequence[UTask]) -> int:
    """How often all units meet in parts: in each way of a branch, in one trip of a loop."""
    count = 0
    for part in parts:
        match part:
            case Straight():
                count += 1
            case CallTask():
                count += 2
            case BranchTask(then=then, orelse=orelse):
                count += 3 + meetings((*then, *orelse))
            case LoopTask(body=body) | RecursionTask(body=body):
                count += 3 + meetings(body)
            case _:
                continue
    return count
