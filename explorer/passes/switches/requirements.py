"""Requirements and products of pipeline steps, which limit their removal and reordering."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from explorer.ir.stage import Stage
from explorer.passes.pipeline.pipeline import Step

# What steps provide that later steps require, as named in sentences.
MAKES: Mapping[str, str] = MappingProxyType(
    {
        "infer shapes": "inferred shapes",
        "inline calls": "calls that are inlined",
        "differentiate": "derivatives",
        "legalise to kernels": "kernels",
        "map control flow (Grinder)": "uTasks",
        "fuse (Welder)": "tile graphs",
        "tile (Roller)": "tiles",
        "schedule (Rammer)": "a schedule",
        "select control-flow schedules": "control-flow schedules",
        "plan memory": "a memory plan",
    }
)
# Requirements of the steps of each stage, user-defined ones included.
BY_STAGE: Mapping[Stage, tuple[str, ...]] = MappingProxyType(
    {
        Stage.TYPED: ("inferred shapes",),
        Stage.DIFFERENTIATED: ("inferred shapes", "calls that are inlined"),
        Stage.LEGALIZED: ("inferred shapes", "calls that are inlined", "derivatives", "kernels"),
        Stage.TASKED: ("kernels",),
        Stage.WELDED: ("kernels", "uTasks", "tile graphs"),
        Stage.ROLLED: ("kernels", "tile graphs", "tiles"),
        Stage.RAMMED: ("tiles", "a schedule"),
        Stage.PLANNED: ("tiles", "a schedule", "control-flow schedules"),
        Stage.EMITTED: ("a memory plan",),
    }
)
# Steps that have an effect only after another one.
BEHIND: Mapping[str, str] = MappingProxyType({"name reshapes": "fuse operators"})


def requirements(step: Step) -> tuple[str, ...]:
    """Return a step's requirements: those of its stage but what it provides itself."""
    own = MAKES.get(step.name)
    if own is not None and step.name != "plan memory":
        order = list(MAKES.values())
        return tuple(n for n in BY_STAGE[step.stage] if order.index(n) < order.index(own))
    return BY_STAGE[step.stage]
