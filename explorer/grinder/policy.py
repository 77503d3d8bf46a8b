"""Level policies of control flow: pure functions from a body to a level and a reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

from explorer.grinder.model import BranchTask, LibraryTask, LoopTask, RecursionTask, UTask
from explorer.ir.decisions.control import ControlDecision
from explorer.passes.policy_call import PolicyCall
from explorer.process.user_code import shown

LevelPolicy: TypeAlias = Callable[[Sequence[UTask]], tuple[str, str]]
LEVELS = ("host", "device")


def lowest(body: Sequence[UTask]) -> tuple[str, str]:
    """Return "device" unless something inside needs Python."""
    for part in body:
        match part:
            case LibraryTask(name=name, call=call):
                return "host", f"{name} calls {call.library}.{call.function}, which runs in Python"
            case (
                LoopTask(name=name, level="host")
                | BranchTask(name=name, level="host")
                | RecursionTask(name=name, level="host")
            ):
                return "host", f"{name} inside of it runs on the host"
            case _:
                continue
    return "device", "every part is a kernel, so all units can take the same way in step"


def on_host(body: Sequence[UTask]) -> tuple[str, str]:
    """Return "host" always: the baseline."""
    return "host", "requested"


@dataclass(frozen=True, slots=True)
class ControlSchedules:
    """The schedules of loops and branches.

    `level` is the policy, and innermost loops that stay on the device make `turn` trips a turn. A
    schedule `chosen` for a binding overrides both. `apart`: each kernel is a launch of its own.
    """

    level: LevelPolicy = lowest
    turn: int = 1
    chosen: Mapping[str, ControlDecision] = field(default_factory=dict)
    apart: bool = False


SCHEDULES: MappingProxyType[str, LevelPolicy] = MappingProxyType(
    {"auto": lowest, "device": lowest, "host": on_host, "unrolled": lowest, "eager": on_host}
)


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
