"""Validation of the level that a policy returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from explorer.grinder.model import UTask
from explorer.grinder.policy import LEVELS, LevelPolicy, lowest
from explorer.passes.pipeline.policy_call import PolicyCall, shown


def select_level(policy: LevelPolicy, body: Sequence[UTask], name: str) -> tuple[str, str]:
    """Return the level of a body and its reason.

    Raises:
        BadPolicy: The policy's answer is invalid, or the body cannot run at that level.
    """
    if policy is lowest:
        return lowest(body)
    query = PolicyCall("Grinder", policy, f"{name!r}")
    with query.guarding():
        answer: Any = policy(body)
    pair = isinstance(answer, tuple) and len(answer) == 2
    if not pair or not all(isinstance(part, str) for part in answer):
        raise query.refused(
            f"returned {shown(answer)}, and must return a level and a reason",
            '("device", "requested")',
        )
    if answer[0] not in LEVELS:
        raise query.refused(f"returned the level {shown(answer[0])}", " or ".join(LEVELS))
    least, reason = lowest(body)
    if answer[0] == "device" and least == "host":
        raise query.refused(f"put it on the device, and {reason}", "host", "device")
    return str(answer[0]), str(answer[1])
