"""Variants of thread blocks: products on matrix units, and sums that several threads share.

Tiles on matrix units are aligned to the instruction (Roller, section 3.2): 16 rows, 8 columns and
16 of the depth.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from explorer.devices.model import Device
from explorer.ir.affine import Affine
from explorer.ir.decisions.tiling import Tiling, thread_block
from explorer.ir.dims import evaluate_dim
from explorer.ir.dtypes import HALF_FLOATS
from explorer.ir.kernel import Apply, Axis, Compute, Expr, Kernel, Read
from explorer.ir.kernels.contraction import contraction
from explorer.roller.blocks.fitting_block import Walks, cut_block
from explorer.tile.gpu.matrix_units import (
    COLUMNS,
    DEPTH,
    LANE_COLUMNS,
    LANE_ROWS,
    OWN,
    ROWS,
)

PIECES = (
    (1, 1),
    (1, 2),
    (1, 4),
    (2, 2),
    (2, 4),
    (4, 4),
    (2, 8),
)  # of a warp: rows, columns; chosen
WARPS = ((1, 1), (1, 2), (2, 1), (2, 2), (2, 4), (4, 2), (4, 4))  # of a block, likewise; chosen
CHUNKS = (1, 2, 4)  # of pieces along the depth in shared memory at once; chosen
MOST_WASTED_RATIO = 4  # computed results per stored one, along an axis; chosen


@dataclass(frozen=True, slots=True)
class Product:
    """A product for matrix units: rows, column and depth axis of its pieces, and all extents.

    The row along which pieces lie comes first.
    """

    rows: tuple[Axis, ...]
    column: Axis
    depth: Axis
    compute: Compute
    extents: Mapping[str, int]


def products_of_pieces(kernel: Kernel, c: Compute) -> Iterator[Product]:
    """Yield the compute as a product of 16-bit floats summed in float32; nothing for any other.

    Pieces lie along the rows of which they waste least, and along those that are contiguous in
    memory.
    """
    match = contraction(c)
    if match is None or kernel.dtype(c.out) != "float32" or not match.rows:
        return
    dtypes = {kernel.dtype(r.tensor) for r in (match.a, match.b)}
    if len(dtypes) > 1 or not dtypes <= set(HALF_FLOATS) or not _is_plain(c.expr):
        return
    extents = {a.name: max(1, evaluate_dim(a.extent, {})) for a in (*c.axes, *c.reduce)}

    def waste(a: Axis) -> float:
        return -(-extents[a.name] // ROWS) * ROWS / extents[a.name]

    rows = sorted(match.rows, key=lambda a: (waste(a), -extents[a.name]))
    last = [i for r in (match.a, match.b) if isinstance(i := r.index[-1], Affine)]
    dense = sorted(rows, key=lambda a: not any(i.factor(a.name) == 1 for i in last))
    depth = max(match.depth, key=lambda a: extents[a.name])
    for order in dict.fromkeys((tuple(rows), tuple(dense))):
        yield Product(order, match.column, depth, c, extents)


def _is_plain(expr: Expr) -> bool:
    """Return True if an expression is just the product of two elements converted to float32."""
    match expr:
        case Apply("mul", (Apply("cast_float32", (Read(),)), Apply("cast_float32", (Read(),)))):
            return True
    return False


def matrix_blocks(
    kernel: Kernel, c: Compute, device: Device, every: Sequence[Walks]
) -> Iterator[tuple[Tiling, str]]:
    """Yield blocks of so many pieces a warp and warps a block, each with a label.

    There are none if the compute or the device uses no matrix units. `every` are the alternative
    sets of axes that blocks may cut.
    """
    if not device.has_matrix_units:
        return
    for candidate, pieces in product(products_of_pieces(kernel, c), PIECES):
        words = pieces[0] * pieces[1] * OWN * OWN + pieces[0] * 4 + pieces[1] * 2
        if words > device.thread_registers:
            continue
        for warps in WARPS:
            if warps[0] * warps[1] * device.lanes > device.block_threads:
                continue
            for chunk in CHUNKS:
                for walks in every:
                    block = _block(kernel, candidate, pieces, warps, chunk, walks)
                    if block is not None:
                        yield block


def _block(
    kernel: Kernel,
    p: Product,
    pieces: tuple[int, int],
    warps: tuple[int, int],
    chunk: int,
    walks: Walks,
) -> tuple[Tiling, str] | None:
    """Return a block, or None if a smaller one does the same or most of it is out of bounds."""
    depth = p.extents[p.depth.name]
    if chunk > 1 and (chunk // 2) * DEPTH >= depth:
        return None
    sizes = dict.fromkeys(p.extents, 1)
    register, threads = dict.fromkeys((a.name for a in p.compute.axes), 1), 1
    left = list(pieces), list(warps)
    for n, (axes, lanes, size) in enumerate(
        ((p.rows, LANE_ROWS, ROWS), ((p.column,), LANE_COLUMNS, COLUMNS))
    ):
        for place, a in enumerate(axes):
            extent = p.extents[a.name]
            piece, own, each = (size, OWN, lanes) if place == 0 else (1, 1, 1)
            mine = _share(left[0][n], -(-extent // piece))
            left[0][n] //= mine
            there = _share(left[1][n], -(-extent // (piece * mine)))
            left[1][n] //= there
            sizes[a.name], register[a.name] = piece * mine * there, own * mine
            if place == 0 and sizes[a.name] > MOST_WASTED_RATIO * extent and mine * there > 1:
                return None
            threads *= each * there
    if any(n > 1 for some in left for n in some):
        return None
    for a in p.compute.reduce:
        sizes[a.name] = p.extents[a.name]
    sizes[p.depth.name] = min(chunk * DEPTH, -(-depth // DEPTH) * DEPTH)
    matrix = p.rows[0].name, p.column.name, p.depth.name
    block = cut_block(kernel, p.compute, sizes, register, threads, walks)
    rows, columns = (pieces[n] * warps[n] * size for n, size in enumerate((ROWS, COLUMNS)))
    label = f"{rows}x{columns}x{sizes[p.depth.name]} on matrix units"
    return thread_block(block.tile, block.threads, block.register, block.shared, (), matrix), label


def _share(wanted: int, there: int) -> int:
    """Return the largest power of two up to `wanted` that is of use for `there`."""
    while wanted > 1 and wanted // 2 >= there:
        wanted //= 2
    return wanted


STEP_RATIO = 2  # from one neighbour to the next; chosen
MOST_RATIO = 8  # to the next divisor of an axis; chosen
MOST_THREADS = 32  # per sum, as parts are added sequentially; chosen


def sharing(block: Tiling, reduced: Mapping[str, int], device: Device) -> Iterator[Tiling]:
    """Yield the neighbours of a block; `reduced` are its reduced axes with their extents."""
    chunks, parts = dict(block.shared), dict(block.parts)
    for axis, extent in reduced.items():
        count = parts.get(axis, 1)
        share = extent // count
        chunk = min(chunks.get(axis, share), share)
        deeper = _next(chunk, share)
        if deeper:
            yield _with(block, axis, deeper, count)
        if parts.keys() - {axis}:
            continue
        each = block.threads // count
        most = min(MOST_THREADS, device.block_threads // max(1, each))
        for more in dict.fromkeys((_next(count, extent), _largest(extent, most))):
            if not count < more <= most:
                continue
            wider, left = replace(block, threads=each * more), extent // more
            for size in (chunk, -(-chunk * count // more)):  # per part, or of all parts
                yield _with(wider, axis, _largest(left, size), more)


def _with(block: Tiling, axis: str, chunk: int, parts: int) -> Tiling:
    shared = tuple((a, chunk if a == axis else n) for a, n in block.shared)
    other_parts = tuple((a, n) for a, n in block.parts if a != axis)
    return replace(
        block, shared=shared, parts=(*other_parts, *(((axis, parts),) if parts > 1 else ()))
    )


def _next(size: int, extent: int) -> int:
    """Return the next divisor of an extent that is `STEP_RATIO` larger; 0 if none is near."""
    least, most = size * STEP_RATIO, min(extent, size * MOST_RATIO)
    return next((n for n in range(least, most + 1) if extent % n == 0), 0)


def _largest(extent: int, most: int) -> int:
    """Return the largest divisor of an extent up to a number."""
    return max(n for n in range(1, max(1, min(most, extent)) + 1) if extent % n == 0)
