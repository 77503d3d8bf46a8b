"""What an output tile of a group costs in one memory when inputs are taken in reduce steps: bytes
moved and held, tasks that a unit has at once, waves, threads (Welder, section 3.2, and its
artifact).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from math import gcd, inf, prod

from explorer.cost.bound import extents
from explorer.cost.footprint import ALIGN_BYTES, GPU_ALIGN_BYTES, footprint, inner_box
from explorer.cost.traffic import traffic
from explorer.devices.model import Device
from explorer.ir.kernel import Kernel
from explorer.ir.patterns.regions import Regions, propagate
from explorer.ops.reference.cancellation import end_if_unwanted
from explorer.welder.tiles.levels import Memory, has_registers, resident, waves

MOST_THREADS, WANTED_THREADS = 1024, 128  # of a block (Welder artifact)
Sizes = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Sized:
    """One output tile in a memory. `together`: tasks that a unit holds at the same time; `grid`
    tasks are taken in `waves`; `even`: every compute is cut into as many parts as the output.
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
        """What the artifact ranks by: (traffic + 1) * waves; infinite where there is no room."""
        return float((self.moved_bytes + 1) * self.waves) if self.fits else inf

    def cut_of(self, kernel: Kernel) -> Sizes:
        """The sizes by axis that is cut, in the order of the output's axes."""
        tile = dict(self.tile)
        return tuple((a, tile[a]) for a, n in extents(kernel).items() if tile.get(a, n) < n)

    def renamed(self, names: Mapping[str, str]) -> Sized:
        """The same for a kernel whose axes have other names."""
        tile = tuple(sorted((names.get(a, a), n) for a, n in self.tile))
        steps = tuple(sorted((names.get(a, a), n) for a, n in self.steps))
        return replace(self, tile=tile, steps=steps)

    def used(self, device: Device) -> float:
        """The share of the units that have a task, over all waves."""
        return self.grid / (self.waves * self.together * device.units)


def sized(
    kernel: Kernel,
    device: Device,
    memory: Memory,
    tile: Mapping[str, int],
    steps: Mapping[str, int] | None = None,
) -> Sized:
    """The cost of a tile of a kernel with numbers for dims; each tile loads what it needs anew.
    Raises Cancelled where nobody wants it any more: a search looks at thousands.
    """
    end_if_unwanted("weighing tiles")
    regions = propagate(kernel, tile)
    moved = traffic(
        kernel, tile, line_bytes=memory.read_bytes, write_bytes=memory.write_bytes, regions=regions
    )
    held = _held(kernel, device, tile, regions, steps)
    boxes = [prod(inner_box(kernel, regions, t)) for t in regions.tensors]
    largest = max(boxes, default=1)
    on_gpu = device.kind == "gpu"
    fits = memory.capacity is None or held <= memory.capacity
    together = resident(device, held, largest)
    return Sized(
        tuple(sorted(tile.items())), tuple(sorted((steps or {}).items())),
        moved.total_bytes, held, memory.capacity,
        fits and has_registers(device, largest),
        _is_even(kernel, regions, moved.tiles), moved.tiles, together,
        waves(device, moved.tiles, together), _threads(kernel, regions) if on_gpu else 1,
    )  # fmt: skip


def in_steps(kernel: Kernel, device: Device, found: Sized, steps: Mapping[str, int]) -> Sized:
    """The same tile in other reduce steps: what is held changes, what moves does not."""
    tile = dict(found.tile)
    held = _held(kernel, device, tile, propagate(kernel, tile), steps)
    fits = found.room_bytes is None or held <= found.room_bytes
    return replace(
        found, steps=tuple(sorted(steps.items())), held_bytes=held, fits=found.fits and fits
    )


def _held(
    kernel: Kernel,
    device: Device,
    tile: Mapping[str, int],
    regions: Regions,
    steps: Mapping[str, int] | None,
) -> int:
    align = GPU_ALIGN_BYTES if device.kind == "gpu" else ALIGN_BYTES
    return footprint(kernel, tile, align_bytes=align, steps=steps, regions=regions).bytes


def _is_even(kernel: Kernel, regions: Regions, grid: int) -> bool:
    """Whether each compute's own grid is the group's: then no two tasks compute the same."""
    return all(
        prod(-(-int(a.extent) // max(1, int(regions.axes[n][a.name].size))) for a in c.axes) == grid
        for n, c in enumerate(kernel.computes)
    )


def _threads(kernel: Kernel, regions: Regions) -> int:
    """The threads that all computes of a group share: the divisor of all their tiles that is
    nearest to 128.
    """
    tiles = [
        prod(max(1, int(regions.axes[n][a.name].size)) for a in c.axes)
        for n, c in enumerate(kernel.computes)
    ]
    common = reduce(gcd, tiles)
    divisors = [n for n in range(1, min(common, MOST_THREADS) + 1) if common % n == 0]
    return min(divisors, key=lambda n: (abs(n - WANTED_THREADS), n))
