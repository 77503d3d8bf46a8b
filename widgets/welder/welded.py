"""Which group Welder's pictures are about, on which device and under which tile: its plan, and
those of the other tiles on its curve.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from explorer.devices.model import Device
from explorer.ir.decisions.tile_graph import FusionGroup, GroupPlan
from explorer.ir.kernel import Kernel
from explorer.welder.tiles.tile_costs import TileCost


@dataclass(frozen=True)
class Welded:
    """One group on one device; `own`: it is the device that was compiled for.

    `plan` is on show, `used` is in use; `points` are the tiles of the curve, small ones first, and
    `rank` is the one on show, -1 for the plan in use. `apart` are the plans of the kernels that the
    group was made of, `program` bytes to and from memory of all groups, apart and welded. `names`
    says what the source operators are called, `title` what the kernel is.
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
    program: tuple[int, int] = (0, 0)
    names: Mapping[str, str] = field(default_factory=dict)
    title: str = ""

    @property
    def in_use(self) -> bool:
        """Whether that is the one of the compilation."""
        return self.plan.tile == self.used.tile


def tile_words(tile: Sequence[tuple[str, int]]) -> str:
    """A tile by its sizes."""
    return " ".join(f"{axis}={size}" for axis, size in tile) or "uncut"
