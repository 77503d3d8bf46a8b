"""Reductions as loops: along what is summed, or along the row of results."""

from __future__ import annotations

from explorer.codegen.copies import map_
from explorer.codegen.emitter import Emitter
from explorer.codegen.expressions import Printer, affine_text
from explorer.codegen.loops import collapse
from explorer.codegen.vector_loops import vector_loop
from explorer.ir.dims import product
from explorer.ir.dtypes import (
    DType,
    computed,
    integer_limits,
    is_float,
    is_stored_otherwise,
)
from explorer.ir.kernel import Const
from explorer.ir.tile_program import (
    Fetch,
    OnePass,
    Reduce,
    TileExpr,
    fetches,
)

COMBINE = {"sum": "add_any_order", "prod": "mul_any_order", "max": "maximum", "min": "minimum"}
LEAST_ROW = 8  # results that are worth a vector


def start_value(combiner: str, dtype: DType) -> Const:
    """What a combiner begins with."""
    if combiner in ("sum", "prod"):
        return Const(float(combiner == "prod"), dtype)
    if is_float(dtype):
        return Const(float("-inf") if combiner == "max" else float("inf"), computed(dtype))
    return Const(integer_limits(dtype)[combiner == "min"], dtype)


def one_pass(e: Emitter, s: OnePass) -> None:
    """One loop over vectors; part by part where it has no such form."""
    if vector_loop(e, s):
        return
    start = e.depth
    for part in s.parts:
        if isinstance(part, Reduce):
            reduce_(e, part)
        else:
            map_(e, part.target, part.spans, part.expr)
        e.depth = start


def reduce_(e: Emitter, s: Reduce) -> None:
    if vector_loop(e, s):
        return
    first = Printer().constant(start_value(s.combiner, s.dtype))
    if _along_last(s):
        reduce_rows(e, s, first)
        return
    for span in s.spans:
        e.loop(span)
    acc = f"_acc{e.expressions}"
    e.line(f"{acc} = {first}")
    before = e.depth
    over, expr, _ = collapse(s.over, s.expr)
    for span in over:
        e.loop(span)
    e.line(f"{acc} = {combined(e, s, acc, expr)}")
    e.depth = before
    e.store(s.target, acc)


def combined(e: Emitter, s: Reduce, so_far: str, expr: TileExpr) -> str:
    text = f"{COMBINE[s.combiner]}({so_far}, {e.expression(expr)})"
    return f"bool({text})" if s.dtype == "bool" else text


def reduce_rows(e: Emitter, s: Reduce, first: str) -> None:
    """The last spatial axis innermost, so that it is the one in vectors; the sums stay in the
    target, in L1.
    """
    for span in s.spans[:-1]:
        e.loop(span)
    outside = e.depth
    e.loop(s.spans[-1])
    e.store(s.target, first)
    e.depth = outside
    for span in (*s.over, s.spans[-1]):
        e.loop(span)
    at = f"ld_{s.target.buffer.dtype}({s.target.buffer.name}, {affine_text(s.target.offset)})"
    acc = f"_acc{e.expressions}"
    e.line(f"{acc} = {at}")
    e.store(s.target, combined(e, s, acc, s.expr))


def _along_last(s: Reduce) -> bool:
    """The loads are dense along the last spatial axis, and those along the last reduced one are the
    same for a whole row: the spatial one goes innermost.

    Few reduced points with a fixed number are left to LLVM, which unrolls them and keeps the sums
    in registers.
    """
    loads = fetches(s.expr)
    sizes = [o.size for o in s.over]
    if all(isinstance(n, int) for n in sizes) and product(tuple(sizes)) <= 16:
        return False
    if is_stored_otherwise(s.target.buffer.dtype):  # sums are not rounded on the way
        return False
    if not s.spans:
        return False
    last, inner = s.spans[-1], s.over[-1].axis
    narrow = isinstance(last.size, int) and last.size < LEAST_ROW

    def reduces(f: Fetch) -> bool:
        """Dense along what is summed; one number or a window for a row of results does no harm."""
        row = f.offset.factor(last.axis) in (0, 1) and not narrow
        return f.offset.factor(inner) == 1 and not row

    return any(f.offset.factor(last.axis) == 1 for f in loads) and not any(map(reduces, loads))
