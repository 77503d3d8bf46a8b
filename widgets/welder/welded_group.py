"""A group on a device under a tile: its plan, and the plans of other tiles on its curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from explorer.devices.model import Device
from explorer.ir.decisions.tile_graph import FusionGroup, GroupPlan
from explorer.ir.kernel import Kernel
from explorer.welder.tiles.tile_costs import TileCost

MOST_APART = 48  # largest group whose kernels are planned separately
NAMES = {"register": "registers", "shared": "shared memory", "DRAM": "memory"}
SHORT = {"register": "regs", "DRAM": "mem"}


@dataclass(frozen=True)
class WeldedGroup:
    """One group on one device; `own`: it is the device that was compiled for.

    `plan` is the current plan, `used` the one in use; `points` are the tiles of the curve, small
    ones first, and `rank` is the current one, -1 for the plan in use. `apart` are the plans of the
    kernels that the group was made of; `title` is the kernel's display name.
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
        """True if the current plan is that of the compilation."""
        return self.plan.tile == self.used.tile


def tile_words(tile: Sequence[tuple[str, int]]) -> str:
    """Return a tile's sizes by axis as text."""
    return " ".join(f"{axis}={size}" for axis, size in tile) or "uncut"


def level_name(level: str) -> str:
    """Return the display name of a memory."""
    return NAMES.get(level, level)


def short_name(level: str) -> str:
    """Return a short name of a memory."""
    return SHORT.get(level, level)


def by(shape: Sequence[int]) -> str:
    """Return extents as text, joined by ×."""
    return "×".join(map(str, shape)) or "1"
