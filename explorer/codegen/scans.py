"""Running folds as loops: vectors across the rows, a prefix within each vector, or one by one."""

from __future__ import annotations

from dataclasses import replace

from explorer.codegen.copies import map_
from explorer.codegen.emitter import Emitter
from explorer.codegen.expressions import Printer, dim_text
from explorer.codegen.reductions import combined, start_value
from explorer.codegen.vector_loops import vector_loop, vector_scan
from explorer.ir.dtypes import is_stored_otherwise
from explorer.ir.kernel import Affine, Const, IndexValue, var
from explorer.ir.tile_program import Do, Fetch, Map, Reduce, Scan, Span, TileExpr

STEP = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}


def scan(e: Emitter, s: Scan) -> None:
    """One running fold; its axis is never cut."""
    if s.over.size == 0:
        return
    if vector_scan(e, s):
        return
    if s.spans and s.target.offset.factor(s.spans[-1].axis) == 1 and _can_rest(s):
        _across(e, s)
    else:
        _one_by_one(e, s)


def _can_rest(s: Scan) -> bool:
    """The fold so far may lie in memory, where it is what it is computed as."""
    return not is_stored_otherwise(s.target.buffer.dtype) and s.dtype != "bool"


def _across(e: Emitter, s: Scan) -> None:
    """Row after row: each is the one before it and its own elements."""
    last = Affine((), s.over.size) - 1
    first, turn = (last, -1) if s.backwards else (Affine(), 1)
    neutral = start_value(s.combiner, s.dtype)
    start = e.depth
    e.line(f"for _once in range(min(1, {dim_text(s.over.size)})):")
    e.depth += 1
    row = neutral if s.exclusive else _at(s.expr, s.over.axis, first)
    _map(e, Map(_fetch(s.target, s.over.axis, first), s.spans, row))
    e.depth = start
    t = f"_{s.over.axis}"
    here, before = first + var(t) * turn, first + var(t) * turn - turn
    e.loop(Span(t, Affine((), 1), s.over.size - 1, s.over.size))
    own = _at(s.expr, s.over.axis, before if s.exclusive else here)
    so_far = _fetch(s.target, s.over.axis, before)
    new = Do(STEP[s.combiner], (so_far, own))
    _map(e, Map(_fetch(s.target, s.over.axis, here), s.spans, new))
    e.depth = start


def _map(e: Emitter, m: Map) -> None:
    if not vector_loop(e, m):
        map_(e, m.target, m.spans, m.expr)


def _one_by_one(e: Emitter, s: Scan) -> None:
    """One number is carried along each row."""
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
    fold = Reduce(s.target, (), (), s.combiner, s.expr, s.dtype)
    e.line(f"{acc} = {combined(e, fold, acc, s.expr)}")
    if not s.exclusive:
        e.store(s.target, acc)


def _fetch(f: Fetch, axis: str, value: Affine) -> Fetch:
    return replace(f, offset=f.offset.substitute({axis: value}))


def _at(expr: TileExpr, axis: str, value: Affine) -> TileExpr:
    """An expression at one place of an axis."""
    match expr:
        case Do(op, args):
            return Do(op, tuple(_at(a, axis, value) for a in args))
        case Fetch():
            dynamic = tuple((_at(i, axis, value), s, n) for i, s, n in expr.dynamic)
            return replace(_fetch(expr, axis, value), dynamic=dynamic)
        case IndexValue(index):
            return IndexValue(index.substitute({axis: value}))
        case Const():
            return expr
