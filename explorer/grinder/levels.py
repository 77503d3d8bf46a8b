"""What a policy says of a body, checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from explorer.grinder.model import UTask
from explorer.grinder.policy import LEVELS, LevelPolicy, lowest
from explorer.passes.pipeline.own_policy import Asked, shown


def level_of(policy: LevelPolicy, body: Sequence[UTask], name: str) -> tuple[str, str]:
    """The level and why; BadPolicy where the policy's answer is none, or cannot be."""
    if policy is lowest:
        return lowest(body)
    asked = Asked("Grinder", policy, f"{name!r}")
    with asked.answering():
        found: Any = policy(body)
    pair = isinstance(found, tuple) and len(found) == 2
    if not pair or not all(isinstance(part, str) for part in found):
        raise asked.refused(
            f"gave {shown(found)}, and must give a level and why", '("device", "asked for")'
        )
    if found[0] not in LEVELS:
        raise asked.refused(f"gave the level {shown(found[0])}", " or ".join(LEVELS))
    least, why = lowest(body)
    if found[0] == "device" and least == "host":
        raise asked.refused(f"put it on the device, and {why}", "host", "device")
    return str(found[0]), str(found[1])
