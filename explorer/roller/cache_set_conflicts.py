"""Cache set conflicts of operands that are read in place (Roller's bank rule, for caches).

Rows of a column panel that fall on the same sets evict lines that are about to be read again.
"""

from __future__ import annotations

from explorer.devices.model import Device, MemoryLevel
from explorer.ir.affine import Affine
from explorer.ir.kernel import Kernel, Read
from explorer.ir.patterns.contraction import Contraction
from explorer.ir.shapes.dims import Sizes, evaluate_dim, evaluate_shape
from explorer.roller.construct.alignment import cache_set, cache_sets
from explorer.tile.lowering.places import row_major

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
