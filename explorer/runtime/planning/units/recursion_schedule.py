"""Assignment of a recursion's calls to units: all together in step, one alone, or each some.

Calls may be so short that one unit is done before several have met at a barrier. Independent calls
can be distributed to the units: nothing before a run tells how even the trees are, so the largest
part is assumed to be the mean of random cuts.
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
UNCOUNTED_TRIPS = 8  # of a loop, or calls of a recursion, that only a run can count; assumed
APART_BARRIERS = 3  # of all units, counted: before separate calls, after them, at the end
LABELS = {
    TOGETHER: "in the program, all units together",
    ALONE: "in the program, one unit",
    APART: "in the program, units apart",
}


@dataclass(frozen=True, slots=True)
class RecursionSchedule:
    """The schedule of a recursion's calls; `stacks`: the number of separate units.

    `schedules` are those of its body if they differ from those of all units; `candidates` are
    priced by a call.
    """

    mode: str = TOGETHER
    stacks: int = 1
    schedules: Mapping[str, Schedule] | None = None
    candidates: tuple[Candidate[str], ...] = ()


def select_recursion_schedule(
    task: RecursionTask,
    schedules: Mapping[str, Schedule],
    options: Options,
    barrier_us: float,
    units: int,
    device: str,
    inner: bool = False,
    calls: int = UNCOUNTED_TRIPS,
    launch_us: float = 0.0,
) -> RecursionSchedule:
    """Return the requested schedule, or the one with the least modelled time for `calls` calls.

    The costs of the calls that all units make together are shared among all; `inner`: another
    recursion makes it.
    """
    keys = [key_of(part) for part in straights(task.body)]
    alone = {key: schedule(on_one_unit(schedules[key].facts), options, device) for key in keys}
    kernels_us = sum(schedules[key].wall.total_us for key in keys)
    met_us = barrier_us * (1 + count_barriers(task.body))
    alone_us = sum(item.wall.total_us for item in alone.values())
    stacks = min(units, max_concurrency(task.body))
    costs = {
        TOGETHER: (("kernels", kernels_us), ("barriers", met_us)),
        ALONE: (("kernels", alone_us),),
        APART: (
            ("kernels", alone_us * largest_part(max(1, stacks))),
            ("barriers", (met_us + APART_BARRIERS * barrier_us + launch_us) / max(1, calls)),
        ),
    }
    refused = {APART: apart_refusal(task, stacks, inner)}
    candidates = tuple(
        Candidate(LABELS[mode], mode, () if refused.get(mode) else terms, refused.get(mode, ""))
        for mode, terms in costs.items()
    )
    best = min(candidates, key=lambda item: item.cost_us)
    if task.units == "parallel" and not refused[APART]:
        best = candidates[-1]
    candidates = (best, *(w for w in candidates if w is not best))
    if best.value == APART:
        return RecursionSchedule(APART, stacks, None, candidates)
    return RecursionSchedule(best.value, 1, alone if best.value == ALONE else None, candidates)


def largest_part(units: int) -> float:
    """Return the largest part of calls that are cut in two at a random place, repeatedly."""
    return (1 + 1 / units) / 2


def apart_refusal(task: RecursionTask, stacks: int, inner: bool) -> str:
    """Return why its calls cannot or shall not run on separate units; "" if they can."""
    if task.units == "serial":
        return "grinder.recursion is serial"
    if stacks < 2:
        return "its calls depend on each other"
    if inner or next(recursions_of(task.body), None) is not None:
        return "a recursion in another one has one stack"
    return ""


def on_one_unit(facts: Facts) -> Facts:
    """Return the same facts for one unit."""
    return replace(facts, device=replace(facts.device, units=1))


def count_barriers(parts: Sequence[UTask]) -> int:
    """Return the number of barriers in parts: in each arm of a branch, in one trip of a loop."""
    count = 0
    for part in parts:
        match part:
            case Straight():
                count += 1
            case CallTask():
                count += 2
            case BranchTask(then=then, orelse=orelse):
                count += 2 + count_barriers((*then, *orelse))
            case LoopTask(body=body) | RecursionTask(body=body):
                count += 3 + count_barriers(body)
            case _:
                continue
    return count
