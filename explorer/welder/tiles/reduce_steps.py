"""Reduce steps: how much of a reduced axis a task loads at once.

The footprint depends on it, the traffic does not (Welder artifact, policy/default.py).
"""

from __future__ import annotations

from collections.abc import Mapping

from explorer.cost.touched_parts import kinds, number, touched
from explorer.devices.model import Device
from explorer.ir.kernel import Compute, Kernel, reads
from explorer.ir.patterns.contraction import contraction
from explorer.ir.patterns.regions import Regions, propagate
from explorer.ir.types import ITEM_BYTES
from explorer.welder.tiles.levels import LevelMemory
from explorer.welder.tiles.sized_tile import SizedTile, in_steps
from explorer.welder.tiles.tile_costs import sizes_along


def first_steps(kernel: Kernel, memory: LevelMemory, tile: Mapping[str, int]) -> dict[str, int]:
    """Return the first step of each reduced axis, raised while loads near transactions."""
    regions = propagate(kernel, tile)
    steps: dict[str, int] = {}
    for c in kernel.computes:
        if contraction(c) is not None:
            mine = {a.name: 1 for a in c.reduce}
            sizes = {a.name: sizes_along(number(a.extent)) for a in c.reduce}
            steps |= _raised(kernel, c, regions, tile, memory, mine, sizes)
    return steps


def _raised(
    kernel: Kernel,
    c: Compute,
    regions: Regions,
    tile: Mapping[str, int],
    memory: LevelMemory,
    steps: dict[str, int],
    sizes: Mapping[str, tuple[int, ...]],
) -> dict[str, int]:
    best = _likeness(kernel, c, regions, tile, memory, steps)
    while True:
        raised = []
        for axis, step_sizes in sizes.items():
            longer = next((n for n in step_sizes if n > steps[axis]), None)
            if longer is not None:
                more = {**steps, axis: longer}
                raised.append((_likeness(kernel, c, regions, tile, memory, more), more))
        score, more = max(raised, key=lambda f: f[0], default=(best, steps))
        if score <= best:
            return steps
        best, steps = score, more


def _likeness(
    kernel: Kernel,
    c: Compute,
    regions: Regions,
    tile: Mapping[str, int],
    memory: LevelMemory,
    steps: Mapping[str, int],
) -> float:
    """Return how close the dense runs of loads are to a transaction: 1 for each that is."""
    origin, _ = next(iter(kinds(kernel, regions, tile)))
    parts = touched(kernel, regions, origin, steps)
    total = 0.0
    for name in dict.fromkeys(r.tensor for r in reads(c.expr)):
        if name in parts:
            wanted = max(1, memory.read_bytes // ITEM_BYTES[kernel.dtype(name)])
            run = _run(parts[name].box, tuple(number(n) for n in kernel.shape(name)))
            total += 2.0 * run * wanted / (run * run + wanted * wanted)
    return total


def _run(box: tuple[int, ...], shape: tuple[int, ...]) -> int:
    """Return the number of contiguous elements of a box."""
    run = 1
    for part, extent in zip(reversed(box), reversed(shape), strict=True):
        run *= part
        if part != extent:
            break
    return run


def longer_steps(kernel: Kernel, device: Device, tile: SizedTile) -> SizedTile:
    """Return the tile with the longest steps for which as many tasks still run together."""
    if tile.room_bytes is None:
        return tile
    shared = device.unit_shared_bytes // tile.together if device.kind == "gpu" else 0
    room = min(tile.room_bytes, shared or tile.room_bytes)
    reduced = {
        a.name: sizes_along(number(a.extent))
        for c in kernel.computes
        for a in c.reduce
        if a.name in dict(tile.steps)
    }
    best = tile
    for axis, step_sizes in reduced.items():
        for longer in step_sizes:
            steps = dict(best.steps)
            if longer > steps[axis]:
                more = in_steps(kernel, device, best, {**steps, axis: longer})
                if more.held_bytes > room:
                    break
                best = more
    return best
