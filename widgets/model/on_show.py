"""Inputs of the pictures: the setting on show, and the point of view."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from explorer.ir.decisions.tiling import Tiling
from explorer.measure.compare import Measurement
from explorer.measure.walls import WallComparison
from explorer.runtime.control.schedule_times import TimedSchedule
from widgets.model.brick_wall import WallRows
from widgets.model.house import House
from widgets.model.knobs import Setting
from widgets.model.manual_moves import ManualMoves

WIDTH, HEIGHT = 1012, 600  # of a picture in an explorer of 1,250 by 820 pixels

Times: TypeAlias = Mapping[Tiling, Measurement]


@dataclass(frozen=True, slots=True)
class View:
    """The point of view of a picture.

    The device, "" for the one that was compiled for, and the tile, -1 for the one in use. Rammer's
    pictures: policy, number of units, bricks per slice and rKernels, "" and 0 for those in use.
    Grinder's: the loop, and the supposed times of a launch and a barrier. The picture of sizes: the
    symbol. Those of steps: the step, -1 for the largest, and what its program is compared with. The
    flow of code: the expanded loops. The fused pipeline: the memory level up to which it is fused.
    `width` and `height` are the pixels that the page has for the drawing, 0 if unknown.
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
        """The pixels of a drawing: those that the page has, else those of a page 1,250 wide."""
        return self.width or WIDTH, self.height or HEIGHT


@dataclass(frozen=True, slots=True)
class Walls:
    """The walls on show; `measured` and `compared` are None before the first run here.

    `recorded` is the wall of a recorded run, `recorded_compared` its comparison with the plan.
    """

    planned: WallRows | None
    measured: WallRows | None
    compared: WallComparison | None = None
    recorded: WallRows | None = None
    recorded_compared: WallComparison | None = None

    @property
    def ran(self) -> tuple[WallRows | None, WallComparison | None]:
        """The wall under the plan: the one measured here, else the recorded one.

        Descriptions of it begin with its own name: `title`.
        """
        if self.measured is not None:
            return self.measured, self.compared
        return self.recorded, self.recorded_compared


class OnShow(Protocol):
    """A compilation at a binding of its symbols, as the pictures read it.

    With A, which it is compared with, its walls, its memory plan, and whether it runs here. For
    Welder, Roller and Rammer also the device and tile, the manual moves, the timed tiles and
    schedules of loops, and the other measurements of pictures.
    """

    @property
    def now(self) -> Setting:
        """The setting on show."""

    @property
    def pinned(self) -> Setting:
        """The baseline, A."""

    @property
    def house(self) -> House:
        """The parts of the explorer."""

    @property
    def walls(self) -> Walls:
        """The walls on show."""

    @property
    def plan(self) -> Any:
        """The memory plan."""

    @property
    def view(self) -> View:
        """The point of view."""

    @property
    def manual_moves(self) -> ManualMoves:
        """The connections that were moved by hand."""

    @property
    def runs(self) -> bool:
        """True if the setting runs on this machine."""

    def times(self, binding: str) -> Times:
        """Return the timed tiles of a kernel."""

    def timed(self, loop: str) -> tuple[TimedSchedule, ...]:
        """Return the timed schedules of a loop."""

    def clocked(self, picture: str, about: str) -> Any:
        """Return the measurement that belongs to a picture."""
