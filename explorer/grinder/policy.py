"""Level policies of control flow: pure functions from a body to a level and a reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from explorer.grinder.model import BranchTask, LibraryTask, LoopTask, RecursionTask, UTask
from explorer.ir.decisions.control import ControlDecision

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
