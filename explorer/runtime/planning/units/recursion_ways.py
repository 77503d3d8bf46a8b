"""Which units make the calls of a recursion: all together in step, one while the others wait, or
each some for itself.

Calls may be so short that one unit has done them before several have met. Those that do not need
each other can be dealt to the units: nothing before a run says how even trees are, so that the
largest part of them is taken for what a random cut leaves in the mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from explorer.grinder import BranchTask, CallTask, LoopTask, RecursionTask, Straight, UTask
from explorer.grinder.independent_calls import max_concurrency
from explorer.ir.decisions.candidate import Candidate
from explorer.rammer import Facts, Options, Schedule, schedule
from explorer.runtime.planning.allocations import recursions_of, straights
from explorer.runtime.planning.timeline import key_of

TOGETHER, ALONE, APART = "together", "alone", "apart"
UNCOUNTED_TRIPS = 8  # of a loop, or calls of a recursion, that only a run counts; assumed
APART_MEETINGS = 3  # of all units, counted: before calls that are made apart, behind, at the end
LABELS = {
    TOGETHER: "in the program, all units together",
    ALONE: "in the program, one unit",
    APART: "in the program, units apart",
}


@dataclass(frozen=True, slots=True)
class RecursionWay:
    """How the calls of a recursion are made; `stacks`: by so many units apart. `schedules` are
    those of its body where they differ from those of all units; `weighed` are all ways, by a call.
    """

    way: str = TOGETHER
    stacks: int = 1
    schedules: Mapping[str, Schedule] | None = None
    weighed: tuple[Candidate[str], ...] = ()


def recursion_way(
    task: RecursionTask,
    schedules: Mapping[str, Schedule],
    options: Options,
    barrier_us: float,
    units: int,
    device: str,
    inner: bool = False,
    calls: int = UNCOUNTED_TRIPS,
    launch_us: float = 0.0,
) -> RecursionWay:
    """The way that was asked for, or that takes least by the model, for so many calls, among which
    those that all units make together are shared; `inner`: another recursion makes it.
    """
    keys = [key_of(part) for part in straights(task.body)]
    alone = {key: schedule(of_one(schedules[key].facts), options, device) for key in keys}
    kernels_us = sum(schedules[key].wall.total_us for key in keys)
    met_us = barrier_us * (1 + meetings(task.body))
    alone_us = sum(found.wall.total_us for found in alone.values())
    stacks = min(units, max_concurrency(task.body))
    weighed = {
        TOGETHER: (("kernels", kernels_us), ("barriers", met_us)),
        ALONE: (("kernels", alone_us),),
        APART: (
            ("kernels", alone_us * largest_part(max(1, stacks))),
            ("barriers", (met_us + APART_MEETINGS * barrier_us + launch_us) / max(1, calls)),
        ),
    }
    refused = {APART: why_not_apart(task, stacks, inner)}
    ways = tuple(
        Candidate(LABELS[way], way, () if refused.get(way) else terms, refused.get(way, ""))
        for way, terms in weighed.items()
    )
    best = min(ways, key=lambda found: found.cost_us)
    if task.units == "parallel" and not refused[APART]:
        best = ways[-1]
    ways = (best, *(w for w in ways if w is not best))
    if best.value == APART:
        return RecursionWay(APART, stacks, None, ways)
    return RecursionWay(best.value, 1, alone if best.value == ALONE else None, ways)


def largest_part(units: int) -> float:
    """Of calls that are cut in two at a random place, again and again for more units."""
    return (1 + 1 / units) / 2


def why_not_apart(task: RecursionTask, stacks: int, inner: bool) -> str:
    """Why its calls cannot be made by units apart, or shall not; "" if they can."""
    if task.units == "serial":
        return "grinder.recursion is serial"
    if stacks < 2:
        return "none of its calls can be made beside another"
    if inner or next(recursions_of(task.body), None) is not None:
        return "a recursion in another one has one stack"
    return ""


def of_one(facts: Facts) -> Facts:
    """The same on one unit."""
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
                count += 2 + meetings((*then, *orelse))
            case LoopTask(body=body) | RecursionTask(body=body):
                count += 3 + meetings(body)
            case _:
                continue
    return count
