"""The cost of an output tile of a group in one memory, with inputs loaded in reduce steps.

It has bytes moved and held, resident tasks of a unit, waves, and threads (Welder, section 3.2, and
its artifact).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from math import gcd, inf, prod

from explorer.cost.bind_kernel import extents
from explorer.cost.footprint import footprint, inner_box
from explorer.cost.traffic import traffic
from explorer.devices.model import Device, LevelMemory
from explorer.devices.target import target_of
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.regions import Regions, propagate
from explorer.process.cancellation import raise_if_cancelled
from explorer.welder.tiles.levels import has_registers, resident, waves

MOST_THREADS, WANTED_THREADS = 1024, 128  # of a block (Welder artifact)
Sizes = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class SizedTile:
    """One output tile in a memory.

    `together`: tasks that a unit holds at the same time; `grid` tasks are taken in `waves`; `even`:
    every compute is cut into as many parts as the output.
    """

    tile: Sizes  # by axis of the output, all of them
    steps: Sizes  # by reduced axis
    moved_bytes: int
    held_bytes: int
    room_bytes: int | None
    fits: bool
    even: bool
    grid: int
    together: int
    waves: int
    threads: int

    @property
    def key(self) -> float:
        """The rank of the artifact: (traffic + 1) * waves; infinite if the tile does not fit."""
        return float((self.moved_bytes + 1) * self.waves) if self.fits else inf

    def cut_of(self, kernel: Kernel) -> Sizes:
        """Return the sizes of the axes that are cut, in the order of the output's axes."""
        tile = dict(self.tile)
        return tuple((a, tile[a]) for a, n in extents(kernel).items() if tile.get(a, n) < n)

    def renamed(self, names: Mapping[str, str]) -> SizedTile:
        """Return the tile for a kernel whose axes have other names."""
        tile = tuple(sorted((names.get(a, a), n) for a, n in self.tile))
        steps = tuple(sorted((names.get(a, a), n) for a, n in self.steps))
        return replace(self, tile=tile, steps=steps)

    def used(self, device: Device) -> float:
        """Return the share of the units that have a task, over all waves."""
        return self.grid / (self.waves * self.together * device.units)


def size_tile(
    kernel: Kernel,
    device: Device,
    memory: LevelMemory,
    tile: Mapping[str, int],
    steps: Mapping[str, int] | None = None,
) -> SizedTile:
    """Return the cost of a tile of a kernel of fixed extents; each tile loads its operands again.

    Raises:
        Cancelled: the compilation is no longer needed; a search visits thousands of tiles.
    """
    raise_if_cancelled("weighing tiles")
    regions = propagate(kernel, tile)
    moved = traffic(
        kernel, tile, line_bytes=memory.read_bytes, write_bytes=memory.write_bytes, regions=regions
    )
    footprint_bytes = _footprint_bytes(kernel, device, tile, regions, steps)
    boxes = [prod(inner_box(kernel, regions, t)) for t in regions.tensors]
    largest = max(boxes, default=1)
    has_threads = target_of(device).uses_thread_blocks
    fits = memory.capacity is None or footprint_bytes <= memory.capacity
    together = resident(device, footprint_bytes, largest)
    return SizedTile(
        tuple(sorted(tile.items())), tuple(sorted((steps or {}).items())),
        moved.total_bytes, footprint_bytes, memory.capacity,
        fits and has_registers(device, largest),
        _is_even(kernel, regions, moved.tiles), moved.tiles, together,
        waves(device, moved.tiles, together), _threads(kernel, regions) if has_threads else 1,
    )  # fmt: skip


def in_steps(
    kernel: Kernel, device: Device, tile_cost: SizedTile, steps: Mapping[str, int]
) -> SizedTile:
    """Return the same tile in other reduce steps: the footprint changes, the traffic does not."""
    tile = dict(tile_cost.tile)
    footprint_bytes = _footprint_bytes(kernel, device, tile, propagate(kernel, tile), steps)
    fits = tile_cost.room_bytes is None or footprint_bytes <= tile_cost.room_bytes
    return replace(
        tile_cost,
        steps=tuple(sorted(steps.items())),
        held_bytes=footprint_bytes,
        fits=tile_cost.fits and fits,
    )


def _footprint_bytes(
    kernel: Kernel,
    device: Device,
    tile: Mapping[str, int],
    regions: Regions,
    steps: Mapping[str, int] | None,
) -> int:
    align = target_of(device).align_bytes
    return footprint(kernel, tile, align_bytes=align, steps=steps, regions=regions).bytes


def _is_even(kernel: Kernel, regions: Regions, grid: int) -> bool:
    """Return True if each compute's own grid is the group's, so that no two tasks repeat work."""
    return all(
        prod(-(-int(a.extent) // max(1, int(regions.axes[n][a.name].size))) for a in c.axes) == grid
        for n, c in enumerate(kernel.computes)
    )


def _threads(kernel: Kernel, regions: Regions) -> int:
    """Return the threads that all computes of a group share.

    It is the common divisor of all their tiles that is nearest to 128.
    """
    tiles = [
        prod(max(1, int(regions.axes[n][a.name].size)) for a in c.axes)
        for n, c in enumerate(kernel.computes)
    ]
    common = reduce(gcd, tiles)
    divisors = [n for n in range(1, min(common, MOST_THREADS) + 1) if common % n == 0]
    return min(divisors, key=lambda n: (abs(n - WANTED_THREADS), n))
