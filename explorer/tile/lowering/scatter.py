"""A scatter as loops over its updates: each goes to the place that data selects.

y[i, j] = sum[r] where(index[r] = i, u[r, j], 0)
->
y[i, j] = 0; for r: at i if it is index[r]: y[i, j] = y[i, j] + u[r, j] for j

If the result is only combined with another value, that is the initial value: `x + y` begins with x.
A task visits all updates, in order, and applies those of its own tile: for any tiling and schedule
each result is combined in one order.
"""

from __future__ import annotations

from collections.abc import Callable

from explorer.ir.affine import Affine, var
from explorer.ir.combiners import COMBINERS
from explorer.ir.kernel import Apply, Compute, Expr, IndexValue, Kernel, Read, reads, substitute
from explorer.ir.kernels.normal import epilogue_of
from explorer.ir.kernels.scatter import Patch, Scatter
from explorer.ir.tile_program import At, Do, For, Map, Span, Statement, TileExpr
from explorer.ops.interpreter.scalar import start_value
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


def scatter_loops(
    p: BufferPlaces, n: int, c: Compute, match: Scatter, value: Callable[[Expr], TileExpr]
) -> tuple[list[Statement], Compute | None]:
    """Return the statements of compute number `n`, and the next compute if they include it.

    `value` resolves expressions to flat buffers.
    """
    combiner, kernel = c.combiner or "sum", p.kernel
    target, spans = p.place(c.out).at(c.target), p.spans(n, c)
    begin = value(start_value(combiner, kernel.dtype(c.out)))
    after, first = _initial_value(kernel, c, COMBINERS[combiner].step) or (None, None)
    if after is not None and first is not None:
        names = {e.name: var(a.name) for e, a in zip(after.axes, c.axes, strict=True)}
        target = p.place(after.out).at(tuple(i.substitute(names) for i in after.target))
        begin = value(substitute(first, names))
    more = Do(COMBINERS[combiner].step, (target, value(match.update)))
    inner: Statement = Map(target, tuple(spans[a.name] for a in match.rows), more)
    for axis, place in reversed(match.places):
        inner = At(spans[axis.name], value(place), (inner,))
    every = spans | {s.axis: s for s in p.over(c)}
    for axis in reversed(match.points):
        inner = For(every[axis.name], (inner,))
    return [Map(target, tuple(spans.values()), begin), inner], after


def _initial_value(kernel: Kernel, c: Compute, step: str) -> tuple[Compute, Expr] | None:
    """Return the next compute and the value that it combines each result with, else None.

    It must do nothing more.
    """
    after = epilogue_of(kernel, c)
    if after is None or kernel.dtype(after.out) != kernel.dtype(c.out):
        return None
    match after.expr:
        case Apply(op, (x, y)) if op == step:
            pairs = ((x, y), (y, x))
            others = [a for a, own in pairs if isinstance(own, Read) and own.tensor == c.out]
        case _:
            return None
    loads = [r for other in others for r in reads(other)]
    if len(others) != 1 or any(r.tensor == c.out or r.fill is not None for r in loads):
        return None
    return after, others[0]
