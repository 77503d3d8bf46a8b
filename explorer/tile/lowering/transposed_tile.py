"""Results that lie dense along rows, not along columns: a tile is finished as it is computed, then
copied with its axes swapped.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.ir.affine import Affine, var
from explorer.ir.shapes.dims import product
from explorer.ir.tile_programs.elements import Fetch
from explorer.ir.tile_programs.statements import Map, Span, Statement
from explorer.tile.lowering.places import Places, row_major

LEAST_SIDE_ELEMENTS = 16  # that are worth a block in registers; chosen, no measurement kept


def turned_tile(
    p: Places, name: str, rows: tuple[Span, ...], column: Span, epilogue: Map
) -> tuple[Map, list[Statement]]:
    """The epilogue of a register tile, and what is copied when all of them are done.

    `y[c, r] = f(sum)` becomes `tile[r, c] = f(sum)`, then `y[c, r] = tile[r, c]`, where `r` is
    dense in `y` and `c` is not.
    """
    sizes = turned_sizes(rows, column, epilogue.target)
    if sizes is None:
        return epilogue, []
    target = epilogue.target
    room = p.buffer(f"{name}_turned", "scratch", product(sizes), target.buffer.dtype, "L2")
    at = Affine()
    for span, stride in zip((*rows, column), row_major(sizes), strict=True):
        at = at + (var(span.axis) - span.base) * stride
    tile = Fetch(room, at)
    return replace(epilogue, target=tile), [Map(target, (column, *rows), tile)]


def turned_sizes(rows: tuple[Span, ...], column: Span, target: Fetch) -> tuple[int, ...] | None:
    """The extents of the tile that is copied; None where results lie as they are computed, or too
    few of them do side by side.
    """
    step, sizes = target.offset.factor(column.axis), [s.size for s in (*rows, column)]
    whole = tuple(n for n in sizes if isinstance(n, int))
    if len(whole) != len(sizes) or not isinstance(step, int) or target.dynamic or step in (0, 1):
        return None
    few = _run(target, rows) < LEAST_SIDE_ELEMENTS or whole[-1] < LEAST_SIDE_ELEMENTS
    return None if few else whole


def _run(target: Fetch, rows: tuple[Span, ...]) -> int:
    """How many rows follow each other in the target."""
    run = 1
    for span in reversed(rows):
        if target.offset.factor(span.axis) != run or not isinstance(span.size, int):
            break
        run *= span.size
        if span.clip_low or span.clip_high or span.size != span.extent:
            break
    return run
