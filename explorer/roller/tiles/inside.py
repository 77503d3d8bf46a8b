"""How the main contraction of a kernel runs inside of a tile: register tiles, packing, blocks of
its depth.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from explorer.cost.estimate import contract_cycles
from explorer.devices.model import Device
from explorer.ir.decisions.tiling import Micro
from explorer.ir.kernel import Kernel
from explorer.ir.patterns.regions import Regions, propagate
from explorer.ir.shapes.dims import Sizes, evaluate_dim
from explorer.ir.types import ITEM_BYTES
from explorer.roller.cache_set_conflicts import LEAST_ROWS, lies_crowded
from explorer.roller.tiles.cuts import Cut, Shape, shape_of
from explorer.roller.tiles.weigh import private_bytes

VECTORS = (1, 2, 3, 4, 6, 8)  # column groups of a register tile
MOST_ROWS = 14  # of a register tile: by two vectors they take 31 of 32 registers; chosen


def register_tiles(device: Device) -> tuple[Micro, ...]:
    """Register tiles that fill the vector registers: rows x vectors of accumulators, a vector a
    column group, one row value.
    """
    found: list[Micro] = []
    for vectors in VECTORS:
        tiles = (Micro(rows, vectors, device.lanes) for rows in range(1, MOST_ROWS + 1))
        found += [m for m in tiles if m.registers <= device.registers]
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Inside:
    """How the main contraction of a kernel runs inside of tiles: worked out once a kernel."""

    kernel: Kernel
    device: Device
    sizes: Sizes
    shape: Shape
    crowded: bool
    most: int

    @staticmethod
    def of(kernel: Kernel, device: Device, sizes: Sizes) -> Inside:
        """For a kernel in normal form under a binding."""
        shape = shape_of(kernel, sizes)
        crowded = shape.main is not None and lies_crowded(kernel, shape.main[1], device, sizes)
        most = rows_inside(shape, propagate(kernel, {}), sizes)
        return Inside(kernel, device, sizes, shape, crowded, most)

    def choice(self, cut: Cut) -> tuple[Regions, bool, int] | None:
        """What a tile needs, whether the right operand is packed in it, and the depth block; None
        where rows that share cache sets would be read in place for want of rows to pack for.
        """
        regions = propagate(self.kernel, dict(cut))
        rows = rows_inside(self.shape, regions, self.sizes)
        pack = self.crowded and rows >= LEAST_ROWS
        if self.crowded and not pack and self.most >= LEAST_ROWS:
            return None
        return regions, pack, _depth_block(self.shape, regions, self.device, self.sizes)


def _depth_block(shape: Shape, regions: Regions, device: Device, sizes: Sizes) -> int:
    """Sums in blocks where the rows of a tile are too many bytes to stay for the next panel."""
    if shape.main is None:
        return 0
    depth = prod(evaluate_dim(a.extent, sizes) for a in shape.main[1].depth)
    bytes_ = rows_inside(shape, regions, sizes) * depth * ITEM_BYTES["float32"]
    block = depth_block(device)
    return block if depth > block and bytes_ > private_bytes(device) / 2 else 0


def depth_block(device: Device) -> int:
    """Products that are summed before the sums rest: so many steps of the depth, of a vector each,
    fill the nearest cache.
    """
    return max(1, (device.levels[0].capacity_bytes or 0) // (device.lanes * ITEM_BYTES["float32"]))


def rows_inside(shape: Shape, regions: Regions, sizes: Sizes) -> int:
    """Rows of the main contraction in a tile."""
    if shape.main is None:
        return 0
    n, found = shape.main
    sides = ((evaluate_dim(a.extent, sizes), regions.axes[n][a.name].size) for a in found.rows)
    return prod(max(1, min(extent, evaluate_dim(size, sizes))) for extent, size in sides)


def fitting_micros(
    shape: Shape, cut: Cut, regions: Regions, device: Device, sizes: Sizes
) -> list[Micro]:
    """The register tiles that iterate over this tile's main contraction in the fewest cycles."""
    if shape.main is None:
        return [Micro(1, 1, device.lanes)]
    n, found = shape.main
    ranges = regions.axes[n]

    def size(name: str, extent: int) -> int:
        return max(1, min(extent, evaluate_dim(ranges[name].size, sizes)))

    rows = prod(size(a.name, evaluate_dim(a.extent, sizes)) for a in found.rows)
    columns = size(found.column.name, evaluate_dim(found.column.extent, sizes))
    depth = prod(evaluate_dim(a.extent, sizes) for a in found.depth)
    width = dict(cut).get(shape.inner)
    fitting = [m for m in register_tiles(device) if width is None or width % m.columns == 0]
    fitting.sort(key=lambda m: contract_cycles(rows, columns, depth, m, device))
    return fitting[:2] or [Micro(1, 1, device.lanes)]
