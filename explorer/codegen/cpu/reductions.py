"""Reductions as loops along the reduced axes, or along the row of results."""

from __future__ import annotations

from explorer.codegen.cpu.emitter import Emitter
from explorer.codegen.cpu.expressions import Printer, affine_text
from explorer.ir.combiners import COMBINERS
from explorer.ir.tile_programs.elements import TileExpr
from explorer.ir.tile_programs.statements import Reduce
from explorer.ops.kernels.scalar import start_value

ANY_ORDER = {"add": "add_any_order", "mul": "mul_any_order"}  # which LLVM may vectorise


def reduce_(e: Emitter, s: Reduce) -> None:
    """Print a reduction element by element; the sums are in a register."""
    first = Printer().constant(start_value(s.combiner, s.dtype))
    for span in s.spans:
        e.loop(span)
    acc = f"_acc{e.expressions}"
    e.line(f"{acc} = {first}")
    before = e.depth
    for span in s.over:
        e.loop(span)
    e.line(f"{acc} = {combined(e, s, acc, s.expr)}")
    e.depth = before
    e.store(s.target, acc)


def combined(e: Emitter, s: Reduce, so_far: str, expr: TileExpr) -> str:
    """Return the text of one more step of a reduction."""
    step, value = COMBINERS[s.combiner].step, e.expression(expr)
    if step in ANY_ORDER:
        text = f"{ANY_ORDER[step]}({so_far}, {value})"
    else:
        text = Printer().applied(step, s.dtype, [so_far, value])
    return f"bool({text})" if s.dtype == "bool" else text


def reduce_rows(e: Emitter, s: Reduce) -> None:
    """Print a reduction with the last spatial axis innermost, so that it is vectorised.

    The sums stay in the target, in L1.
    """
    first = Printer().constant(start_value(s.combiner, s.dtype))
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
