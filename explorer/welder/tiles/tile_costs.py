"""What an output tile of a group costs: its traffic, its room, its waves and the key that ranks it
(Welder, section 3.2, and the artifact's default policy).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf, prod

from explorer.cost.bound import bind_kernel, extents, sizes_of
from explorer.cost.footprint import ALIGN_BYTES, GPU_ALIGN_BYTES, footprint, inner_box, padded_bytes
from explorer.cost.touched import grid_of
from explorer.cost.traffic import Tile, about_bytes, traffic
from explorer.devices.model import Device
from explorer.ir.kernel import Kernel
from explorer.ir.patterns.regions import Regions, propagate
from explorer.ir.shapes.dims import ShapeEnv
from explorer.welder.tiles.levels import Memory, has_registers, memories, resident, waves

SMALL = (2, 4, 8, 16, 32)
SHARED_WORK_RATIO = 0.75  # an axis to its half: less, and both halves do the same work; chosen
LEAST_STEP_ELEMENTS = 32  # of a reduced axis that are loaded at once (Welder artifact)


@dataclass(frozen=True, slots=True)
class TileCost:
    """One output tile: bytes that it moves in all, bytes that it holds, whether that has room, how
    often all units take their tasks, and the key: less is better, infinite where there is no room.
    """

    tile: tuple[tuple[str, int], ...]
    tile_bytes: int  # moved by one tile
    traffic: int
    footprint: int
    valid: bool
    grid: int
    waves: int

    @property
    def key(self) -> float:
        """What the artifact ranks by: (traffic + 1) * waves."""
        return float((self.traffic + 1) * self.waves) if self.valid else inf

    def utilisation(self, device: Device) -> float:
        """The share of the units that have a task, over all waves."""
        return min(1.0, self.grid / (self.waves * device.units))


def holder(device: Device) -> Memory:
    """The memory that a task's tile should fit: shared memory, or the last cache of one unit."""
    known = memories(device)
    if device.kind == "gpu":
        return known[1]
    return next((m for m in reversed(known[1:-1]) if not m.shared), known[-2])


def tile_cost(
    kernel: Kernel, device: Device, tile: Tile, steps: Mapping[str, int] | None = None
) -> TileCost:
    """The cost of a tile of a kernel with numbers for dims; each tile loads what it needs anew.

    `steps`: how much of a reduced axis is loaded at once; all of it where none is given.
    """
    memory, regions = holder(device), propagate(kernel, tile)
    moved = traffic(
        kernel, tile, line_bytes=memory.read_bytes, write_bytes=memory.write_bytes, regions=regions
    )
    held, fits, largest = _room(kernel, device, tile, regions, steps)
    turns = waves(device, moved.tiles, resident(device, held, largest))
    sizes = tuple(sorted(tile.items()))
    return TileCost(sizes, moved.tile_bytes, moved.total_bytes, held, fits, moved.tiles, turns)


def _about(
    kernel: Kernel, device: Device, tile: Tile, steps: Mapping[str, int] | None = None
) -> TileCost:
    """As `tile_cost`, as if every tile were that in the middle; what has no room moves nothing."""
    memory, regions = holder(device), propagate(kernel, tile)
    grid = prod(count for _, count in grid_of(kernel, tile).values())
    held, fits, largest = _room(kernel, device, tile, regions, steps)
    size = about_bytes(kernel, tile, regions, memory.read_bytes, memory.write_bytes) if fits else 0
    turns = waves(device, grid, resident(device, held, largest))
    return TileCost(tuple(sorted(tile.items())), size // grid, size, held, fits, grid, turns)


def _room(
    kernel: Kernel,
    device: Device,
    tile: Tile,
    regions: Regions,
    steps: Mapping[str, int] | None,
) -> tuple[int, bool, int]:
    """What a tile holds, whether there is room for it, and elements of its largest output."""
    memory, gpu = holder(device), device.kind == "gpu"
    align = GPU_ALIGN_BYTES if gpu else ALIGN_BYTES
    held = footprint(kernel, tile, align_bytes=align, regions=regions, steps=steps).bytes
    held += 0 if gpu else padded_bytes(kernel, regions)
    largest = largest_output(kernel, regions)
    fits = memory.capacity is None or held <= memory.capacity
    return held, fits and has_registers(device, largest), largest


def largest_output(kernel: Kernel, regions: Regions) -> int:
    """Elements of the largest part of a tensor that a task computes: its registers hold that."""
    return max(prod(inner_box(kernel, regions, c.out)) for c in kernel.computes)


def steps_of(kernel: Kernel, device: Device, tile: Tile) -> Mapping[str, int]:
    """How much of each reduced axis is loaded at once: all of it where that has room, else half of
    the longest step until the tile fits, `LEAST_STEP_ELEMENTS` elements at least.
    """
    reduced = {a.name: int(a.extent) for c in kernel.computes for a in c.reduce}
    steps, regions = dict(reduced), propagate(kernel, tile)
    while not _room(kernel, device, tile, regions, steps)[1]:
        longest = max(steps, key=lambda a: steps[a], default="")
        if not longest or steps[longest] <= LEAST_STEP_ELEMENTS:
            break
        steps[longest] = max(LEAST_STEP_ELEMENTS, -(-steps[longest] // 2))
    return {a: n for a, n in steps.items() if n < reduced[a]}


def sizes_along(extent: int) -> tuple[int, ...]:
    """The sizes that a tile may have along an axis: divisors, small powers of two, all of it."""
    found = {n for n in range(1, int(extent**0.5) + 1) if extent % n == 0}
    return tuple(sorted({*found, *(extent // n for n in found), *(s for s in SMALL if s < extent)}))


def base_tile(kernel: Kernel, device: Device) -> Tile:
    """One of each axis, but all of an axis where that makes work per output less: rows of a
    softmax, and windows that overlap where there is room for all of them (Welder artifact).
    """
    ones = dict.fromkeys(extents(kernel), 1)
    rows, tile = dict(ones), dict(ones)
    for axis, extent in extents(kernel).items():
        whole, half = {**ones, axis: extent}, {**ones, axis: -(-extent // 2)}
        if _work(kernel, {**tile, axis: extent}) < _work(kernel, tile):
            tile[axis] = extent
        if _work(kernel, whole) < SHARED_WORK_RATIO * _work(kernel, half):
            rows[axis] = extent
    return tile if tile == rows or _about(kernel, device, tile).valid else rows


def _work(kernel: Kernel, tile: Tile) -> float:
    """Points of all computes but those of outputs, for each element of an output."""
    regions = propagate(kernel, tile)
    total = sum(
        prod(int(regions.axes[n][a.name].size) for a in (*c.axes, *c.reduce))
        for n, c in enumerate(kernel.computes)
        if c.out not in kernel.outputs
    )
    return total / max(1, prod(tile.values()))


def best_tile(kernel: Kernel, device: Device) -> TileCost:
    """The tile that steps along one axis at a time arrive at, from the base tile: the least key on
    a GPU, the least traffic for the units that have work on a CPU; the base tile where none fits.
    """
    base = base_tile(kernel, device)
    steps = steps_of(kernel, device, base)
    best = _about(kernel, device, base, steps)
    while True:
        found = [_about(kernel, device, t, steps) for t in _steps(kernel, dict(best.tile))]
        better = min((c for c in found if c.valid), key=lambda c: _rank(c, device), default=None)
        if better is None or (best.valid and _rank(better, device) >= _rank(best, device)):
            return tile_cost(kernel, device, dict(best.tile), steps)
        best = better


def _rank(cost: TileCost, device: Device) -> tuple[float, int]:
    if device.kind == "gpu":
        return cost.key, cost.grid
    return cost.traffic / cost.utilisation(device), cost.grid


def _steps(kernel: Kernel, tile: Tile) -> Iterator[Tile]:
    """The tiles that are at least twice as long along one axis."""
    for axis, extent in extents(kernel).items():
        longer = [n for n in sizes_along(extent) if n >= 2 * tile[axis]]
        if tile[axis] < extent:
            yield {**tile, axis: longer[0] if longer else extent}


def curve(
    kernel: Kernel, device: Device, env: ShapeEnv = ShapeEnv(), tiles: Iterable[Tile] | None = None
) -> tuple[TileCost, ...]:
    """Traffic against output tile: of the given tiles, else from the base tile to all of the
    output, each at least twice as large as the one before. What has no room is there, not valid.
    """
    bound = bind_kernel(kernel, sizes_of(kernel, env))
    given = _grown(bound, device) if tiles is None else tiles
    return tuple(tile_cost(bound, device, t) for t in given)


def _grown(kernel: Kernel, device: Device) -> Iterator[Tile]:
    """The base tile, then all of an axis in steps, the axis that lowers traffic most first."""
    tile = base_tile(kernel, device)
    yield tile
    while True:
        steps = list(_steps(kernel, tile))
        if not steps:
            return
        memory = holder(device)
        tile = min(steps, key=lambda t: _moved_about(kernel, memory, t))
        yield tile


def _moved_about(kernel: Kernel, memory: Memory, tile: Tile) -> int:
    regions = propagate(kernel, tile)
    return about_bytes(kernel, tile, regions, memory.read_bytes, memory.write_bytes)
