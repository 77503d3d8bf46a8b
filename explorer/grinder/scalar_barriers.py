"""Where units must meet between a look at a scalar and what they do by it.

Each unit reads for itself what decides a loop or a branch, and none may overwrite it before all
have. What comes first there seldom does, and all meet behind that anyway: then they need not before
it (Cocktailer's barriers by what depends on what).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from explorer.grinder.model import BranchTask, LoopTask, Straight, UTask, Value

Pair = tuple[str, str]  # what is copied to, and from where


def loop_needs_barrier(loop: LoopTask, values: Mapping[str, Value]) -> bool:
    """Whether all units meet between the look at what ends a loop and its body."""
    return loop.checked and needs_barrier(loop.going, loop.body, (), values)


def arm_needs_barrier(branch: BranchTask, made: int, values: Mapping[str, Value]) -> bool:
    """Whether all units meet before a branch's first side (1) or second one (2)."""
    parts = branch.then if made == 1 else branch.orelse
    return needs_barrier(
        branch.cond, parts, [(row[0], row[made]) for row in branch.results], values
    )


def needs_barrier(
    scalar: str, parts: Sequence[UTask], copied: Sequence[Pair], values: Mapping[str, Value]
) -> bool:
    """Whether what comes first may overwrite a scalar that is looked at, or nothing is known to
    come before another thing does; `copied` comes behind the parts.
    """
    written = [to for to, source in copied if not values[to].is_at(values[source])]
    if parts:
        first = parts[0]
        if not isinstance(first, Straight):
            return True
        written = [name for operator in first.operators for name in operator.results]
    return not written or any(values[name].root == values[scalar].root for name in written)
