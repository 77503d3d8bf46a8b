"""Data of the Tiles picture: the current tile's memories, its banks, and the other tiles."""

from __future__ import annotations

from dataclasses import dataclass

from widgets.roller import bank_map
from widgets.roller.bank_map import BankRows
from widgets.roller.data_tiles import LevelPanel, level_panels
from widgets.roller.panel_frames import PanelFrame, frames
from widgets.roller.tiled_kernel import TiledKernel
from widgets.roller.traffic import Bar, traffic


@dataclass(frozen=True, slots=True)
class PanelRows:
    """The panels of the current tile, farthest level first."""

    kernel: str
    device: str
    kind: str
    extents: tuple[tuple[str, int], ...]
    levels: tuple[LevelPanel, ...]
    rank: int
    of: int
    note: str
    ops: tuple[str, ...]
    family: str = ""
    frames: tuple[PanelFrame, ...] = ()
    bars: tuple[Bar, ...] = ()
    banks: BankRows | None = None


def data(rolled: TiledKernel) -> PanelRows:
    """Return the panels of one kernel on one device."""
    choice, device = rolled.chosen, rolled.device
    panels = tuple(level_panels(choice, device)) if choice else ()
    e = choice.expression if choice else rolled.construction.expression
    return PanelRows(
        rolled.title,
        rolled.device.name,
        rolled.device.kind,
        tuple(zip(e.axes, e.extents, strict=True)),
        panels,
        rolled.rank,
        len(rolled.choices),
        choice.note if choice else "no tile fits",
        rolled.ops,
        rolled.family,
        frames(choice, panels, device) if choice else (),
        traffic(rolled.choices),
        bank_map.data(rolled) if choice is not None and choice.block is not None else None,
    )
