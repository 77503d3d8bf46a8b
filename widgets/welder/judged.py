"""What moving values to other memory levels would change, by `explorer.welder.what_if`: the groups
that each move is about, before and after, and the program that Welder would leave.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import explorer
from explorer.devices.model import Device
from explorer.ir.stage import Stage
from explorer.welder.tiles.levels import REGISTER
from explorer.welder.what_if import Side, WhatIf
from widgets.model.compiled import Compiled
from widgets.model.hand import Move, Outcome, Totals


def judged(
    c: Compiled, moves: Sequence[Move], device: Device, sizes: Mapping[str, int] = {}
) -> Outcome:
    """The last of the moves, after all those before it, on a device: bytes and times at `sizes`,
    at the hints where nothing is said. Nothing is generated, nothing runs.

    Raises BadOption for a value that no kernel makes, and for a level that there is not.
    """
    value, level = moves[-1]
    found = WhatIf(welded(c, moves[:-1], device), sizes).connect(value, level)
    if found.refused is not None:
        return Outcome(refused=found.refused.text, flip=found.refused.change)
    assert found.after is not None
    program = welded(c, moves, device).program
    return Outcome(_totals(found.before), _totals(found.after), program)


def joined(c: Compiled, moves: Sequence[Move], value: str, device: Device) -> str:
    """The level at which a value is handed over where it is joined: the nearest that has room."""
    return WhatIf(welded(c, moves, device)).join(value).level


def welded(c: Compiled, moves: Sequence[Move], device: Device) -> Any:
    """The compilation with values put at levels by hand; for a data sheet, or after a move, as far
    as Welder.
    """
    if not moves and device.name == c.device.name:
        return c
    known = (REGISTER, *(m.name for m in device.levels))
    near = device.levels[0].name  # what a GPU's shared memory is called in its data sheet
    mine = [(value, level if level in known else near) for value, level in moves]
    return explorer.compile(c.model, device, with_moves(c, mine), until=Stage.WELDED)


def with_moves(c: Compiled, moves: Sequence[Move]) -> Any:
    """The options of a compilation with values put at levels by hand."""
    connect = dict(c.options.welder.connect) | dict(moves)
    return replace(c.options, welder=replace(c.options.welder, connect=tuple(connect.items())))


def compiled(c: Any, moves: Sequence[Move]) -> Any:
    """The moves compiled one after the other, each under a tile that has room for its value."""
    for value, level in moves:
        c = WhatIf(c).connect(value, level).compile()
    return c


def _totals(side: Side) -> Totals:
    """Groups together: the sums, and the room of the fullest task."""
    held = [p.at(p.level) for p in side.plans]
    fullest = max(held, key=lambda m: m.footprint / (m.capacity or 1 << 60), default=None)
    return Totals(
        len(side.groups),
        side.dram_bytes,
        fullest.level if fullest else "",
        fullest.footprint if fullest else 0,
        fullest.capacity if fullest else None,
        side.predicted_us,
    )
