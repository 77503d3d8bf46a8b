"""Well-formedness of tilings, checked before they are weighed or lowered."""

from __future__ import annotations

from typing import Any

from explorer.devices.model import Device
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.normal import stores
from explorer.ir.shapes.dims import Dim
from explorer.ir.tile_rules import as_integer, tile_problem
from explorer.tile.lowering.lower import tensor_contraction, with_sum_lanes


def axes_to_cut(kernel: Kernel) -> dict[str, Dim]:
    """Return the axes that all writers of the output have, with the largest of their extents.

    The last rows of residues may be one fewer. A tile of another axis would leave a part of the
    output that no task writes.
    """
    parts = [{a.name: a.extent for a in p.axes} for p in stores(kernel)]
    shared = {name for name in parts[-1] if all(name in part for part in parts)}
    return {name: _largest([p[name] for p in parts]) for name in parts[-1] if name in shared}


def _largest(extents: list[Dim]) -> Dim:
    numbers = [x for x in extents if isinstance(x, int)]
    return max(numbers) if len(numbers) == len(extents) else extents[-1]


def malformed(kernel: Kernel, tiling: Any, device: Device) -> str:
    """Return the first rule of form that a tiling of a kernel in normal form breaks, "" if none."""
    if not isinstance(tiling, Tiling):
        return f"a tiling is a Tiling, found {type(tiling).__name__}"
    return (
        tile_problem(tiling.tile, axes_to_cut(kernel))
        or _micro_problem(kernel, tiling.micro, device)
        or _inner_loop_problem(tiling)
    )


def _micro_problem(kernel: Kernel, micro: Any, device: Device) -> str:
    if not isinstance(micro, Micro):
        return f"a register tile is a Micro, found {type(micro).__name__}"
    for name in ("rows", "vectors", "lanes"):
        number = as_integer(getattr(micro, name))
        if number is None or number < 1:
            value = str(getattr(micro, name))[:60]
            return f"the register tile has {value} {name}, and must have 1 or more"
    used = micro.registers
    if used > device.registers:
        have = f"{device.name} has {device.registers}"
        return f"registers: the register tile needs {used} vector registers, {have}"
    wide = with_sum_lanes(kernel, device).lanes
    if micro.lanes != wide and any(tensor_contraction(kernel, c) for c in kernel.computes):
        return f"the register tile has vectors of {micro.lanes}, those of {device.name} hold {wide}"
    return ""


def _inner_loop_problem(tiling: Tiling) -> str:
    if not isinstance(tiling.pack, bool):
        return f"`pack` is True or False, found {str(tiling.pack)[:60]}"
    block = as_integer(tiling.depth_block)
    if block is None or block < 0:
        return f"`depth_block` is a number from 0, found {str(tiling.depth_block)[:60]}"
    return ""


def in_numbers(tiling: Tiling) -> Tiling:
    """Return a well-formed tiling with Python's own numbers, and a tuple for its tile."""
    micro = Micro(int(tiling.micro.rows), int(tiling.micro.vectors), int(tiling.micro.lanes))
    tile = tuple((axis, int(size)) for axis, size in tiling.tile)
    return Tiling(tile, micro, tiling.pack, int(tiling.depth_block))
