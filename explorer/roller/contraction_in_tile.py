"""Execution of a kernel's main contraction in a tile: register tiles, packing, depth blocks.

Rows whose lines would meet in the same cache sets refuse a tile.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from explorer.cost.estimate import contract_cycles
from explorer.devices.model import Device, MemoryLevel
from explorer.ir.affine import Affine
from explorer.ir.decisions.tiling import Micro
from explorer.ir.dims import Sizes, evaluate_dim, evaluate_shape
from explorer.ir.kernel import Kernel, Read
from explorer.ir.kernels.contraction import Contraction
from explorer.ir.kernels.regions import Regions, propagate
from explorer.ir.types import ITEM_BYTES
from explorer.roller.construct.alignment import cache_set, cache_sets
from explorer.roller.tile_cuts import Cut, CutShape, shape_of
from explorer.roller.weigh_tiles import private_bytes
from explorer.tile.lowering.places import row_major

VECTORS = (1, 2, 3, 4, 6, 8)  # column groups of a register tile
MOST_ROWS = 14  # of a register tile: by two vectors they take 31 of 32 registers; chosen


def register_tiles(device: Device) -> tuple[Micro, ...]:
    """Return the register tiles that fit the vector registers.

    They need rows x vectors of accumulators, a vector a column group, and one row value.
    """
    tiles_that_fit: list[Micro] = []
    for vectors in VECTORS:
        tiles = (Micro(rows, vectors, device.lanes) for rows in range(1, MOST_ROWS + 1))
        tiles_that_fit += [m for m in tiles if m.registers <= device.registers]
    return tuple(tiles_that_fit)


@dataclass(frozen=True, slots=True)
class ContractionInTile:
    """The properties of a kernel's main contraction that hold for all its tiles, computed once."""

    kernel: Kernel
    device: Device
    sizes: Sizes
    shape: CutShape
    crowded: bool
    most: int

    @staticmethod
    def of(kernel: Kernel, device: Device, sizes: Sizes) -> ContractionInTile:
        """Return those of a kernel in normal form under a binding."""
        shape = shape_of(kernel, sizes)
        crowded = shape.main is not None and has_set_conflicts(kernel, shape.main[1], device, sizes)
        most = rows_inside(shape, propagate(kernel, {}), sizes)
        return ContractionInTile(kernel, device, sizes, shape, crowded, most)

    def choice(self, cut: Cut) -> tuple[Regions, bool, int] | None:
        """Return the needs of a tile, True if it packs the right operand, and the depth block.

        Return None if rows that share cache sets would be read in place, as there are too few to
        pack for.
        """
        regions = propagate(self.kernel, dict(cut))
        rows = rows_inside(self.shape, regions, self.sizes)
        pack = self.crowded and rows >= LEAST_ROWS
        if self.crowded and not pack and self.most >= LEAST_ROWS:
            return None
        return regions, pack, _depth_block(self.shape, regions, self.device, self.sizes)


def _depth_block(shape: CutShape, regions: Regions, device: Device, sizes: Sizes) -> int:
    """Return a depth block if the rows of a tile do not stay cached for the next panel."""
    if shape.main is None:
        return 0
    depth = prod(evaluate_dim(a.extent, sizes) for a in shape.main[1].depth)
    bytes_ = rows_inside(shape, regions, sizes) * depth * ITEM_BYTES["float32"]
    block = depth_block(device)
    return block if depth > block and bytes_ > private_bytes(device) / 2 else 0


def depth_block(device: Device) -> int:
    """Return the products that are summed before the sums are stored.

    So many steps of the depth, of a vector each, fill the nearest cache.
    """
    return max(1, (device.levels[0].capacity_bytes or 0) // (device.lanes * ITEM_BYTES["float32"]))


def rows_inside(shape: CutShape, regions: Regions, sizes: Sizes) -> int:
    """Return the rows of the main contraction in a tile."""
    if shape.main is None:
        return 0
    n, match = shape.main
    extents = ((evaluate_dim(a.extent, sizes), regions.axes[n][a.name].size) for a in match.rows)
    return prod(max(1, min(extent, evaluate_dim(size, sizes))) for extent, size in extents)


def fitting_micros(
    shape: CutShape, cut: Cut, regions: Regions, device: Device, sizes: Sizes
) -> list[Micro]:
    """Return the register tiles that run this tile's main contraction in the fewest cycles."""
    if shape.main is None:
        return [Micro(1, 1, device.lanes)]
    n, match = shape.main
    ranges = regions.axes[n]

    def size(name: str, extent: int) -> int:
        return max(1, min(extent, evaluate_dim(ranges[name].size, sizes)))

    rows = prod(size(a.name, evaluate_dim(a.extent, sizes)) for a in match.rows)
    columns = size(match.column.name, evaluate_dim(match.column.extent, sizes))
    depth = prod(evaluate_dim(a.extent, sizes) for a in match.depth)
    width = dict(cut).get(shape.inner)
    fitting = [m for m in register_tiles(device) if width is None or width % m.columns == 0]
    fitting.sort(key=lambda m: contract_cycles(rows, columns, depth, m, device))
    return fitting[:2] or [Micro(1, 1, device.lanes)]


LEAST_ROWS = 32  # of a tile that pay for copying the panel; measured on a Zen 3: 16 do not


def has_set_conflicts(kernel: Kernel, match: Contraction, device: Device, sizes: Sizes) -> bool:
    """Return True if a panel of the right operand overflows its cache sets when read in place.

    Private caches of a unit are checked. A row a 4 KiB step: 1 MiB of 16 ways has 1,024 sets, of
    which every 64th is used: 256 rows; and 32 KiB of 8 ways have 64, of which one is used: 8 rows.
    """
    if match.b.tensor in kernel.constants:
        return False
    depth = 1
    steps = []
    for axis in match.depth:
        depth *= evaluate_dim(axis.extent, sizes)
        steps.append(abs(_step(kernel, match.b, axis.name, sizes)) * 4)
    step = min((s for s in steps if s), default=0)
    own = [m for m in device.levels if not m.shared and m.capacity_bytes]
    return any(_is_crowded(device, level, depth, step) for level in own)


def _is_crowded(device: Device, level: MemoryLevel, rows: int, step: int) -> bool:
    line, associativity = level.line_bytes, device.ways(level)
    if step < line or step % line:
        return False
    sets = cache_sets(level.capacity_bytes or 0, line, associativity)
    return not cache_set(rows, step, line, sets, associativity).holds


def _step(kernel: Kernel, read: Read, axis: str, sizes: Sizes) -> int:
    """Return the elements from one value of an axis to the next."""
    strides = row_major(evaluate_shape(kernel.shape(read.tensor), sizes))
    return sum(
        evaluate_dim(i.factor(axis), sizes) * evaluate_dim(s, sizes)
        for i, s in zip(read.index, strides, strict=True)
        if isinstance(i, Affine)
    )
