"""Tile programs of tests: this machine, others like it, and what a rewrite has made."""

from __future__ import annotations

from dataclasses import replace

from explorer.devices.model import Device
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernel import Kernel
from explorer.ir.tile_program import TileProgram
from explorer.measure.this_cpu import this_cpu
from explorer.tile.rewrites import steps

HERE = this_cpu()
TARGET = HERE.isa


def with_lanes(lanes: int) -> Device:
    """This machine with vectors of so many float32 elements."""
    return replace(HERE, lanes=lanes)


def after(
    name: str, kernel: Kernel, tiling: Tiling = Tiling(), device: Device = HERE
) -> TileProgram:
    """The program of a kernel after the rewrite of that name; "lower" is the plain one."""
    return dict(steps(kernel, tiling, ShapeEnv(), device))[name]
