"""Packing of a right operand into the panels of a micro-kernel."""

from __future__ import annotations

from explorer.codegen.cpu.contraction.pack_groups import pack_elements
from explorer.codegen.cpu.contraction.pack_runs import pack_runs
from explorer.codegen.cpu.copies import turn_to
from explorer.codegen.cpu.emitter import Emitter
from explorer.codegen.cpu.expressions import Printer, affine_text, dim_text
from explorer.ir.affine import Affine, var
from explorer.ir.shapes.dims import Dim, product
from explorer.ir.tile_programs.statements import Pack


def pack(e: Emitter, s: Pack) -> None:
    """Print the packing of columns into panels."""
    if s.target.dtype != "float32":
        pack_elements(e, s)
        return
    place: Affine = Affine()
    total: Dim = 1
    for k in reversed(s.depth):
        place = place + var(k.axis) * product((total, s.lanes))
        total = product((total, k.size))
    block = dim_text(product((total, s.lanes)))
    _columns_into_panels(e, s, block, place)
    lo, hi = e.bounds(s.columns)
    size = s.columns.size
    if s.columns.clip_high or not isinstance(size, int) or size % s.lanes:
        text = dim_text(size)
        e.line(
            f"for _c in range({hi} - ({lo}), udiv({text} + {s.lanes - 1}, {s.lanes}) * {s.lanes}):"
        )
        e.line(f"    for _k in range({dim_text(total)}):")
        zero = f"udiv(_c, {s.lanes}) * {block} + urem(_c, {s.lanes}) + _k * {s.lanes}"
        e.line(f"        st_float32({s.target.name}, {zero}, F(0.0))")


def _columns_into_panels(e: Emitter, s: Pack, block: str, place: Affine) -> None:
    """Print the copy in runs, in 16 x 16 blocks for a transpose, or a panel's row at a time."""
    n, start, deep = s.columns.axis, e.depth, affine_text(place)
    lo, hi = e.bounds(s.columns)
    c = affine_text(var(n) - s.columns.base)
    panel = f"udiv({c}, {s.lanes}) * {block} + urem({c}, {s.lanes})"
    if pack_runs(e, s, panel, place):
        return
    dense = s.source.offset.factor(s.depth[-1].axis) == 1
    if s.source.offset.factor(n) != 1 and dense and s.lanes % 16 == 0:
        at = f"{panel} + {deep}"
        for span in s.depth[:-1]:
            e.loop(span)
        turn_to(e, s.columns, s.depth[-1], s.source, s.target.name, at, str(s.lanes))
        e.depth = start
        return
    e.line(f"_whole = {lo} + udiv({hi} - ({lo}), {s.lanes}) * {s.lanes}")
    for panels, end in ((f"{lo}, _whole", f"_c + {s.lanes}"), (f"_whole, {hi}", hi)):
        e.line(f"for _c in range({panels}, {s.lanes}):")
        e.depth += 1
        e.line(f"_at = udiv(_c - ({lo}), {s.lanes}) * {block}")
        for span in s.depth:
            e.loop(span)
        e.line(f"for {n} in range(_c, {end}):")
        e.depth += 1
        source = Printer().fetch(s.source)
        e.line(f"st_float32({s.target.name}, _at + {n} - _c + {deep}, {source})")
        e.depth = start
