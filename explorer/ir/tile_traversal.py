"""Traversal of tile programs: nested statements, operands and expressions, and substitution."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from math import prod
from typing import Any

from explorer.ir.affine import Affine
from explorer.ir.dims import Dim
from explorer.ir.kernel import Const, IndexValue
from explorer.ir.tile_program import (
    At,
    Buffer,
    Do,
    Fetch,
    Fill,
    Find,
    For,
    Load,
    Map,
    Once,
    OnePass,
    Pack,
    Panels,
    Reduce,
    Scan,
    Shuffle,
    Span,
    Statement,
    Sync,
    TileExpr,
    TileProgram,
    Window,
    fetches,
    subexpressions,
)

Part = Map | Reduce


def inside(s: Statement) -> tuple[Statement, ...]:
    """Return the direct parts of a statement: a loop's body, the parts of one pass, an epilogue."""
    match s:
        case For(_, body) | At(_, _, body) | Once(_, body):
            return body
        case OnePass(parts):
            return parts
        case Panels(epilogue=epilogue):
            return (epilogue,)
    return ()


def statements(body: Iterable[Statement]) -> Iterator[Statement]:
    """Yield every statement, each before those inside of it."""
    for s in body:
        yield s
        yield from statements(inside(s))


def parts_of(s: Statement) -> tuple[Part, ...]:
    """Return the maps and reductions of a statement; none for any other kind."""
    match s:
        case Map() | Reduce():
            return (s,)
        case OnePass(parts):
            return parts
    return ()


def distributed_loops(s: For) -> tuple[tuple[For, ...], tuple[Statement, ...]]:
    """Return the nested loops that are distributed over threads, and the body of one thread.

    Each loop is the only statement of the one before.
    """
    loops = [s]
    while len(s.body) == 1 and isinstance(s.body[0], For) and s.body[0].threads is not None:
        s = s.body[0]
        loops.append(s)
    return tuple(loops), s.body


def threads_of(body: Iterable[Statement]) -> int:
    """Return the number of threads of a block of these statements, 0 if no loop is distributed."""
    most = 0
    for s in statements(body):
        if isinstance(s, For) and s.threads is not None:
            counts = (x.threads.count for x in distributed_loops(s)[0] if x.threads is not None)
            most = max(most, prod(counts))
    return most


def spans(s: Statement) -> tuple[Span, ...]:
    """Return the axes that a statement itself iterates over, the outermost first."""
    match s:
        case For(span, _) | At(span, _, _):
            return (span,)
        case Load(spans=own) | Map(spans=own):
            return own
        case Reduce(spans=own, over=over):
            return (*own, *over)
        case Scan(spans=own, over=along):
            return (*own, along)
        case Pack(columns=columns, depth=depth):
            return (columns, *depth)
        case Window(reduction=reduction):
            return (*reduction.spans, *reduction.over)
        case Panels(rows=rows, columns=columns):
            return (*rows, columns)
    return ()


def expressions(s: Statement) -> tuple[TileExpr, ...]:
    """Return a statement's own expressions: the element stored to, then those that it reads."""
    match s:
        case Load(target, expr, _) | Map(target, _, expr):
            return (target, expr)
        case Reduce(target=target, expr=expr) | Scan(target=target, expr=expr):
            return (target, expr)
        case Shuffle(target):
            return (target,)
        case Pack(source=source):
            return (source,)
        case Find(index=index) | At(index=index):
            return (index,)
        case Window(data=data, weights=weights, target=target):
            return (target, *s.operands, data, *(() if weights is None else (weights,)))
        case Panels(contract=c):
            return (c.a, c.b)
    return ()


def loads(s: Statement) -> tuple[Fetch, ...]:
    """Return the elements that a statement itself reads, also those in addresses.

    Of a contraction it is the first element of each operand.
    """
    onto = isinstance(s, Reduce) and s.onto
    read = expressions(s)[0 if onto or isinstance(s, Pack | Find | At | Panels | Shuffle) else 1 :]
    return tuple(f for e in read for f in fetches(e))


def stored(s: Statement) -> Fetch | None:
    """Return the element that a statement itself writes at every point.

    Return None where it fills a buffer, or where a statement inside of it does the write.
    """
    match s:
        case Load(target=target) | Map(target=target) | Reduce(target=target):
            return target
        case Scan(target=target) | Window(target=target) | Shuffle(target=target):
            return target
    return None


def reads(s: Statement) -> Iterator[Buffer]:
    """Yield every mention of a buffer that a statement reads, nested statements included."""
    for part in statements((s,)):
        yield from (f.buffer for f in loads(part))
        if isinstance(part, Panels):
            yield from (part.contract.segments, part.row_table)


def writes(s: Statement) -> Iterator[Buffer]:
    """Yield every mention of a buffer that a statement writes, nested statements included."""
    for part in statements((s,)):
        match part:
            case Fill(buffer) | Pack(target=buffer):
                yield buffer
            case Panels(contract=c, row_table=table):
                yield from (c.acc, table)
        element = stored(part)
        if element is not None:
            yield element.buffer


def touched(s: Statement) -> Iterator[Buffer]:
    """Yield every mention of a buffer."""
    yield from reads(s)
    yield from writes(s)


def addresses(s: Statement) -> Iterator[Affine]:
    """Yield every affine value of a statement, nested statements included.

    These are where loops begin, where elements lie, and indices that are values.
    """
    for part in statements((s,)):
        yield from (x.base for x in spans(part))
        if isinstance(part, Window):
            yield from (b.first for b in part.borders)
        for e in expressions(part):
            yield from affines(e)


def affines(expr: TileExpr) -> Iterator[Affine]:
    """Yield every affine value of an expression: where elements lie, indices that are values."""
    for part in subexpressions(expr):
        match part:
            case Fetch(_, offset, _):
                yield offset
            case IndexValue(index):
                yield index


def variables_of(expr: TileExpr) -> frozenset[str]:
    """Return the loop and tile variables that an expression depends on."""
    return frozenset(name for a in affines(expr) for name, _ in a.terms)


def variables(s: Statement) -> frozenset[str]:
    """Return the loop and tile variables that a statement depends on."""
    return frozenset(name for a in addresses(s) for name, _ in a.terms)


def dims(s: Statement) -> Iterator[Dim]:
    """Yield every number of a statement that may be an expression over symbols."""
    for a in addresses(s):
        yield a.const
        yield from (factor for _, factor in a.terms)
    for part in statements((s,)):
        for x in spans(part):
            yield from (x.size, x.extent)
        for e in expressions(part):
            yield from _dims(e)
        match part:
            case Fill(target) | Pack(target=target):
                yield target.size
            case Find(extent=extent):
                yield extent
            case Panels(contract=c):
                yield c.depth


def _dims(expr: TileExpr) -> Iterator[Dim]:
    for part in subexpressions(expr):
        match part:
            case Fetch(_, _, dynamic):
                for _, stride, extent in dynamic:
                    yield from (stride, extent)
            case Const(value, _) if not isinstance(value, int | float):
                yield value


def without_unused(p: TileProgram) -> TileProgram:
    """Remove the buffers that no statement touches."""
    used = {b.name for s in p.body for b in touched(s)}
    return replace(p, buffers=tuple(b for b in p.buffers if b.name in used))


# Substitution.


def with_loads(expr: TileExpr, change: Callable[[Fetch], TileExpr]) -> TileExpr:
    """Replace every load of an expression, those inside of its address first."""
    match expr:
        case Do(op, args):
            return Do(op, tuple(with_loads(a, change) for a in args))
        case Fetch(buffer, offset, dynamic):
            terms = tuple((with_loads(i, change), s, n) for i, s, n in dynamic)
            return change(Fetch(buffer, offset, terms) if terms else expr)
    return expr


def with_levels(p: TileProgram, names: Mapping[str, str]) -> TileProgram:
    """Rename the memory levels that buffers lie in."""

    def renamed(part: Any) -> Any:
        if isinstance(part, Buffer):
            return replace(part, level=names.get(part.level, part.level))
        if isinstance(part, tuple):
            return tuple(map(renamed, part))
        if is_dataclass(part) and not isinstance(part, type):
            return replace(part, **{f.name: renamed(getattr(part, f.name)) for f in fields(part)})
        return part

    out: TileProgram = renamed(p)
    return out


def with_element(f: Fetch, change: Callable[[Fetch], Fetch]) -> Fetch:
    """Replace an element, after the loads inside of its address."""
    terms = tuple((with_loads(i, change), s, n) for i, s, n in f.dynamic)
    return change(Fetch(f.buffer, f.offset, terms) if terms else f)


def with_functions(s: Statement, change: Callable[[Do], TileExpr]) -> Statement:
    """Replace every scalar function of a statement, inner ones first."""

    def of(expr: TileExpr) -> TileExpr:
        return change(Do(expr.op, tuple(map(of, expr.args)))) if isinstance(expr, Do) else expr

    match s:
        case At(_, index, body):
            inner = tuple(with_functions(x, change) for x in body)
            return replace(s, index=of(index), body=inner)
        case For(_, body) | Once(_, body):
            return replace(s, body=tuple(with_functions(x, change) for x in body))
        case OnePass(parts):
            own = (with_functions(x, change) for x in parts)
            return replace(s, parts=tuple(p for p in own if isinstance(p, Map | Reduce)))
        case Panels(epilogue=last):
            return replace(s, epilogue=replace(last, expr=of(last.expr)))
        case Map(expr=expr) | Reduce(expr=expr) | Scan(expr=expr) | Window(expr=expr):
            return replace(s, expr=of(expr))
    return s


def substitute(expr: TileExpr, values: Mapping[str, Affine]) -> TileExpr:
    """Replace variables of an expression by affine values."""
    match expr:
        case Do(op, args):
            return Do(op, tuple(substitute(a, values) for a in args))
        case Fetch():
            return moved(expr, values)
        case IndexValue(index):
            return IndexValue(index.substitute(values))
    return expr


def moved(f: Fetch, values: Mapping[str, Affine]) -> Fetch:
    """Replace variables of an element by affine values."""
    dynamic = tuple((substitute(i, values), s, n) for i, s, n in f.dynamic)
    return Fetch(f.buffer, f.offset.substitute(values), dynamic)


def renamed(s: Statement, names: Mapping[str, str]) -> Statement:
    """Rename the buffers of a statement; unchanged parts are the same objects."""
    if not any(b.name in names for b in touched(s)):
        return s

    def buffer(b: Buffer) -> Buffer:
        return replace(b, name=names[b.name]) if b.name in names else b

    return with_buffers(s, buffer, lambda f: replace(f, buffer=buffer(f.buffer)))


def with_buffers(
    s: Statement, buffer: Callable[[Buffer], Buffer], element: Callable[[Fetch], Fetch]
) -> Statement:
    """Replace every buffer that a statement names as a whole, and every element."""

    def fetch(f: Fetch) -> Fetch:
        return with_element(f, element)

    match s:
        case At(_, index, body):
            inner = tuple(with_buffers(x, buffer, element) for x in body)
            return replace(s, index=with_loads(index, element), body=inner)
        case For(_, body) | Once(_, body):
            return replace(s, body=tuple(with_buffers(x, buffer, element) for x in body))
        case OnePass(parts):
            own = (with_buffers(x, buffer, element) for x in parts)
            return replace(s, parts=tuple(p for p in own if isinstance(p, Map | Reduce)))
        case Find(index=index):
            return replace(s, index=with_loads(index, element))
        case Sync():
            return s
        case Shuffle(target):
            return replace(s, target=fetch(target))
        case Window(reduction, data, weights, _, target, expr):
            place = fetch(reduction.target)
            return replace(
                s,
                reduction=replace(
                    reduction, target=place, expr=with_loads(reduction.expr, element)
                ),
                data=fetch(data),
                weights=None if weights is None else fetch(weights),
                target=fetch(target),
                expr=with_loads(expr, element),
            )
        case Fill(target, _):
            return replace(s, target=buffer(target))
        case Load(target, source, _):
            return replace(s, target=fetch(target), source=fetch(source))
        case Pack(target, source):
            return replace(s, target=buffer(target), source=fetch(source))
        case Panels(contract=c, row_table=table, epilogue=last):
            product = replace(
                c,
                acc=buffer(c.acc),
                a=fetch(c.a),
                segments=buffer(c.segments),
                b=fetch(c.b),
            )
            after = replace(last, target=fetch(last.target), expr=with_loads(last.expr, element))
            read = tuple(fetch(f) for f in s.operands)
            return replace(
                s, contract=product, row_table=buffer(table), epilogue=after, operands=read
            )
        case _:
            return replace(s, target=fetch(s.target), expr=with_loads(s.expr, element))
