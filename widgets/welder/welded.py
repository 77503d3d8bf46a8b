"""Which group Welder's pictures are about, on which device and under which tile: its plan, and
those of the other tiles on its curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from explorer.devices.model import Device
from explorer.ir.decisions.tile_graph import FusionGroup, GroupPlan
from explorer.ir.kernel import Kernel
from explorer.welder.tiles.tile_costs import TileCost

MOST_APART = 48  # kernels of a group that are planned on their own
NAMES = {"register": "registers", "shared": "shared memory", "DRAM": "memory"}
SHORT = {"register": "regs", "DRAM": "mem"}


@dataclass(frozen=True)
class Welded:
    """One group on one device; `own`: it is the device that was compiled for.

    `plan` is on show, `used` is in use; `points` are the tiles of the curve, small ones first, and
    `rank` is the one on show, -1 for the plan in use. `apart` are the plans of the kernels that the
    group was made of; `title` says what the kernel is called.
    """

    binding: str
    kernel: Kernel
    group: FusionGroup
    device: Device
    own: bool
    ops: tuple[str, ...]
    plan: GroupPlan
    used: GroupPlan
    points: tuple[TileCost, ...] = ()
    rank: int = -1
    apart: tuple[GroupPlan, ...] = ()
    title: str = ""

    @property
    def in_use(self) -> bool:
        """Whether that is the one of the compilation."""
        return self.plan.tile == self.used.tile


def tile_words(tile: Sequence[tuple[str, int]]) -> str:
    """A tile by its sizes."""
    return " ".join(f"{axis}={size}" for axis, size in tile) or "uncut"


def level_name(level: str) -> str:
    """Return what a reader calls a memory."""
    return NAMES.get(level, level)


def short_name(level: str) -> str:
    """Return a word for a memory where there is little room."""
    return SHORT.get(level, level)


def by(shape: Sequence[int]) -> str:
    """Return extents as they are written."""
    return "×".join(map(str, shape)) or "1"
