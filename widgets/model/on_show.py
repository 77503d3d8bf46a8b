"""What the pictures are made from: what is on show, and from which point of view."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from explorer.ir.decisions.tiling import Tiling
from explorer.measure.compare import Measurement
from explorer.measure.walls import WallComparison
from explorer.runtime.control.way_times import Timed
from widgets.model.brick_wall import WallRows
from widgets.model.hand import Hand
from widgets.model.house import House
from widgets.model.knobs import Setting

WIDTH, HEIGHT = 1012, 600  # of a picture in an explorer of 1,250 by 820 pixels

Times: TypeAlias = Mapping[Tiling, Measurement]


@dataclass(frozen=True, slots=True)
class View:
    """Which device a picture is about, "" for the one that was compiled for, and which of the tiles
    to choose from, -1 for the one in use; for Rammer's which policy, how many units, how many
    bricks a share and which rKernels, "" and 0 for those in use; for Grinder's which loop, and what
    a launch and a barrier are supposed to take; for that of sizes which symbol; for those of steps
    which step, -1 for the largest, and what its program is compared with; for the flow of code
    which loops are opened; for the fused pipeline the memory level up to which it is fused. `width`
    and `height` are the pixels that the page has for the drawing, 0 where it does not say.
    """

    device: str = ""
    rank: int = -1
    policy: str = ""
    units: int = 0
    bricks: int = 0
    kernels: str = ""
    loop: str = ""
    launch: str = ""
    barrier: str = ""
    symbol: str = ""
    step: int = -1
    against: str = ""
    opened: str = ""
    cut: str = ""
    width: int = 0
    height: int = 0

    @property
    def size(self) -> tuple[int, int]:
        """The pixels of a drawing: what the page has, else those of a page 1,250 wide."""
        return self.width or WIDTH, self.height or HEIGHT


@dataclass(frozen=True, slots=True)
class Walls:
    """The walls that are on show; `measured` and `compared` are None before the first run here.
    `recorded`: of a run that somebody recorded, and it beside the plan.
    """

    planned: WallRows | None
    measured: WallRows | None
    compared: WallComparison | None = None
    recorded: WallRows | None = None
    recorded_compared: WallComparison | None = None

    @property
    def ran(self) -> tuple[WallRows | None, WallComparison | None]:
        """What stands under the plan: what was measured here, else what was recorded. Words about
        it begin with its own: `said`.
        """
        if self.measured is not None:
            return self.measured, self.compared
        return self.recorded, self.recorded_compared


class OnShow(Protocol):
    """A compilation at a binding of its symbols, and A, which it is compared with; its walls, its
    memory plan and whether it runs here; for Welder, Roller and Rammer which device and tile, what
    was moved by hand, the tiles and the ways of loops that were timed, and what else a picture's
    clock said.
    """

    @property
    def now(self) -> Setting: ...
    @property
    def pinned(self) -> Setting: ...
    @property
    def house(self) -> House: ...
    @property
    def walls(self) -> Walls: ...
    @property
    def plan(self) -> Any: ...
    @property
    def view(self) -> View: ...
    @property
    def hand(self) -> Hand: ...
    @property
    def runs(self) -> bool: ...
    def times(self, binding: str) -> Times: ...
    def timed(self, loop: str) -> tuple[Timed, ...]: ...
    def clocked(self, picture: str, about: str) -> Any: ...
