"""A patch as loops over the part that changes: all other elements stay in place.

y[i, j] = where(p <= i < p + 2, u[i - p, j], x[i, j]), y over x
->
for r < 2: at i if it is p + r: y[i, j] = u[i - p, j] for j
"""

from __future__ import annotations

from collections.abc import Callable

from explorer.ir.affine import Affine, var
from explorer.ir.kernel import Compute, Expr, IndexValue
from explorer.ir.patterns.scatter import Patch
from explorer.ir.tile_program import At, Do, For, Map, Span, Statement, TileExpr
from explorer.tile.lowering.places import BufferPlaces


def patch_loops(
    p: BufferPlaces, n: int, c: Compute, match: Patch, value: Callable[[Expr], TileExpr]
) -> Statement:
    """Return the statement of the compute with number `n`; `value` resolves expressions."""
    spans = p.spans(n, c)
    rows = tuple(spans[a.name] for a in match.rows)
    inner: Statement = Map(p.place(c.out).at(c.target), rows, value(match.update))
    for part in reversed(match.parts):
        start, span = value(part.start), spans[part.axis.name]
        if part.size == 1:
            inner = At(span, start, (inner,))
            continue
        step = f"_{part.axis.name}"
        place = Do("add", (start, IndexValue(var(step))))
        inner = For(Span(step, Affine(), part.size, part.size), (At(span, place, (inner,)),))
    for axis in reversed(match.apart):
        inner = For(spans[axis.name], (inner,))
    return inner
