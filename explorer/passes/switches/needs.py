"""What steps need of a program, and what they make of it that others need: a step may only be left
out, or stand elsewhere, where all that is still so.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from explorer.ir.stage import Stage
from explorer.passes.pipeline.pipeline import Step

# What a step makes that steps behind it cannot do without, each under its name in sentences.
MAKES: Mapping[str, str] = MappingProxyType(
    {
        "deduce shapes": "deduced shapes",
        "inline calls": "calls that are inlined",
        "differentiate": "derivatives",
        "legalise to kernels": "kernels",
        "grind control flow": "uTasks",
        "weld": "tile graphs",
        "roll": "tiles",
        "ram": "a schedule",
        "choose ways of control flow": "ways of control flow",
        "plan memory": "a memory plan",
    }
)
# What the steps of each stage, those of one's own included, cannot do without.
BY_STAGE: Mapping[Stage, tuple[str, ...]] = MappingProxyType(
    {
        Stage.TYPED: ("deduced shapes",),
        Stage.DIFFERENTIATED: ("deduced shapes", "calls that are inlined"),
        Stage.LEGALIZED: ("deduced shapes", "calls that are inlined", "derivatives", "kernels"),
        Stage.TASKED: ("kernels",),
        Stage.WELDED: ("kernels", "uTasks", "tile graphs"),
        Stage.ROLLED: ("kernels", "tile graphs", "tiles"),
        Stage.RAMMED: ("tiles", "a schedule"),
        Stage.PLANNED: ("tiles", "a schedule", "ways of control flow"),
        Stage.EMITTED: ("a memory plan",),
    }
)
# Steps that do nothing but for another one.
BEHIND: Mapping[str, str] = MappingProxyType({"name reshapes": "fuse operators"})


def needed(step: Step) -> tuple[str, ...]:
    """What a step cannot do without: all that its stage needs but what it makes itself."""
    own = MAKES.get(step.name)
    if own is not None and step.name != "plan memory":
        known = list(MAKES.values())
        return tuple(n for n in BY_STAGE[step.stage] if known.index(n) < known.index(own))
    return BY_STAGE[step.stage]
