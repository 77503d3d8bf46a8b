"""Maps and copies as loops: element by element, transposed in blocks, packed into panels.

Where rows become columns, 16 x 16 blocks are transposed in registers. A right operand is packed
into the panels of a micro-kernel: in runs where it lies so, such as learnt filters, else column by
column. Small integers are packed in groups along the depth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product as every

from explorer.codegen.cpu.emitter import Emitter, Printer, affine_text, dim_text
from explorer.ir.affine import Affine, var
from explorer.ir.dims import Dim, ceil_div, product
from explorer.ir.dtypes import ITEM_BYTES, DType
from explorer.ir.kernel import Const
from explorer.ir.tile_program import Fetch, LoopForm, Map, Pack, Span
from explorer.tile.rewriting.vectorise import SIDES, memory_runs

SIDE = SIDES[4]
WORD = 4  # bytes that a lane multiplies and adds in a step
MOVED_AS = {"float16": "uint16", "bfloat16": "uint16"}  # as bits, without a conversion
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
    e.line(f"                {_turn_block(e, columns, source, to, at, dim_text(step))}")
    e.line("else:")
    e.line(f"    for {c} in range({lo}, {hi}):")
    e.line(f"        for {d} in range({first}, {last}):")
    e.line(f"            st_{source.buffer.dtype}({to}, {at}, {Printer().fetch(source)})")


def _turn_block(e: Emitter, columns: Span, source: Fetch, to: str, at: str, step: str) -> str:
    """Return the call that swaps the axes of one block."""
    size = ITEM_BYTES[source.buffer.dtype]
    along = dim_text(source.offset.factor(columns.axis))
    from_ = f"{source.buffer.name} + ({affine_text(source.offset)}) * {size}"
    e.header.append(f"from explorer.codegen.cpu.vector_nest import turn{size}")
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
    e.line(f"        {_turn_block(e, columns, source, to, at, step)}")
    e.line(f"for {c} in range({lo}, {hi}):")
    e.line(f"    for {d} in range(_deep if {c} < _whole else {first}, {last}):")
    e.line(f"        {copy}")


def _with_dtype(f: Fetch, dtype: DType) -> Fetch:
    return replace(f, buffer=replace(f.buffer, dtype=dtype))


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
    block = _spread_block(e, s, (outer, *inner), panel, place)
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


def _spread_block(e: Emitter, s: Pack, run: Sequence[Span], panel: str, place: Affine) -> str:
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
    e.header.append("from explorer.codegen.cpu.vector_nest import spread")
    e.header.append(f"{name} = spread({places})")
    first = frozenset(x.axis for x in inner)
    source = f"{s.source.buffer.name} + ({affine_text(s.source.offset.without(first))}) * 4"
    target = f"{s.target.name} + ({panel} + {affine_text(place.without(first))}) * 4"
    return f"{name}({source}, {dim_text(s.source.offset.factor(s.columns.axis))}, {target})"


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
