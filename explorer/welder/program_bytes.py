"""Bytes that a program moves between memories, kernel by kernel: what fusion saves."""

from __future__ import annotations

from collections.abc import Iterator

from explorer.devices.model import Device
from explorer.ir.calls import LibraryCall
from explorer.ir.decisions.tile_graph import LevelBytes
from explorer.ir.dims import ShapeEnv
from explorer.ir.program import Binding, Program
from explorer.ir.types import Tensor
from explorer.welder.tiles.levels import memories
from explorer.welder.tiles.plan import plan_group


def bytes_per_level(program: Program, device: Device) -> tuple[LevelBytes, ...]:
    """Return the traffic of every memory for all kernels of a program, and its largest footprint.

    Memories are nearest first, under the hints; each binding counts once, loops are not repeated. A
    kernel has its own tiling; without one, or on a GPU, that of its plan. Every kernel finds its
    operands in the farthest memory; a library call moves its arguments and results there once.
    """
    levels_of_device = memories(device)
    footprints, moved = [0] * len(levels_of_device), [0] * len(levels_of_device)
    for levels in _kernels(program, device):
        for n, level in enumerate(levels):
            footprints[n], moved[n] = max(footprints[n], level.footprint), moved[n] + level.traffic
    moved[-2] += sum(_library(b, program.env) for f in program.functions for b in f.body)
    return tuple(
        LevelBytes(m.name, h, m.capacity, t)
        for m, h, t in zip(levels_of_device, footprints, moved, strict=True)
    )


def dram_bytes(program: Program, device: Device) -> int:
    """Return the bytes between DRAM and the memory before it, for all of a program."""
    return bytes_per_level(program, device)[-2].traffic


def _kernels(program: Program, device: Device) -> Iterator[tuple[LevelBytes, ...]]:
    for b in program.kernel_calls:
        call = b.kernel_call
        yield plan_group(call.kernel, device, program.env, call.core_tiling).levels


def _library(binding: Binding, env: ShapeEnv) -> int:
    """Return the bytes of a library call's arguments and results."""
    if not isinstance(binding.expr, LibraryCall):
        return 0
    types = [v.type for v in (*binding.reads, *binding.vars)]
    return sum(env.hint(t.bytes) for t in types if isinstance(t, Tensor) and t.is_known)
