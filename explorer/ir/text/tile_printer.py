"""Printing of a tile program: the work of one task, a line a statement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from explorer.ir.affine import Affine
from explorer.ir.kernel import Const, IndexValue
from explorer.ir.text.text_tokens import print_affine, print_dim, print_name
from explorer.ir.tile_program import (
    REGISTER,
    At,
    Buffer,
    Do,
    Fetch,
    Fill,
    Find,
    For,
    Grid,
    Load,
    LoopForm,
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
)

INDENT = "    "
INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
LEVEL = {"+": 1, "-": 1, "*": 2, "/": 2}


def print_tile_program(p: TileProgram) -> tuple[str, ...]:
    """Return the lines of a tile program: tasks, scratch buffers of a task, statements."""
    return (*_head(p.grid, p.buffers), *_body(p.body, p.grid, 0))


def _head(grid: Sequence[Grid], buffers: Iterable[Buffer]) -> Iterator[str]:
    for g in grid:
        yield f"tasks {g.variable} = 0, {g.tile}, .. < {print_dim(g.extent)}"
    for b in buffers:
        if b.kind == "scratch":
            where = "registers, one a thread" if b.level == REGISTER else b.level
            yield f"scratch {print_name(b.name)}: {b.dtype}[{print_dim(b.size)}] in {where}"


def _body(body: Iterable[Statement], grid: Sequence[Grid], depth: int) -> Iterator[str]:
    for s in body:
        for line in _statement(s, grid):
            yield INDENT * depth + line


def _statement(s: Statement, grid: Sequence[Grid]) -> Iterator[str]:
    match s:
        case For(span, body, threads):
            dealt = "" if threads is None else f" on {threads.count} threads"
            yield f"for {_span(span)}{dealt}:"
            yield from _body(body, grid, 1)
        case Sync(scope):
            yield f"sync {scope}"
        case Shuffle(target, lanes, combiner):
            yield f"{_element(target)} = {combiner} of it in {lanes} threads beside each other"
        case At(span, index, body):
            yield f"at {_span(span)} if it is {_expr(index)}:"
            yield from _body(body, grid, 1)
        case Once(level, body):
            other_variables = ", ".join(g.variable for g in grid[level:])
            yield f"once for all {other_variables} in a row:"
            yield from _body(body, grid, 1)
        case OnePass(parts, form):
            yield f"in one loop:{_form(form)}"
            yield from _body(parts, grid, 1)
        case Find(name, index, extent):
            yield f"{name} = {_expr(index)} inside of 0 .. {print_dim(extent)}"
        case Fill(target, value):
            yield f"fill {print_name(target.name)} with {value!r}"
        case Load(target, source, spans):
            yield f"copy {_element(target)} = {_element(source)}{_for(spans)}"
        case Pack(target, source, columns, depth):
            panels = f"panels of {s.lanes}{f', groups of {s.group}' if s.group > 1 else ''}"
            yield f"pack {print_name(target.name)} = {_element(source)} as {panels}" + _for(
                (columns, *depth)
            )
        case Map(target, spans, expr, form):
            yield f"{_element(target)} = {_expr(expr)}{_for(spans)}{_form(form)}"
        case Reduce():
            yield f"{_element(s.target)} = {_reduction(s)}{_for(s.spans)}{_form(s.form)}"
        case Scan():
            how = f"{'exclusive ' * s.exclusive}running {s.combiner}{' backwards' * s.backwards}"
            text = f"{how}[{_span(s.over)}] {_expr(s.expr)}"
            yield f"{_element(s.target)} = {text}{_for(s.spans)}{_form(s.form)}"
        case Window(reduction, target=target, expr=expr):
            inside = ", ".join(f"{b.axis} inside of 0 .. {b.extent}" for b in s.borders)
            only = f" where {inside}" if inside else ""
            read = _expr(s.data) + ("" if s.weights is None else f" * {_expr(s.weights)}")
            over = ", ".join(map(_span, reduction.over))
            yield f"window{_for(reduction.spans)}:"
            result = _element(reduction.target)
            yield f"{INDENT}{result} = {reduction.combiner}[{over}] {read}{only}"
            if expr != target:
                yield f"{INDENT}{_element(target)} = {_expr(expr)}"
        case Panels(rows, columns, micro, c, _, epilogue):
            yield f"register tiles of {micro.rows} x {micro.columns}{_for((*rows, columns))}:"
            runs = f" of {len(c.segment_values)} runs" if len(c.segment_values) > 1 else ""
            product = f"sum[k < {print_dim(c.depth)}{runs}] {_element(c.a)} * {_element(c.b)}"
            yield f"{INDENT}{print_name(c.acc.name)} = {product}"
            yield f"{INDENT}{_element(epilogue.target)} = {_expr(epilogue.expr)}{_tiles(s)}"


def _tiles(s: Panels) -> str:
    """How register tiles go over rows, where their epilogue runs, and what is prefetched."""
    notes = []
    if s.run is not None:
        notes.append("rows in runs" + ("" if s.run.exact else ", the last tile moved back"))
    notes += ["on registers"] if s.operands else []
    notes += [f"prefetches {s.prefetch}"] if s.prefetch else []
    return f"  # {', '.join(notes)}" if notes else ""


def _reduction(s: Reduce) -> str:
    onto = f" onto {_element(s.target)}" if s.onto else ""
    return f"{s.combiner}[{', '.join(map(_span, s.over))}] {_expr(s.expr, 3)}{onto}"


def _for(spans: Sequence[Span]) -> str:
    return f" for {', '.join(map(_span, spans))}" if spans else ""


def _form(form: LoopForm | None) -> str:
    """Return the iteration order of points, as a comment."""
    if form is None:
        return ""
    if form.order == "matrix":
        return "  # whole warps, on matrix units"
    vectors = "" if form.lanes == 1 else f", {form.unroll} x {form.lanes} lanes"
    return f"  # {form.order}{vectors}"


def _span(s: Span) -> str:
    """Return `i < 7`, or `i in t_i .. t_i + 16 of 0 .. 100` if it may be clipped."""
    if s.base == Affine() and not (s.clip_low or s.clip_high):
        return f"{s.axis} < {print_dim(s.size)}"
    low, high = print_affine(s.base), print_affine(s.base + s.size)
    low = f"max({low}, 0)" if s.clip_low else low
    high = f"min({high}, {print_dim(s.extent)})" if s.clip_high else high
    return f"{s.axis} in {low} .. {high}"


def _element(f: Fetch) -> str:
    parts = [print_affine(f.offset)] if f.offset != Affine() or not f.dynamic else []
    parts += [f"{_expr(i)} * {print_dim(stride)}" for i, stride, _ in f.dynamic]
    return f"{print_name(f.buffer.name)}[{' + '.join(parts)}]"


def _expr(e: TileExpr, level: int = 0) -> str:
    match e:
        case Fetch():
            return _element(e)
        case Const(value, _):
            return repr(value) if isinstance(value, bool | int | float) else print_dim(value)
        case IndexValue(index):
            return f"index({print_affine(index)})"
        case Do(op, (a, b)) if op in INFIX:
            mark = INFIX[op]
            own = LEVEL[mark]
            text = f"{_expr(a, own)} {mark} {_expr(b, own + 1)}"
            return f"({text})" if own < level else text
        case Do(op, args):
            return f"{op}({', '.join(map(_expr, args))})"
