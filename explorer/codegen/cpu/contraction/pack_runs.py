"""Packing of a right operand that lies in runs, such as learnt filters, into panels.

Square blocks are transposed in registers, and each of their rows is stored at its own place.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product as every

from explorer.codegen.cpu.emitter import Emitter
from explorer.codegen.cpu.expressions import Printer, affine_text, dim_text
from explorer.ir.affine import Affine
from explorer.ir.tile_programs.statements import Pack, Span
from explorer.tile.rewriting.memory_runs import memory_runs
from explorer.tile.rewriting.vectorise import SIDES

SIDE = SIDES[4]


def pack_runs(e: Emitter, s: Pack, panel: str, place: Affine) -> bool:
    """Print the copy of an operand in runs; return False if it does not lie so.

    `panel` is the offset of a column, `place` that of its elements from there.
    """
    along, start = (s.columns, *s.depth), e.depth
    steps = [s.source.offset.factor(x.axis) for x in along]
    order = memory_runs(steps, [x.size for x in along])
    if order is None or s.lanes % SIDE:
        return False
    outer, *inner = (along[n] for n in order)
    for span in s.depth:
        if span not in (outer, *inner):
            e.loop(span)
    (lo, hi), c, d = e.bounds(s.columns), s.columns.axis, outer.axis
    block = _block(e, s, (outer, *inner), panel, place)
    e.line(f"_whole = {lo} + udiv({hi} - ({lo}), {SIDE}) * {SIDE}")
    if outer is s.columns:
        e.line(f"for {c} in range({lo}, _whole, {SIDE}):")
        e.line(f"    {block}")
        e.line(f"for {c} in range(_whole, {hi}):")
    else:
        size = dim_text(outer.size)
        e.line(f"_deep = udiv({size}, {SIDE}) * {SIDE}")
        e.line(f"for {c} in range({lo}, _whole, {SIDE}):")
        e.line(f"    for {d} in range(0, _deep, {SIDE}):")
        e.line(f"        {block}")
        e.line(f"for {c} in range({lo}, {hi}):")
        e.depth += 1
        e.line(f"for {d} in range(_deep if {c} < _whole else 0, {size}):")
    e.depth += 1
    for span in inner:
        e.loop(span)
    to = f"{panel} + {affine_text(place)}"
    e.line(f"st_float32({s.target.name}, {to}, {Printer().fetch(s.source)})")
    e.depth = start
    return True


def _block(e: Emitter, s: Pack, run: Sequence[Span], panel: str, place: Affine) -> str:
    """Return the call that copies 16 columns.

    It copies the elements of one step of the columns' axis, or of 16 steps of the depth's outermost
    axis.
    """
    outer, *inner = run
    deep = inner if outer is s.columns else run
    sizes = [range(SIDE if x is outer else int(dim_text(x.size))) for x in deep]
    steps = [int(dim_text(place.factor(x.axis))) for x in deep]
    places = tuple(sum(n * k for n, k in zip(p, steps, strict=True)) for p in every(*sizes))
    name = f"spread{e.kernels}"
    e.kernels += 1
    e.header.append("from explorer.codegen.cpu.vector.transposed_blocks import spread")
    e.header.append(f"{name} = spread({places})")
    first = frozenset(x.axis for x in inner)
    source = f"{s.source.buffer.name} + ({affine_text(s.source.offset.without(first))}) * 4"
    target = f"{s.target.name} + ({panel} + {affine_text(place.without(first))}) * 4"
    return f"{name}({source}, {dim_text(s.source.offset.factor(s.columns.axis))}, {target})"
