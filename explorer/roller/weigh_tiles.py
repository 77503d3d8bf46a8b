"""The modelled time of one tiling, or the rule of form or capacity that it breaks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from explorer.cost.estimate import kernel_terms
from explorer.devices.model import Device
from explorer.errors import BadOption
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.dims import Dim, ShapeEnv, Sizes, evaluate_dim
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.normal import stores
from explorer.ir.kernels.regions import Regions, propagate
from explorer.ir.tile_rules import as_integer, tile_problem
from explorer.ir.types import ITEM_BYTES
from explorer.process.cancellation import raise_if_cancelled
from explorer.process.user_code import shown
from explorer.tile.lowering.lower import tensor_contraction, with_sum_lanes
from explorer.tile.rewrites import placed_program


def weigh(
    kernel: Kernel, tiling: Tiling, device: Device, env: ShapeEnv, sizes: Sizes
) -> Candidate[Tiling]:
    """Return a tiling with the modelled time of the kernel on all units, or the rule it breaks."""
    wrong = malformed(kernel, tiling, device)
    if wrong:
        return Candidate("an invalid tiling", tiling, (), wrong)
    tiling = in_numbers(tiling)
    why = refusal(kernel, tiling, device, env, sizes)
    candidate = scored(kernel, tiling, device, sizes, propagate(kernel, dict(tiling.tile)))
    return Candidate(candidate.label, tiling, candidate.terms, why)


def scored(
    kernel: Kernel, tiling: Tiling, device: Device, sizes: Sizes, regions: Regions
) -> Candidate[Tiling]:
    """Return a tiling with the modelled time of all its tasks, legal or not.

    Raises:
        Cancelled: the compilation is no longer needed; a step weighs thousands.
    """
    raise_if_cancelled("weighing tiles")
    return Candidate(tiling.words, tiling, kernel_terms(kernel, tiling, device, sizes, regions))


def refusal(kernel: Kernel, tiling: Tiling, device: Device, env: ShapeEnv, sizes: Sizes) -> str:
    """Return the rule that a tiling breaks, with the numbers, "" if it is legal."""
    wrong = malformed(kernel, tiling, device)
    if wrong:
        return wrong
    tiling = in_numbers(tiling)
    try:
        program = placed_program(kernel, tiling, env, device)
    except BadOption as error:
        return error.sentence
    scratch = (b for b in program.buffers if b.kind == "scratch")
    total = sum(evaluate_dim(b.size, sizes) * ITEM_BYTES[b.dtype] for b in scratch)
    room = private_bytes(device)
    if total > room:
        have = f"a unit of {device.name} has {room / 1024:.0f} KiB"
        return f"capacity: scratch needs {total / 1024:.0f} KiB, {have}"
    return ""


def private_bytes(device: Device) -> int:
    """Return the size of the largest private memory of a unit."""
    return max(
        (m.capacity_bytes for m in device.levels if not m.shared and m.capacity_bytes),
        default=1 << 20,
    )


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
    threads = as_integer(tiling.threads)
    if threads is None or threads < 0:
        return f"it has {shown(tiling.threads)} threads, and must have 0: a task on one core"
    if threads > 0:
        return f"it is a thread block, and a task of {device.name} runs on one core"
    return (
        _unused_problem(tiling, ("register", "shared", "parts", "matrix"), "thread blocks")
        or tile_problem(tiling.tile, axes_to_cut(kernel))
        or _micro_problem(kernel, tiling.micro, device)
        or _inner_loop_problem(tiling)
    )


def unused_by_blocks(tiling: Tiling) -> str:
    """Return which field of a thread block is of tasks on one core only, "" if none is set."""
    return _unused_problem(tiling, ("micro", "pack", "depth_block"), "tasks on one core")


def _unused_problem(tiling: Tiling, names: Iterable[str], of: str) -> str:
    """Return which of some fields is not its default, "" if all are."""
    for name in names:
        value, default = getattr(tiling, name), getattr(Tiling(), name)
        same_kind = isinstance(value, (type(default), list, int, np.integer))
        if not same_kind or (value != default and value != []):
            return f"`{name}` is of {of} and must be {default!r} here, found {shown(value):.60}"
    return ""


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
    """Return a well-formed tiling with Python's own numbers, in tuples."""
    micro = Micro(int(tiling.micro.rows), int(tiling.micro.vectors), int(tiling.micro.lanes))
    sizes = (tiling.tile, tiling.register, tiling.shared, tiling.parts)
    tile, register, shared, parts = (tuple((a, int(n)) for a, n in each) for each in sizes)
    depth, threads = int(tiling.depth_block), int(tiling.threads)
    return Tiling(tile, micro, tiling.pack, depth, threads, register, shared, parts, tiling.matrix)
