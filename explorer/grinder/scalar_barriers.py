"""Barriers between the read of a control scalar and its next write.

Each unit reads for itself the scalar that decides a loop or a branch, and no unit may overwrite it
before all have read it. The first kernels of a body seldom do, and a barrier follows them anyway;
then no barrier is needed before them (Cocktailer's dependency-based barriers).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from explorer.grinder.model import BranchTask, LoopTask, Straight, UTask, Value

Pair = tuple[str, str]  # target and source of a copy


def loop_needs_barrier(loop: LoopTask, values: Mapping[str, Value]) -> bool:
    """Return True if a barrier must separate the loop's end condition from its body."""
    return loop.checked and needs_barrier(loop.going, loop.body, (), values)


def arm_needs_barrier(branch: BranchTask, arm: int, values: Mapping[str, Value]) -> bool:
    """Return True if a barrier must precede a branch's first arm (`arm` 1) or second arm (2)."""
    parts = branch.then if arm == 1 else branch.orelse
    return needs_barrier(branch.cond, parts, [(row[0], row[arm]) for row in branch.results], values)


def needs_barrier(
    scalar: str, parts: Sequence[UTask], copied: Sequence[Pair], values: Mapping[str, Value]
) -> bool:
    """Return True if the first part may overwrite the scalar, or if no first part is known.

    `copied` follows the parts.
    """
    written = [to for to, source in copied if not values[to].is_at(values[source])]
    if parts:
        first = parts[0]
        if not isinstance(first, Straight):
            return True
        written = [name for operator in first.operators for name in operator.results]
    return not written or any(values[name].root == values[scalar].root for name in written)
