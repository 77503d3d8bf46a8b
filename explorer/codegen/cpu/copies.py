"""Maps and transposing copies as loops, in 16 x 16 blocks where rows become columns."""

from __future__ import annotations

from dataclasses import replace

from explorer.codegen.cpu.emitter import Emitter
from explorer.codegen.cpu.expressions import Printer, affine_text, dim_text
from explorer.ir.dtypes import ITEM_BYTES, DType
from explorer.ir.tile_programs.elements import Fetch
from explorer.ir.tile_programs.statements import LoopForm, Map, Span
from explorer.tile.rewriting.vectorise import SIDES

BITS = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64"}  # types of elements moved as bits


def map_(e: Emitter, m: Map) -> None:
    """Print a map element by element."""
    for span in m.spans:
        e.loop(span)
    e.store(m.target, e.expression(m.expr))


def swap(e: Emitter, m: Map, source: Fetch, form: LoopForm) -> None:
    """Print a copy that swaps its last two axes, in square blocks."""
    depth, columns = m.spans[-2:]
    for span in m.spans[:-2]:
        e.loop(span)
    turn(e, columns, depth, source, m.target, form)


def turn(
    e: Emitter, columns: Span, depth: Span, source: Fetch, target: Fetch, form: LoopForm
) -> None:
    """Print a copy that swaps two axes in memory.

    It moves square blocks in registers, the last one of a row over the one before it. Less than a
    block is copied element by element.
    """
    size = ITEM_BYTES[source.buffer.dtype]
    source, block_rows, far = _with_dtype(source, BITS[size]), form.lanes, form.lanes * form.unroll
    to, at, step = target.buffer.name, affine_text(target.offset), target.offset.factor(depth.axis)
    (lo, hi), (first, last) = e.bounds(columns), e.bounds(depth)
    c, d = columns.axis, depth.axis
    e.line(f"if min({hi} - ({lo}), {last} - ({first})) >= {block_rows}:")
    e.line(f"    for _far in range({lo}, {hi}, {far}):")
    e.line(f"        for _d in range({first}, {last}, {block_rows}):")
    e.line(f"            {d} = min(_d, {last} - {block_rows})")
    e.line(f"            for _c in range(_far, min(_far + {far}, {hi}), {block_rows}):")
    e.line(f"                {c} = min(_c, {hi} - {block_rows})")
    e.line(f"                {_block(e, columns, source, to, at, dim_text(step))}")
    e.line("else:")
    e.line(f"    for {c} in range({lo}, {hi}):")
    e.line(f"        for {d} in range({first}, {last}):")
    e.line(f"            st_{source.buffer.dtype}({to}, {at}, {Printer().fetch(source)})")


def _block(e: Emitter, columns: Span, source: Fetch, to: str, at: str, step: str) -> str:
    """Return the call that swaps the axes of one block."""
    size = ITEM_BYTES[source.buffer.dtype]
    along = dim_text(source.offset.factor(columns.axis))
    from_ = f"{source.buffer.name} + ({affine_text(source.offset)}) * {size}"
    e.header.append(f"from explorer.codegen.cpu.vector.transposed_blocks import turn{size}")
    return f"turn{size}({from_}, {along}, {to} + ({at}) * {size}, {step})"


def turn_to(
    e: Emitter, columns: Span, depth: Span, source: Fetch, to: str, at: str, step: str
) -> None:
    """Print a copy that swaps two axes, in blocks that begin at whole multiples of their side.

    The remainder is copied element by element. `at` is the index of an element in the target.
    """
    dtype = source.buffer.dtype
    size = ITEM_BYTES[dtype]
    block_rows = SIDES[size]
    copy = f"st_{dtype}({to}, {at}, {Printer().fetch(source)})"
    (lo, hi), (first, last) = e.bounds(columns), e.bounds(depth)
    c, d = columns.axis, depth.axis
    e.line(f"_whole = {lo} + udiv({hi} - ({lo}), {block_rows}) * {block_rows}")
    e.line(f"_deep = {first} + udiv({last} - ({first}), {block_rows}) * {block_rows}")
    e.line(f"for {c} in range({lo}, _whole, {block_rows}):")
    e.line(f"    for {d} in range({first}, _deep, {block_rows}):")
    e.line(f"        {_block(e, columns, source, to, at, step)}")
    e.line(f"for {c} in range({lo}, {hi}):")
    e.line(f"    for {d} in range(_deep if {c} < _whole else {first}, {last}):")
    e.line(f"        {copy}")


def _with_dtype(f: Fetch, dtype: DType) -> Fetch:
    return replace(f, buffer=replace(f.buffer, dtype=dtype))
