"""Packing inside of a task, for any element: columns to panels, small integers in groups along the
depth.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.codegen.cpu.emitter import Emitter
from explorer.codegen.cpu.expressions import Printer, affine_text, dim_text
from explorer.ir.affine import var
from explorer.ir.kernel import Const
from explorer.ir.shapes.dims import Dim, ceil_div, product
from explorer.ir.tile_programs.statements import Pack

MOVED_AS = {"float16": "uint16", "bfloat16": "uint16"}  # bits, which no conversion changes


def pack_elements(e: Emitter, s: Pack) -> None:
    """The panels are zeros first where a group or a panel ends past the operand."""
    group, lanes, start = s.group, s.lanes, e.depth
    dtype = MOVED_AS.get(s.target.dtype, s.target.dtype)
    source = replace(s.source, buffer=replace(s.source.buffer, dtype=dtype))
    total = product(tuple(x.size for x in s.depth[:-1]))
    total = product((total, _whole(s.depth[-1].size, group)))
    if _has_gaps(s, group):
        columns = product((ceil_div(s.columns.size, lanes), lanes))
        e.line(f"for _z in range({dim_text(product((total, columns)))}):")
        zero = Printer().constant(Const(0, dtype))
        e.line(f"    st_{dtype}({s.target.name}, _z, {zero})")
    for span in [*s.depth, s.columns]:
        e.loop(span)
    column = affine_text(var(s.columns.axis) - s.columns.base)
    k, block = _place(s, group), dim_text(product((total, lanes)))
    panel = f"udiv({column}, {lanes}) * {block} + urem({column}, {lanes}) * {group}"
    within = f"({k}) * {lanes}"
    if group > 1:
        within = f"udiv({k}, {group}) * {lanes * group} + urem({k}, {group})"
    e.line(f"st_{dtype}({s.target.name}, {panel} + {within}, {Printer().fetch(source)})")
    e.depth = start


def _whole(size: Dim, group: int) -> Dim:
    return size if group == 1 else ceil_div(size, group) * group


def _has_gaps(s: Pack, group: int) -> bool:
    deep, wide = s.depth[-1].size, s.columns.size
    exact = isinstance(deep, int) and deep % group == 0 and isinstance(wide, int)
    return s.columns.clip_high or not exact or wide % s.lanes != 0


def _place(s: Pack, group: int) -> str:
    """The number of a point along the depth, whole groups counted."""
    parts: list[str] = []
    step: Dim = 1
    for span in reversed(s.depth):
        parts.append(f"{span.axis} * {dim_text(step)}")
        step = product((step, _whole(span.size, group) if span is s.depth[-1] else span.size))
    return " + ".join(parts)
