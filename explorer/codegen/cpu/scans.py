"""Scans that have no vector form."""

from __future__ import annotations

from explorer.codegen.cpu.emitter import Emitter
from explorer.codegen.cpu.expressions import Printer, dim_text
from explorer.codegen.cpu.reductions import combined
from explorer.ir.tile_programs.statements import Reduce, Scan
from explorer.ops.kernels.scalar import start_value


def scan(e: Emitter, s: Scan) -> None:
    """Print a scan element by element; a number is carried along each row."""
    for span in s.spans:
        e.loop(span)
    acc, count = f"_acc{e.expressions}", dim_text(s.over.size)
    e.line(f"{acc} = {Printer().constant(start_value(s.combiner, s.dtype))}")
    t = f"_{s.over.axis}"
    e.line(f"for {t} in range({count}):")
    e.depth += 1
    e.line(f"{s.over.axis} = {f'{count} - 1 - {t}' if s.backwards else t}")
    if s.exclusive:
        e.store(s.target, acc)
    reduction = Reduce(s.target, (), (), s.combiner, s.expr, s.dtype)
    e.line(f"{acc} = {combined(e, reduction, acc, s.expr)}")
    if not s.exclusive:
        e.store(s.target, acc)
