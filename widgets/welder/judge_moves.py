"""Effects of moving values to other memory levels, computed by `explorer.welder.what_if`.

They are the groups that each move affects, before and after, and the program that Welder would
leave.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import explorer
from explorer.devices.model import Device
from explorer.ir.stage import Stage
from explorer.welder.tiles.levels import REGISTER
from explorer.welder.what_if import MoveState, WhatIf
from widgets.model.compiled import Compiled
from widgets.model.manual_moves import Move, Outcome, Totals


def judge_moves(
    c: Compiled, moves: Sequence[Move], device: Device, sizes: Mapping[str, int] = {}
) -> Outcome:
    """Return the effect of the last move after all those before it, on a device.

    Bytes and times are at `sizes`, or at the hints of symbols not given. No code is generated or
    run. Raises BadOption for a value that no kernel computes, and for an unknown level.
    """
    value, level = moves[-1]
    change = WhatIf(compile_with_moves(c, moves[:-1], device), sizes).connect(value, level)
    if change.refused is not None:
        return Outcome(refused=change.refused.text, flip=change.refused.change)
    assert change.after is not None
    program = compile_with_moves(c, moves, device).program
    return Outcome(_totals(change.before), _totals(change.after), program)


def joined_level(c: Compiled, moves: Sequence[Move], value: str, device: Device) -> str:
    """Return the nearest level with room for a value when its kernels are fused."""
    return WhatIf(compile_with_moves(c, moves, device)).join(value).level


def compile_with_moves(c: Compiled, moves: Sequence[Move], device: Device) -> Any:
    """Return the compilation with values moved to levels by hand.

    For a data sheet, or after a move, it is compiled only through Welder.
    """
    if not moves and device.name == c.device.name:
        return c
    levels = (REGISTER, *(m.name for m in device.levels))
    near = device.levels[0].name  # a data sheet's name of a GPU's shared memory
    mine = [(value, level if level in levels else near) for value, level in moves]
    return explorer.compile(c.model, device, with_moves(c, mine), until=Stage.WELDED)


def with_moves(c: Compiled, moves: Sequence[Move]) -> Any:
    """Return the options of a compilation with values moved to levels by hand."""
    connect = dict(c.options.welder.connect) | dict(moves)
    return replace(c.options, welder=replace(c.options.welder, connect=tuple(connect.items())))


def compile_moves(c: Any, moves: Sequence[Move]) -> Any:
    """Compile the moves one after the other, each under a tile that has room for its value."""
    for value, level in moves:
        c = WhatIf(c).connect(value, level).compile()
    return c


def _totals(groups_side: MoveState) -> Totals:
    """Sum the costs of several groups; the footprint is that of the fullest task."""
    usage = [p.at(p.level) for p in groups_side.plans]
    fullest = max(usage, key=lambda m: m.footprint / (m.capacity or 1 << 60), default=None)
    return Totals(
        len(groups_side.groups),
        groups_side.dram_bytes,
        fullest.level if fullest else "",
        fullest.footprint if fullest else 0,
        fullest.capacity if fullest else None,
        groups_side.predicted_us,
    )
