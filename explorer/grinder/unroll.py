"""Unrolling of loops: a turn makes several trips, whose bodies follow each other.

for t in range(n): s = f(s, t)
->  for t in range(0, n - n % 2, 2): s = f(f(s, t), t + 1)
    for t in range(n - n % 2, n): s = f(s, t)

Where a body is a straight run, Rammer schedules those of a turn together: waves cross trips.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from explorer.grinder.model import (
    BranchTask,
    CallTask,
    LoopTask,
    OperatorTask,
    RecursionTask,
    Straight,
    UTask,
    Value,
)
from explorer.ir.shapes.dims import Dim

MOST_OPERATORS = 8192  # of a turn: a bound on compile time, chosen


def refusal(
    body: Sequence[UTask],
    trip: str,
    checked: bool,
    states: Mapping[str, str],
    values: Mapping[str, Value],
) -> str:
    """Return why a loop cannot be unrolled; "" if it can.

    `states` maps each loop-carried parameter to its value after a trip.
    """
    if checked:
        return "its data may end it before any iteration, so each keeps its guard"
    if not trip:
        return "its number of iterations is unknown"
    operators = list(operators_of(body))
    if not operators:
        return "its body computes nothing"
    if any(isinstance(part, LoopTask) for part in nested_parts(body)):
        return "a loop is inside of it: only innermost loops are unrolled"
    if any(isinstance(part, RecursionTask | CallTask) for part in nested_parts(body)):
        return "a recursion of unknown duration is inside of it"
    names = (name for o in operators for name in _overwritten(o))
    roots = {values[name].root for name in names}
    moved = (s for s in states if s in roots and not values[states[s]].is_at(values[s]))
    overwritten = next(moved, "")
    return (
        f"its body overwrites its state {overwritten}, and continues with another value"
        if overwritten
        else ""
    )


def fit_turn(turn: int, body: Sequence[UTask], trips: Dim | None) -> int:
    """Return the number of trips of a turn: the least of `turn`, trip count and operator limit."""
    count = sum(1 for _ in operators_of(body))
    operator_limit = max(1, MOST_OPERATORS // max(1, count))
    trip_limit = max(1, trips) if isinstance(trips, int) else turn
    return max(1, min(turn, operator_limit, trip_limit))


def join_straight_runs(parts: Sequence[UTask]) -> tuple[UTask, ...]:
    """Merge adjacent runs of kernels."""
    out: list[UTask] = []
    for part in parts:
        last = out[-1] if out else None
        if isinstance(part, Straight) and isinstance(last, Straight):
            out[-1] = Straight((*last.operators, *part.operators))
        else:
            out.append(part)
    return tuple(out)


def nested_parts(parts: Sequence[UTask]) -> Iterator[UTask]:
    """Yield every part, those inside of loops and branches included."""
    for part in parts:
        yield part
        match part:
            case LoopTask(body=body):
                yield from nested_parts(body)
            case BranchTask(then=then, orelse=orelse):
                yield from nested_parts((*then, *orelse))
            case _:
                continue


def operators_of(parts: Sequence[UTask]) -> Iterator[OperatorTask]:
    """Yield every kernel call."""
    for part in nested_parts(parts):
        if isinstance(part, Straight):
            yield from part.operators


def _overwritten(operator: OperatorTask) -> list[str]:
    """Return the arguments that a kernel overwrites."""
    kernel = operator.call.kernel
    arguments = dict(zip(kernel.inputs, operator.args, strict=True))
    return [arguments[taken] for _, taken in kernel.updates]
