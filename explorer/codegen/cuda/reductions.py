"""Reductions of a thread, one by one."""

from __future__ import annotations

from explorer.codegen.cuda.emitter import Emitter
from explorer.codegen.cuda.expressions import applied
from explorer.ir.combiners import COMBINERS
from explorer.ir.tile_programs.statements import Reduce
from explorer.ops.kernels.scalar import start_value


def reduce_(e: Emitter, s: Reduce) -> None:
    """A reduction one by one, the sum in a register."""
    for span in s.spans:
        e.loop(span)
    scalars = e.scalars()
    acc = f"_acc{e.expressions}"
    first = s.target if s.onto else start_value(s.combiner, s.dtype)
    e.line(f"{acc} = {e.value(scalars, first)}")
    before = e.depth
    for span in s.over:
        e.loop(span)
    inner = e.scalars()
    e.line(f"{acc} = {combined(s, acc, e.value(inner, s.expr))}")
    e.depth = before
    e.store(scalars, s.target, acc)


def combined(s: Reduce, so_far: str, value: str) -> str:
    """One more element of a reduction."""
    return applied(COMBINERS[s.combiner].step, s.dtype, [so_far, value])
