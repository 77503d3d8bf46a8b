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
    target, sizes = epilogue.target, [s.size for s in (*rows, column)]
    step = target.offset.factor(column.axis)
    whole = [n for n in (*sizes, step) if isinstance(n, int)]
    if len(whole) != len(sizes) + 1 or target.dynamic or step in (0, 1):
        return epilogue, []
    run = _run(target, rows)
    if run < LEAST_SIDE_ELEMENTS or whole[-2] < LEAST_SIDE_ELEMENTS:
        return epilogue, []
    room = p.buffer(f"{name}_turned", "scratch", product(whole[:-1]), target.buffer.dtype, "L2")
    at = Affine()
    for span, stride in zip((*rows, column), row_major(tuple(whole[:-1])), strict=True):
        at = at + (var(span.axis) - span.base) * stride
    tile = Fetch(room, at)
    return replace(epilogue, target=tile), [Map(target, (column, *rows), tile)]


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
