"""Maps, and copies that swap axes: printed as loops, in 16 x 16 blocks where memory turns."""

from __future__ import annotations

from dataclasses import replace

from explorer.codegen.emitter import Emitter
from explorer.codegen.expressions import Printer, affine_text, dim_text, dtype_of_tile
from explorer.codegen.loops import collapse
from explorer.codegen.turned_blocks import SIDES
from explorer.codegen.vector_loops import vector_loop
from explorer.ir.dims import Dim
from explorer.ir.dtypes import (
    ITEM_BYTES,
    DType,
    is_stored_otherwise,
)
from explorer.ir.kernel import Const, IndexValue, var
from explorer.ir.tile_program import (
    Do,
    Fetch,
    Map,
    Span,
    TileExpr,
    fetches,
)

BESIDE = 4  # blocks beside each other in the target, so that whole lines follow lines
BITS = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64"}  # what is moved without being looked at


def map_(e: Emitter, target: Fetch, spans: tuple[Span, ...], expr: TileExpr) -> None:
    turned = _turned(target, expr, spans)
    if turned is not None:
        spans, expr, (target,) = collapse(spans, expr, target)
        turned = _turned(target, expr, spans)
    if turned is not None and isinstance(expr, Fetch):
        step = target.offset.factor(turned.axis)
        for span in spans[:-1]:
            if span is not turned:
                e.loop(span)
        turn(e, spans[-1], turned, expr, target, step)
        return
    fixed = _looked_up(expr, spans)
    if fixed < len(spans):
        for span in spans[:fixed]:
            e.loop(span)
        map_(e, target, spans[fixed:], _with_rows(e, expr))
        return
    spans, expr, (target,) = collapse(spans, expr, target)
    target, expr = _moved(target, expr)
    if vector_loop(e, Map(target, spans, expr)):
        return
    for span in spans:
        e.loop(span)
    e.store(target, e.expression(expr))


def _looked_up(expr: TileExpr, spans: tuple[Span, ...]) -> int:
    """How many outer axes choose which rows are read, by what lies in memory; all of the axes where
    no address is looked up.
    """
    used = [v for f in fetches(expr) for i, _, _ in f.dynamic for v in _variables(i)]
    found = any(f.dynamic for f in fetches(expr))
    last = max((n + 1 for n, s in enumerate(spans) if s.axis in used), default=0)
    return last if found else len(spans)


def _variables(expr: TileExpr) -> frozenset[str]:
    """The axes that an expression depends on."""
    match expr:
        case Do(_, args):
            return frozenset[str]().union(*map(_variables, args))
        case IndexValue(index):
            return index.variables
        case Fetch(_, offset, dynamic):
            return offset.variables.union(*(_variables(i) for i, _, _ in dynamic))
        case Const():
            return frozenset()


def _with_rows(e: Emitter, expr: TileExpr) -> TileExpr:
    """The expression with every address that is looked up read here, before the loops inside.

    `y[i, j] = x[index[i], j]` becomes `row = index[i]; y[i, j] = x[row, j]`.
    """
    match expr:
        case Do(op, args):
            return Do(op, tuple(_with_rows(e, a) for a in args))
        case Fetch(_, offset, dynamic) if dynamic:
            for index, stride, extent in dynamic:
                name = f"_found{e.expressions}"
                at = e.expression(index)
                e.line(f"{name} = min(max(I({at}), I(0)), I({dim_text(extent)} - 1))")
                offset = offset + var(name) * stride
            return replace(expr, offset=offset, dynamic=())
    return expr


def turn(e: Emitter, columns: Span, depth: Span, source: Fetch, target: Fetch, step: Dim) -> None:
    """Copy with the two axes swapped in memory: square blocks in registers, the last one of a row
    over the one before it; one by one where there is less than a block.
    """
    size = ITEM_BYTES[source.buffer.dtype]
    source, side = _as(source, BITS[size]), SIDES[size]
    to, at = target.buffer.name, affine_text(target.offset)
    (lo, hi), (first, last) = e.bounds(columns), e.bounds(depth)
    c, d = columns.axis, depth.axis
    e.line(f"if min({hi} - ({lo}), {last} - ({first})) >= {side}:")
    e.line(f"    for _far in range({lo}, {hi}, {side * BESIDE}):")
    e.line(f"        for _d in range({first}, {last}, {side}):")
    e.line(f"            {d} = min(_d, {last} - {side})")
    e.line(f"            for _c in range(_far, min(_far + {side * BESIDE}, {hi}), {side}):")
    e.line(f"                {c} = min(_c, {hi} - {side})")
    e.line(f"                {_block(e, columns, source, to, at, dim_text(step))}")
    e.line("else:")
    e.line(f"    for {c} in range({lo}, {hi}):")
    e.line(f"        for {d} in range({first}, {last}):")
    e.line(f"            st_{source.buffer.dtype}({to}, {at}, {Printer().fetch(source)})")


def _block(e: Emitter, columns: Span, source: Fetch, to: str, at: str, step: str) -> str:
    """The call that swaps the axes of one block."""
    size = ITEM_BYTES[source.buffer.dtype]
    along = dim_text(source.offset.factor(columns.axis))
    from_ = f"{source.buffer.name} + ({affine_text(source.offset)}) * {size}"
    e.header.append(f"from explorer.codegen.turned_blocks import turn{size}")
    return f"turn{size}({from_}, {along}, {to} + ({at}) * {size}, {step})"


def turn_to(
    e: Emitter, columns: Span, depth: Span, source: Fetch, to: str, at: str, step: str
) -> None:
    """The same where blocks begin at whole multiples of their side: what remains is copied one by
    one. `at` says where an element goes, in elements of the target.
    """
    dtype = source.buffer.dtype
    size = ITEM_BYTES[dtype]
    side = SIDES[size]
    copy = f"st_{dtype}({to}, {at}, {Printer().fetch(source)})"
    (lo, hi), (first, last) = e.bounds(columns), e.bounds(depth)
    c, d = columns.axis, depth.axis
    e.line(f"_whole = {lo} + udiv({hi} - ({lo}), {side}) * {side}")
    e.line(f"_deep = {first} + udiv({last} - ({first}), {side}) * {side}")
    e.line(f"for {c} in range({lo}, _whole, {side}):")
    e.line(f"    for {d} in range({first}, _deep, {side}):")
    e.line(f"        {_block(e, columns, source, to, at, step)}")
    e.line(f"for {c} in range({lo}, {hi}):")
    e.line(f"    for {d} in range(_deep if {c} < _whole else {first}, {last}):")
    e.line(f"        {copy}")


def _moved(target: Fetch, source: TileExpr) -> tuple[Fetch, TileExpr]:
    """What is only moved is moved as bits, and what a store rounds is not rounded before."""
    dtype = target.buffer.dtype
    match source:
        case Do(op, (value,)) if op == f"cast_{dtype}" and dtype_of_tile(value) == "float32":
            return target, value if is_stored_otherwise(dtype) else source
    if not is_stored_otherwise(dtype) or not isinstance(source, Fetch):
        return target, source
    if source.buffer.dtype != dtype:
        return target, source
    bits = "uint8" if ITEM_BYTES[dtype] == 1 else "uint16"
    return _as(target, bits), _as(source, bits)


def _as(f: Fetch, dtype: DType) -> Fetch:
    return replace(f, buffer=replace(f.buffer, dtype=dtype))


def _turned(target: Fetch, source: TileExpr, spans: tuple[Span, ...]) -> Span | None:
    """The axis along which the source is dense, where the target is dense along the last one and
    the source is not.
    """
    if not isinstance(source, Fetch) or source.dynamic or not spans:
        return None
    if source.buffer.dtype != target.buffer.dtype:
        return None
    last = spans[-1].axis
    if target.offset.factor(last) != 1 or source.offset.factor(last) in (0, 1):
        return None
    return next(
        (
            s
            for s in spans[:-1]
            if source.offset.factor(s.axis) == 1 and target.offset.factor(s.axis) != 0
        ),
        None,
    )
