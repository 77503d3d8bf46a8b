"""Loops of which a turn makes several trips, whose bodies then stand one after the other.

for t in range(n): s = f(s, t)
->  for t in range(0, n - n % 2, 2): s = f(f(s, t), t + 1)
    for t in range(n - n % 2, n): s = f(s, t)

Where a body is a straight run, Rammer lays those of a turn as one: waves go across trips.
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

MOST_OPERATORS = 8192  # of a turn: each has rows, waits and bricks; a bound on compile time, chosen


def refusal(
    body: Sequence[UTask],
    trip: str,
    checked: bool,
    states: Mapping[str, str],
    values: Mapping[str, Value],
) -> str:
    """Why a loop makes one trip a turn; "" where it may make more. `states`: what a trip makes of
    each.
    """
    if checked:
        return "its data may end it before any iteration, so each keeps its guard"
    if not trip:
        return "nothing says how many iterations it makes"
    operators = list(operators_of(body))
    if not operators:
        return "its body computes nothing"
    if any(isinstance(part, LoopTask) for part in every(body)):
        return "a loop is inside of it: only innermost loops are unrolled"
    if any(isinstance(part, RecursionTask | CallTask) for part in every(body)):
        return "a recursion is inside of it, of which nothing tells how long it takes"
    over = (name for o in operators for name in _written_over(o))
    roots = {values[name].root for name in over}
    moved = (s for s in states if s in roots and not values[states[s]].is_at(values[s]))
    held = next(moved, "")
    return f"its body writes over its state {held}, and goes on with another" if held else ""


def fitting(turn: int, body: Sequence[UTask], trips: Dim | None) -> int:
    """How many trips a turn makes where so many are asked for: no more than there are, nor more
    than are laid out in a moment.
    """
    count = sum(1 for _ in operators_of(body))
    most = max(1, MOST_OPERATORS // max(1, count))
    known = max(1, trips) if isinstance(trips, int) else turn
    return max(1, min(turn, most, known))


def joined(parts: Sequence[UTask]) -> tuple[UTask, ...]:
    """The same parts, runs of kernels without control flow between them as one."""
    out: list[UTask] = []
    for part in parts:
        last = out[-1] if out else None
        if isinstance(part, Straight) and isinstance(last, Straight):
            out[-1] = Straight((*last.operators, *part.operators))
        else:
            out.append(part)
    return tuple(out)


def every(parts: Sequence[UTask]) -> Iterator[UTask]:
    """Every part, the ones inside of loops and branches included."""
    for part in parts:
        yield part
        match part:
            case LoopTask(body=body):
                yield from every(body)
            case BranchTask(then=then, orelse=orelse):
                yield from every((*then, *orelse))
            case _:
                continue


def operators_of(parts: Sequence[UTask]) -> Iterator[OperatorTask]:
    """Every kernel call."""
    for part in every(parts):
        if isinstance(part, Straight):
            yield from part.operators


def _written_over(operator: OperatorTask) -> list[str]:
    """The arguments that a kernel writes over."""
    kernel = operator.call.kernel
    given = dict(zip(kernel.inputs, operator.args, strict=True))
    return [given[taken] for _, taken in kernel.updates]
