"""Packing inside of a task for any dtype: columns to panels, small integers in groups.

Groups lie along the depth.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.codegen.cpu.emitter import Emitter
from explorer.codegen.cpu.expressions import Printer, affine_text, dim_text
from explorer.ir.affine import var
from explorer.ir.kernel import Const
from explorer.ir.shapes.dims import Dim, ceil_div, product
from explorer.ir.tile_programs.statements import Pack

WORD = 4  # bytes that a lane multiplies and adds in a step
MOVED_AS = {"float16": "uint16", "bfloat16": "uint16"}  # as bits, without a conversion


def pack_elements(e: Emitter, s: Pack) -> None:
    """Print the packing of any dtype.

    The panels are zeroed first if a group or a panel ends past the operand.
    """
    if _is_in_words(s):
        _pack_words(e, s)
        return
    group, lanes, start = s.group, s.lanes, e.depth
    dtype = MOVED_AS.get(s.target.dtype, s.target.dtype)
    source = replace(s.source, buffer=replace(s.source.buffer, dtype=dtype))
    total = product(tuple(x.size for x in s.depth[:-1]))
    total = product((total, _padded(s.depth[-1].size, group)))
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


def _is_in_words(s: Pack) -> bool:
    """Return True if groups are four bytes of four rows, all inside of the operand."""
    if s.group != WORD or len(s.depth) != 1 or s.source.dynamic or _has_gaps(s, s.group):
        return False
    (k,) = s.depth
    clipped = k.clip_high or k.clip_low or s.columns.clip_low
    return not clipped and s.source.offset.factor(s.columns.axis) == 1


def _pack_words(e: Emitter, s: Pack) -> None:
    """Print the packing of groups of four bytes, stored as one word.

    LLVM vectorises that, but not stores of bytes that are four apart.
    """
    (k,), n, lanes, start = s.depth, s.columns.axis, s.lanes, e.depth
    low, high = e.bounds(s.columns)
    first, end = e.bounds(k)
    base = affine_text(var(n) - s.columns.base)
    words = dim_text(product((k.size, lanes)) // WORD)
    e.line(f"for {n} in range({low}, {high}, {lanes}):")
    e.line(f"    _panel = udiv({base}, {lanes}) * {words}")
    e.line(f"    for {k.axis} in range({first}, {end}, {WORD}):")
    e.line(f"        _at = _panel + udiv({k.axis}, {WORD}) * {lanes}")
    rows = [
        replace(s.source, offset=s.source.offset.substitute({k.axis: var(k.axis) + row}))
        for row in range(WORD)
    ]
    e.line(f"        for _l in range({lanes}):")
    e.depth = start + 3
    bytes_ = [Printer().fetch(replace(r, offset=r.offset + var("_l"))) for r in rows]
    word = " | ".join(f"((I({b}) & 255) << {8 * j})" for j, b in enumerate(bytes_))
    e.line(f"st_int32({s.target.name}, _at + _l, I32({word}))")
    e.depth = start


def _padded(size: Dim, group: int) -> Dim:
    return size if group == 1 else ceil_div(size, group) * group


def _has_gaps(s: Pack, group: int) -> bool:
    deep, wide = s.depth[-1].size, s.columns.size
    exact = isinstance(deep, int) and deep % group == 0 and isinstance(wide, int)
    return s.columns.clip_high or not exact or wide % s.lanes != 0


def _place(s: Pack, group: int) -> str:
    """Return the number of a point along the depth, whole groups counted."""
    parts: list[str] = []
    step: Dim = 1
    for span in reversed(s.depth):
        parts.append(f"{span.axis} * {dim_text(step)}")
        step = product((step, _padded(span.size, group) if span is s.depth[-1] else span.size))
    return " + ".join(parts)
