"""Bytes that a whole program moves between memories, kernel by kernel: what welding saves."""

from __future__ import annotations

from collections.abc import Iterator

from explorer.devices.model import Device
from explorer.ir.calls import LibraryCall
from explorer.ir.decisions.tile_graph import LevelBytes
from explorer.ir.program import Binding, Program
from explorer.ir.shapes.dims import ShapeEnv
from explorer.ir.types import Tensor
from explorer.welder.tiles.levels import memories
from explorer.welder.tiles.plan import plan_group


def bytes_per_level(program: Program, device: Device) -> tuple[LevelBytes, ...]:
    """What every memory moves for all kernels of a program, and the most that it holds at once for
    any, nearest first, under the hints: each binding once, loops not repeated.

    A kernel's tiling is the one that it has; where it has none, or on a GPU, that of its plan.
    Every kernel finds what it reads in the farthest memory; a library call moves its arguments and
    results there once.
    """
    known = memories(device)
    held, moved = [0] * len(known), [0] * len(known)
    for levels in _kernels(program, device):
        for n, one in enumerate(levels):
            held[n], moved[n] = max(held[n], one.footprint), moved[n] + one.traffic
    moved[-2] += sum(_library(b, program.env) for f in program.functions for b in f.body)
    return tuple(
        LevelBytes(m.name, h, m.capacity, t) for m, h, t in zip(known, held, moved, strict=True)
    )


def dram_bytes(program: Program, device: Device) -> int:
    """Bytes between DRAM and the memory before it, for all of a program."""
    return bytes_per_level(program, device)[-2].traffic


def _kernels(program: Program, device: Device) -> Iterator[tuple[LevelBytes, ...]]:
    for b in program.kernel_calls:
        call = b.kernel_call
        yield plan_group(call.kernel, device, program.env, call.tiling).levels


def _library(binding: Binding, env: ShapeEnv) -> int:
    """Bytes of a library call's arguments and results."""
    if not isinstance(binding.expr, LibraryCall):
        return 0
    types = [v.type for v in (*binding.reads, *binding.vars)]
    return sum(env.hint(t.bytes) for t in types if isinstance(t, Tensor) and t.is_known)
