"""A brick that a reader drags to another place of the planned wall."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from explorer.errors import BadOption
from explorer.ir.decisions.candidate import Refusal
from explorer.rammer import Schedule
from explorer.rammer.manual_moves import BrokenDependency, Move, PolicyWithMoves, apply_move
from widgets.model.brick_wall import WallRows
from widgets.model.knobs import Setting


@dataclass(frozen=True, slots=True)
class Drop:
    """The tasks `first .. last` of a call, dropped on a unit of a launch.

    They follow the task `after[1]` of the call `after[0]`; numbers are those of the planned wall's
    columns.
    """

    call: int
    first: int
    last: int
    unit: int
    launch: int
    after: Sequence[int] | None = None


def drop_tasks(
    now: Setting, planned: WallRows, drop: Drop
) -> tuple[Setting, Move] | dict[str, Any]:
    """Return the setting with the brick moved, or the page's message for a refusal."""
    schedule, launch = _schedule(now, drop.launch)
    exact = {o.name: o.name for o in schedule.facts.operators}
    names = {n.rsplit("/", 1)[-1]: n for n in exact} | exact  # inside a loop: `loop/call`

    def name(call: int) -> str:
        if not 0 <= call < len(planned.calls):
            raise BadOption(
                f"the wall has no call number {call}: it has {len(planned.calls)} calls"
            )
        binding = planned.calls[call].name
        return names.get(binding, binding)

    after = None
    if drop.after is not None:
        if len(drop.after) != 2 or not all(isinstance(n, int) for n in drop.after):
            raise BadOption("a preceding task must be given as [call, task], two whole numbers")
        after = (name(drop.after[0]), drop.after[1] + 1)
    move = Move(name(drop.call), drop.first, drop.last + 1, drop.unit, launch, after)
    outcome = apply_move(schedule.facts, schedule.placement, move)
    if isinstance(outcome, Refusal):
        return {"refused": outcome.words, **_ends(outcome, planned)}
    options = now.compiled.options
    policy = options.rammer.policy
    by_hand = policy if isinstance(policy, PolicyWithMoves) else PolicyWithMoves(policy)
    rammer = replace(options.rammer, policy=by_hand.with_move(move))
    return replace(now, compiled=now.compiled.with_options(rammer=rammer)), move


def _schedule(now: Setting, launch: int) -> tuple[Schedule, int]:
    """Return the straight-line schedule of a launch of the wall, and the launch's number in it."""
    left = launch
    for schedule in now.compiled.schedules(dict(now.sizes)):
        if left < len(schedule.programs):
            return schedule, left
        left -= len(schedule.programs)
    raise BadOption(f"the wall has no launch number {launch}")


def _ends(refusal: Refusal, planned: WallRows) -> dict[str, int]:
    """Return the positions of the two calls whose dependence the move breaks."""
    if not isinstance(refusal, BrokenDependency):
        return {}
    at = {c.name: n for n, c in enumerate(planned.calls)}
    ends = {"writer": refusal.writer, "reader": refusal.reader}
    return {k: at.get(v, at.get(v.rsplit("/", 1)[-1], -1)) for k, v in ends.items()}
