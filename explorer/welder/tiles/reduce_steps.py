"""Reduce steps: how much of a reduced axis a task loads at once.

The footprint depends on it, the traffic does not (Welder artifact, policy/default.py).

Without a tile that fits, the refusal names the memory and the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from explorer.cost.bind_kernel import bind_kernel, sizes_of
from explorer.cost.touched_parts import kinds, number, touched
from explorer.devices.model import Device, LevelMemory
from explorer.ir.decisions.candidate import Refusal
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernel import Compute, Kernel, reads
from explorer.ir.kernels.contraction import contraction
from explorer.ir.kernels.regions import Regions, propagate
from explorer.ir.types import ITEM_BYTES
from explorer.welder.tiles.sized_tile import SizedTile, in_steps, size_tile
from explorer.welder.tiles.tile_costs import base_tile, holder, sizes_along


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
    shared = device.unit_shared_bytes // tile.together
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


def no_legal_tile(kernel: Kernel, device: Device, env: ShapeEnv) -> Refusal:
    """Return why Roller finds no tiling for a group.

    Its smallest tile holds too much, or no register tile takes its columns.
    """
    bound = bind_kernel(kernel, sizes_of(kernel, env))
    memory, base = holder(device), base_tile(bound, device)
    least = size_tile(bound, device, memory, base, first_steps(bound, memory, base))
    if least.fits:
        return Refusal("tiling", 0, 1, "no tiling of the fused kernel is legal")
    return no_room((least,), device)


def no_room(tiles: Sequence[SizedTile], device: Device) -> Refusal:
    """Return the refusal of tiles of which even the smallest one does not fit.

    It holds too much, or computes more than registers hold.
    """
    memory = holder(device)
    room = memory.capacity or 0
    least = min((s.held_bytes for s in tiles), default=0)
    if tiles and least <= room:
        text = "registers do not hold what the smallest tile computes"
        return Refusal("registers", 1, 0, text, "shorter rows")
    text = f"the smallest tile holds {in_words(least)} and {memory.name} has {in_words(room)}"
    share = room / max(1, least)
    return Refusal("capacity", least, room, text, f"{share:.2g} of the rows would fit")


def in_words(count: int) -> str:
    """Return bytes with a binary unit."""
    if count < 1 << 10:
        return f"{count} B"
    return f"{count / 1024:.1f} KiB" if count < 1 << 20 else f"{count / (1 << 20):.1f} MiB"
