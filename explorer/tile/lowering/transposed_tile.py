"""Results that are dense along rows: a tile is finished as computed, then copied transposed."""

from __future__ import annotations

from dataclasses import replace

from explorer.ir.affine import Affine, var
from explorer.ir.shapes.dims import product
from explorer.ir.tile_programs.elements import Fetch
from explorer.ir.tile_programs.statements import Map, Span, Statement
from explorer.tile.lowering.places import BufferPlaces, row_major

LEAST_SIDE_ELEMENTS = 16  # for a block in registers to pay; chosen, no measurement kept


def transposed_tile(
    p: BufferPlaces, name: str, rows: tuple[Span, ...], column: Span, epilogue: Map
) -> tuple[Map, list[Statement]]:
    """Return the epilogue of a register tile, and the copies after all tiles.

    `y[c, r] = f(sum)` becomes `tile[r, c] = f(sum)`, then `y[c, r] = tile[r, c]`, where `r` is
    dense in `y` and `c` is not.
    """
    sizes = transposed_sizes(rows, column, epilogue.target)
    if sizes is None:
        return epilogue, []
    target = epilogue.target
    buffer = p.buffer(f"{name}_turned", "scratch", product(sizes), target.buffer.dtype, "L2")
    at = Affine()
    for span, stride in zip((*rows, column), row_major(sizes), strict=True):
        at = at + (var(span.axis) - span.base) * stride
    tile = Fetch(buffer, at)
    return replace(epilogue, target=tile), [Map(target, (column, *rows), tile)]


def transposed_sizes(rows: tuple[Span, ...], column: Span, target: Fetch) -> tuple[int, ...] | None:
    """Return the extents of the tile that is copied, or None.

    None if results are dense as they are computed, or if too few of them are contiguous.
    """
    step, sizes = target.offset.factor(column.axis), [s.size for s in (*rows, column)]
    extents = tuple(n for n in sizes if isinstance(n, int))
    if len(extents) != len(sizes) or not isinstance(step, int) or target.dynamic or step in (0, 1):
        return None
    few = _run(target, rows) < LEAST_SIDE_ELEMENTS or extents[-1] < LEAST_SIDE_ELEMENTS
    return None if few else extents


def _run(target: Fetch, rows: tuple[Span, ...]) -> int:
    """Return how many rows are contiguous in the target."""
    run = 1
    for span in reversed(rows):
        if target.offset.factor(span.axis) != run or not isinstance(span.size, int):
            break
        run *= span.size
        if span.clip_low or span.clip_high or span.size != span.extent:
            break
    return run
