"""The cost of an output tile of a group: traffic, footprint, waves and rank.

From Welder, section 3.2, and the artifact's default policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf, prod

from explorer.cost.bind_kernel import bind_kernel, extents, sizes_of
from explorer.cost.footprint import footprint, inner_box, padded_bytes
from explorer.cost.touched_parts import grid_of
from explorer.cost.traffic import Tile, approximate_bytes, traffic
from explorer.devices.model import Device, LevelMemory
from explorer.devices.target import target_of
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.regions import Regions, propagate
from explorer.welder.tiles.levels import has_registers, resident, waves

SMALL = (2, 4, 8, 16, 32)
SHARED_WORK_RATIO = 0.75  # of work per output, an axis against its half; chosen
LEAST_STEP_ELEMENTS = 32  # of a reduced axis that are loaded at once (Welder artifact)


@dataclass(frozen=True, slots=True)
class TileCost:
    """One output tile: bytes moved in total, bytes held, True if they fit, and waves.

    The key ranks tiles: less is better, infinite if the tile does not fit.
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
        """The rank of the artifact: (traffic + 1) * waves."""
        return float((self.traffic + 1) * self.waves) if self.valid else inf

    def utilisation(self, device: Device) -> float:
        """Return the share of the units that have a task, over all waves."""
        return min(1.0, self.grid / (self.waves * device.units))


def holder(device: Device) -> LevelMemory:
    """Return the memory that a task's tile should fit: shared memory, or the last private cache."""
    return target_of(device).tile_memory(device)


def tile_cost(
    kernel: Kernel, device: Device, tile: Tile, steps: Mapping[str, int] | None = None
) -> TileCost:
    """Return the cost of a tile of a kernel of fixed extents; each tile loads its operands again.

    `steps`: how much of a reduced axis is loaded at once; all of it by default.
    """
    memory, regions = holder(device), propagate(kernel, tile)
    moved = traffic(
        kernel, tile, line_bytes=memory.read_bytes, write_bytes=memory.write_bytes, regions=regions
    )
    held_bytes, fits, largest = _room(kernel, device, tile, regions, steps)
    turns = waves(device, moved.tiles, resident(device, held_bytes, largest))
    sizes = tuple(sorted(tile.items()))
    return TileCost(
        sizes, moved.tile_bytes, moved.total_bytes, held_bytes, fits, moved.tiles, turns
    )


def _estimate(
    kernel: Kernel, device: Device, tile: Tile, steps: Mapping[str, int] | None = None
) -> TileCost:
    """Return `tile_cost` as if every tile were the middle one; 0 traffic if it does not fit."""
    memory, regions = holder(device), propagate(kernel, tile)
    grid = prod(count for _, count in grid_of(kernel, tile).values())
    held_bytes, fits, largest = _room(kernel, device, tile, regions, steps)
    size = (
        approximate_bytes(kernel, tile, regions, memory.read_bytes, memory.write_bytes)
        if fits
        else 0
    )
    turns = waves(device, grid, resident(device, held_bytes, largest))
    return TileCost(tuple(sorted(tile.items())), size // grid, size, held_bytes, fits, grid, turns)


def _room(
    kernel: Kernel,
    device: Device,
    tile: Tile,
    regions: Regions,
    steps: Mapping[str, int] | None,
) -> tuple[int, bool, int]:
    """Return the footprint of a tile, True if it fits, and the elements of its largest output."""
    memory, target = holder(device), target_of(device)
    align = target.align_bytes
    held_bytes = footprint(kernel, tile, align_bytes=align, regions=regions, steps=steps).bytes
    held_bytes += 0 if target.uses_thread_blocks else padded_bytes(kernel, regions)
    largest = largest_output(kernel, regions)
    fits = memory.capacity is None or held_bytes <= memory.capacity
    return held_bytes, fits and has_registers(device, largest), largest


def largest_output(kernel: Kernel, regions: Regions) -> int:
    """Return the elements of the largest part of a tensor that a task computes in registers."""
    return max(prod(inner_box(kernel, regions, c.out)) for c in kernel.computes)


def steps_of(kernel: Kernel, device: Device, tile: Tile) -> Mapping[str, int]:
    """Return how much of each reduced axis is loaded at once.

    It is all of it if that fits. Otherwise the longest step is halved until the tile fits, down to
    `LEAST_STEP_ELEMENTS` elements.
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
    """Return the sizes of a tile along an axis: divisors, small powers of two, the extent."""
    divisors = {n for n in range(1, int(extent**0.5) + 1) if extent % n == 0}
    return tuple(
        sorted({*divisors, *(extent // n for n in divisors), *(s for s in SMALL if s < extent)})
    )


def base_tile(kernel: Kernel, device: Device) -> Tile:
    """Return a tile of one of each axis, or all of an axis if that lowers the work per output.

    Examples are rows of a softmax, and windows that overlap if all of them fit (Welder artifact).
    """
    ones = dict.fromkeys(extents(kernel), 1)
    rows, tile = dict(ones), dict(ones)
    for axis, extent in extents(kernel).items():
        full_axis, half_axis = {**ones, axis: extent}, {**ones, axis: -(-extent // 2)}
        if _work(kernel, {**tile, axis: extent}) < _work(kernel, tile):
            tile[axis] = extent
        if _work(kernel, full_axis) < SHARED_WORK_RATIO * _work(kernel, half_axis):
            rows[axis] = extent
    return tile if tile == rows or _estimate(kernel, device, tile).valid else rows


def _work(kernel: Kernel, tile: Tile) -> float:
    """Return the points of all computes except those of outputs, for each element of an output."""
    regions = propagate(kernel, tile)
    total = sum(
        prod(int(regions.axes[n][a.name].size) for a in (*c.axes, *c.reduce))
        for n, c in enumerate(kernel.computes)
        if c.out not in kernel.outputs
    )
    return total / max(1, prod(tile.values()))


def best_tile(kernel: Kernel, device: Device) -> TileCost:
    """Return the tile at which a descent from the base tile, one axis at a time, ends.

    It has the least key for thread blocks, the least traffic for the units that have work for
    cores; it is the base tile if none fits.
    """
    base = base_tile(kernel, device)
    steps = steps_of(kernel, device, base)
    best = _estimate(kernel, device, base, steps)
    while True:
        larger = [_estimate(kernel, device, t, steps) for t in _steps(kernel, dict(best.tile))]
        better = min((c for c in larger if c.valid), key=lambda c: _rank(c, device), default=None)
        if better is None or (best.valid and _rank(better, device) >= _rank(best, device)):
            return tile_cost(kernel, device, dict(best.tile), steps)
        best = better


def _rank(cost: TileCost, device: Device) -> tuple[float, int]:
    if target_of(device).uses_thread_blocks:
        return cost.key, cost.grid
    return cost.traffic / cost.utilisation(device), cost.grid


def _steps(kernel: Kernel, tile: Tile) -> Iterator[Tile]:
    """Yield the tiles that are at least twice as long along one axis."""
    for axis, extent in extents(kernel).items():
        longer = [n for n in sizes_along(extent) if n >= 2 * tile[axis]]
        if tile[axis] < extent:
            yield {**tile, axis: longer[0] if longer else extent}


def curve(
    kernel: Kernel, device: Device, env: ShapeEnv = ShapeEnv(), tiles: Iterable[Tile] | None = None
) -> tuple[TileCost, ...]:
    """Return traffic against output tile: of `tiles`, else from the base tile to all of the output.

    Each is at least twice as large as the one before. Tiles that do not fit are included, not
    valid.
    """
    bound = bind_kernel(kernel, sizes_of(kernel, env))
    tiles_in_order = _grown(bound, device) if tiles is None else tiles
    return tuple(tile_cost(bound, device, t) for t in tiles_in_order)


def _grown(kernel: Kernel, device: Device) -> Iterator[Tile]:
    """Yield the base tile, then longer ones, the axis that lowers traffic most first."""
    tile = base_tile(kernel, device)
    yield tile
    while True:
        steps = list(_steps(kernel, tile))
        if not steps:
            return
        memory = holder(device)
        tile = min(steps, key=lambda t: _moved_about(kernel, memory, t))
        yield tile


def _moved_about(kernel: Kernel, memory: LevelMemory, tile: Tile) -> int:
    regions = propagate(kernel, tile)
    return approximate_bytes(kernel, tile, regions, memory.read_bytes, memory.write_bytes)
