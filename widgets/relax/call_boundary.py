"""The boundary of a call: parameter and argument annotations, bound symbols, and the result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from explorer.compiler.operators import Operator, distinct_labels, value_labels
from explorer.ir.annotations import Derived, Match, signature_of, unify
from explorer.ir.calls import Branch, FunctionCall, KernelCall, Loop, Var
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernel import Kernel
from explorer.ir.program import Binding, Function, Program
from explorer.ir.stage import Stage
from explorer.ir.types import Annotation, Callable, Tensor, TupleType
from explorer.plain_text import counted
from widgets.draw.slide import (
    LINE,
    NARROW,
    PX,
    break_at_separators,
    break_in_two,
    cut_to,
    label_width,
    legend,
    name_lines,
    pipe,
    tick,
    tip,
)
from widgets.draw.svg import Svg, label, rect, symbols_of_dims
from widgets.draw.table import Mark, Sentence, Table, lit_by
from widgets.model.compiled import Compiled
from widgets.model.picture import Drawn, OnShow, Picture
from widgets.relax.levels import lowered_program
from widgets.relax.shape_words import annotation_text
from widgets.relax.shapes import around, inferred_program

LEVELS = {
    Match.DISJOINT: "never fits",
    Match.COARSE: "too little is known",
    Match.CHECKED: "checked by the run",
    Match.PROVED: "proved",
}
BOX, ARROW, SPACE, FOOT = 54.0, 52.0, 16.0, 30.0
GUTTER, LEAST, WIDEST = 144.0, 116.0, 232.0  # widths of the names and of a column


@dataclass(frozen=True, slots=True)
class MatchRow:
    """One dim or dtype of a parameter and of its argument; `binds` is the symbol it defines."""

    param: str
    declared: str
    actual: str
    binds: str
    level: str
    reason: str


@dataclass(frozen=True, slots=True)
class PassedValue:
    """One parameter and the argument passed for it.

    `level` is the weakest of its dims' levels, "" for a result; `binds` are the symbols that get a
    value, as `n = 10`.
    """

    param: str
    declared: str
    argument: str
    actual: str
    level: str = ""
    binds: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BoundaryRow:
    """A call with its display name; `kind` is "function", "branch", "loop" or "kernel".

    `level` is the weakest of its rows. `results` of a kernel call go into arrays that the caller
    passes; other results are returned.
    """

    name: str
    display_name: str
    callee: str
    kind: str
    function: str
    rows: tuple[MatchRow, ...]
    level: str
    result: str
    ops: tuple[str, ...]
    passed: tuple[PassedValue, ...] = ()
    results: tuple[PassedValue, ...] = ()


def data(c: Compiled, operators: Sequence[Operator] = ()) -> tuple[BoundaryRow, ...]:
    """Return the calls of functions after shape inference, then the kernel calls if there are any.

    `operators` are the source operators, from which the display names come.
    """
    rows = (
        *of_program(inferred_program(c), kernels=False),
        *of_program(lowered_program(c), kernels=True),
    )
    labels = value_labels(operators, lowered_program(c))
    display_names = distinct_labels(operators, {r.name: (r.ops, r.callee) for r in rows})
    return tuple(_with_display_names(r, display_names[r.name], labels) for r in rows)


def _with_display_names(
    r: BoundaryRow, display_name: str, labels: Mapping[str, str]
) -> BoundaryRow:
    """Return the row with the display names of its values."""
    passed, results = (
        tuple(replace(p, argument=labels.get(p.argument, p.argument)) for p in part)
        for part in (r.passed, r.results)
    )
    return replace(r, display_name=display_name, passed=passed, results=results)


def of_program(program: Program, *, kernels: bool) -> tuple[BoundaryRow, ...]:
    """Return every call of a function, or every call of a kernel."""
    functions = {f.name: f for f in program.functions}
    rows = []
    for function, binding in program.bindings():
        calls = _kernel(binding) if kernels else _calls(binding, functions, program.env)
        for call in calls:
            rows.append(_boundary_row(function, binding, call, program.env))
    return tuple(rows)


@dataclass(frozen=True, slots=True)
class _Call:
    callee: str
    kind: str
    names: tuple[str, ...]
    signature: Callable
    args: tuple[Annotation, ...]
    bound_symbols: frozenset[str] = frozenset()
    passed: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


def _boundary_row(function: Function, binding: Binding, call: _Call, env: ShapeEnv) -> BoundaryRow:
    derived: Derived = unify(call.signature, call.args, env, call.bound_symbols)
    rows = tuple(
        MatchRow(call.names[r.argument], r.param, r.arg, r.symbol, LEVELS[r.level], r.reason)
        for r in derived.rows
    )
    name = ", ".join(v.name for v in binding.vars)
    return BoundaryRow(
        name,
        name,
        call.callee,
        call.kind,
        function.name,
        rows,
        LEVELS[derived.level],
        annotation_text(derived.result),
        tuple(sorted(binding.origin)),
        tuple(_passed(n, call, derived) for n in range(len(call.args))),
        tuple(_results(binding, call, derived)),
    )


def _passed(n: int, call: _Call, derived: Derived) -> PassedValue:
    mine = [r for r in derived.rows if r.argument == n]
    wanted = annotation_text(call.signature.params[n])  # type: ignore[index]
    worst = min((r.level for r in mine), default=Match.PROVED)
    return PassedValue(
        call.names[n],
        wanted,
        call.passed[n],
        annotation_text(call.args[n]),
        LEVELS[worst],
        tuple(f"{r.symbol} = {r.arg}" for r in mine if r.symbol),
        tuple(r.reason for r in mine if r.level is worst),
    )


def _results(binding: Binding, call: _Call, derived: Derived) -> Iterator[PassedValue]:
    """Yield the results of the callee with their names in the caller."""
    kind, result = call.signature.result, derived.result
    inner = kind.items if isinstance(kind, TupleType) else (kind,)
    outer = result.items if isinstance(result, TupleType) else (result,)
    names = call.outputs or tuple(v.name for v in binding.vars)
    for name, v, wanted, got in zip(names, binding.vars, inner, outer):
        yield PassedValue(name, annotation_text(wanted), v.name, annotation_text(got))


def _calls(binding: Binding, functions: Mapping[str, Function], env: ShapeEnv) -> Iterator[_Call]:
    """Yield the functions that a binding calls.

    A branch or a loop body sees its caller's symbols.
    """
    seen = frozenset(s.name for s in env.symbols)
    match binding.expr:
        case FunctionCall(name, args):
            yield _call_of(functions[name], "function", _named(args), frozenset())
        case Branch(_, then, orelse, args):
            for name in (then, orelse):
                yield _call_of(functions[name], "branch", _named(args), seen)
        case Loop(body, _, _, state, args, _):
            own_params = (("iteration", Tensor((), "int64")), ("condition", Tensor((), "bool")))
            yield _call_of(functions[body], "loop", (*own_params, *_named((*state, *args))), seen)


def _named(args: Iterable[Var]) -> tuple[tuple[str, Annotation], ...]:
    return tuple((a.name, a.type) for a in args)


def _call_of(
    function: Function,
    kind: str,
    args: Sequence[tuple[str, Annotation]],
    bound_symbols: frozenset[str],
) -> _Call:
    names = tuple(p.name for p in function.params)
    outputs = tuple(v.name for v in function.outputs)
    passed, types = tuple(n for n, _ in args), tuple(t for _, t in args)
    signature = signature_of(function, bound_symbols)
    return _Call(function.name, kind, names, signature, types, bound_symbols, passed, outputs)


def _kernel(binding: Binding) -> Iterator[_Call]:
    """Yield the kernel that a binding calls; its buffers use the caller's symbols."""
    if isinstance(binding.expr, KernelCall):
        kernel, args = binding.expr.kernel, binding.expr.args
        outputs = tuple(_buffer(kernel, n) for n in kernel.outputs)
        result = outputs[0] if len(outputs) == 1 else TupleType(outputs)
        signature = Callable(tuple(_buffer(kernel, n) for n in kernel.inputs), result)
        types = tuple(a.type for a in args)
        seen = frozenset(symbols_of_dims(d for t in kernel.tensors for d in t.shape))
        passed = tuple(a.name for a in args)
        yield _Call(
            kernel.name, "kernel", kernel.inputs, signature, types, seen, passed, kernel.outputs
        )


def _buffer(kernel: Kernel, name: str) -> Tensor:
    spec = kernel.spec(name)
    return Tensor(spec.shape, spec.dtype)


def table(rows: Sequence[BoundaryRow]) -> Table:
    """Return one row per dim; identical dims of a parameter share one row."""
    lines = [(call, row) for call in rows for row in _merge_equal_dims(call.rows)]
    return Table(
        (
            "call",
            "in",
            "callee",
            "parameter",
            "parameter's dims",
            "argument's dims",
            "binds",
            "level",
            "why",
        ),
        tuple(
            (
                c.display_name,
                c.function,
                f"{c.kind} {c.callee}",
                r.param,
                r.declared,
                r.actual,
                r.binds,
                r.level,
                r.reason,
            )
            for c, r in lines
        )
        or (("none", "", "", "", "", "", "", "", "nothing is called yet"),),
        tuple(c.ops for c, _ in lines),
        caption(rows),
        see(rows),
    )


def _merge_equal_dims(rows: Sequence[MatchRow]) -> Iterator[MatchRow]:
    """Yield the rows, merging dims that are written alike in parameter and argument."""
    for (param, alike), group in groupby(rows, lambda r: (r.param, r.declared == r.actual)):
        mine = list(group)
        if alike and not any(r.binds for r in mine) and len({r.level for r in mine}) == 1:
            dims = ", ".join(r.declared for r in mine)
            yield MatchRow(param, dims, dims, "", mine[0].level, "written alike")
        else:
            yield from mine


def caption(rows: Sequence[BoundaryRow]) -> str:
    """Describe the number of calls of each kind, and how many leave a check to the run."""
    kinds = dict.fromkeys(c.kind for c in rows)
    counts = ", ".join(f"{sum(c.kind == k for c in rows)} {k}" for k in kinds)
    left = sum(c.level != "proved" for c in rows)
    return f"calls: {counts or 'none'}; {left} leave something to the run"


def see(rows: Sequence[BoundaryRow]) -> tuple[Sentence, ...]:
    """Return the key sentences: the calls, how many are proved to fit, and where results go."""
    if not rows:
        return (("Nothing is called yet.",),)
    proved = sum(c.level == "proved" for c in rows)
    sentences: list[Sentence] = [
        (Mark(f"{proved} of {counted(len(rows), 'call')}", "proved"), " fit by proof.")
    ]
    left = len(rows) - proved
    if left:
        sentences.append((Mark(counted(left, "call"), "left"), " leave a check to the run."))
    kernels = sum(c.kind == "kernel" for c in rows)
    if kernels:
        sentences.append(
            ("Kernels write into ", Mark("arrays that the caller passes", "destination"), ".")
        )
    return tuple(sentences)


def figure(
    rows: Sequence[BoundaryRow],
    size: tuple[int, int],
    symbols: Sequence[str] = (),
    selected: str = "",
) -> Svg:
    """Draw calls around the selected operator: arguments above the boundary, parameters below."""
    width, height = size
    each = _head(width) + 2 * BOX + ARROW + SPACE
    count = max(1, int((height - FOOT) / each))
    shown = around(rows, [selected in c.ops for c in rows], count) if rows else ()
    at = next((i for i, c in enumerate(rows) if selected in c.ops), 0)
    if shown and rows[at] not in shown:
        shown = rows[at : at + count]
    each = min((height - FOOT) / max(1, len(shown)), each + 40)
    marks: list[str] = []
    for n, call in enumerate(shown):
        marks += _boundary(call, symbols, n * each, width, on=bool(selected) and call is rows[at])
    if not rows:
        marks.append(label(0, 20, "Nothing is called yet.", "i"))
    remainder = counted(len(rows) - len(shown), "more call") if len(rows) > len(shown) else ""
    items = [
        ("proved", "pipe", "passed"),
        ("boundary", "dash", "boundary of the call"),
        ("destination", "dashbox", "array for the result"),
    ]
    marks += legend(items, height - 9, width - (label_width(remainder) + 14 if remainder else 0))
    if remainder:
        marks.append(label(width, height - 9, remainder, anchor="end"))
    return Svg(width, height, "".join(marks), f"Calls: {caption(rows)}", selected, PX)


def _head(width: int) -> float:
    """Return the height above a call, with room for its name on a narrow page."""
    return 28.0 if width < NARROW else 10.0


def _boundary(
    c: BoundaryRow, symbols: Sequence[str], y: float, width: int, *, on: bool
) -> Iterator[str]:
    """Draw one call: the arguments, the boundary, and the callee's parameters."""
    narrow = width < NARROW
    gutter, y = 0.0 if narrow else GUTTER, y + _head(width)
    yield from _bands(c, y, width, narrow=narrow, on=on)
    back = "destination" if c.kind == "kernel" else "back"
    most = max(2, int((width - gutter) / LEAST))
    passed, results = list(c.passed), list(c.results)
    room = max(1, most - min(len(results), 2))
    columns = [(p, "in") for p in passed[: room if len(passed) <= room else room - 1]]
    more = passed[len(columns) :]
    ends = [(r, back) for r in results[:2]]
    total = len(columns) + len(ends) + bool(more)
    w = min(WIDEST, (width - gutter) / max(1, total))
    x = gutter
    for p, direction in columns:
        yield lit_by("".join(_column(p, direction, x, y, w, symbols)), _keys(p))
        x += w
    if more:
        yield lit_by("".join(_more(more, x, y, w)), "proved")
        x += w
    for p, direction in ends:
        yield lit_by("".join(_column(p, direction, x, y, w, symbols)), direction)
        x += w


def _bands(c: BoundaryRow, y: float, width: int, *, narrow: bool, on: bool) -> Iterator[str]:
    """Draw the backgrounds of the caller and the callee, with their names."""
    title = f"{c.display_name}; {c.name} in the program"
    top, low = y, y + BOX + ARROW
    yield rect(0, top - 8, width, BOX + 16, "var(--app)")
    yield rect(0, low - 8, width, BOX + 16, "var(--app)")
    middle = top + BOX + ARROW / 2
    line = pipe(f"M0 {middle:g}H{width:g}", ink="ink3", width=2, dashed="2 5")
    yield lit_by(line, "boundary")
    style = "a" if on else "i w"
    if narrow:
        words = [f"{c.display_name} calls {c.kind} {c.callee}", c.display_name]
        headline = next((t for t in words if label_width(t, bold=True) <= width), words[-1])
        yield label(0, y - 14, headline, style, ops=c.ops, title=title)
        return
    room = GUTTER - 24
    for at, name, what, mine in (
        (top, c.display_name, f"in {c.function}", style),
        (low, c.callee, c.kind, "i w"),
    ):
        lines = name_lines(name, room) or break_in_two(name, room)
        for n, text in enumerate(lines):
            ops = c.ops if at == top else ()
            yield label(12, at + 16 + LINE * n, text, mine, ops=ops, title=title)
        what = what if label_width(what) <= room else what.split()[0]
        yield label(12, at + 16 + LINE * len(lines), what)


def _keys(p: PassedValue) -> str:
    return "proved" if p.level == "proved" else "left"


def _column(
    p: PassedValue, direction: str, x: float, y: float, w: float, symbols: Sequence[str]
) -> Iterator[str]:
    """Draw a value above the boundary, its parameter below it, and the verdict between them."""
    top, low = y, y + BOX + ARROW
    bad = p.level in ("never fits", "too little is known")
    yield from _box(p.argument, p.actual, x, top, w, symbols, dashed=direction == "destination")
    yield from _box(p.param, p.declared, x, low, w, symbols, bad=bad)
    center, from_, to = x + w / 2, top + BOX, low
    if direction == "back":
        yield pipe(f"M{center:g} {to:g}V{from_ + 7:g}") + tip(center, from_ + 1, "up")
        return
    dash = "5 4" if direction == "destination" else ""
    yield pipe(f"M{center:g} {from_:g}V{to - 7:g}", dashed=dash) + tip(center, to - 1, "down")
    if direction == "destination":
        return
    reason = "; ".join(dict.fromkeys(p.reasons)) or p.level
    yield from _verdict(p, center, from_ + ARROW / 2, x + w, reason)


def _verdict(p: PassedValue, center: float, y: float, right: float, reason: str) -> Iterator[str]:
    """Draw the mark on an arrow: proved, left to the run, or refused; and the symbols it binds."""
    at = center + 16
    words = ", ".join(p.binds)
    if p.level == "checked by the run":
        ring = 'fill="var(--pane)" stroke="var(--ink)" stroke-width="2"'
        yield f'<circle cx="{at:g}" cy="{y:g}" r="5" {ring}/>'
        words = words or "at run"
    else:
        yield rect(at - 8, y - 8, 17, 16, "var(--pane)")
        yield tick(at, y, good=p.level == "proved")
    words = cut_to(words, right - at - 12)
    if words:
        yield rect(at + 9, y - 9, label_width(words) + 4, 18, "var(--pane)")
        yield label(at + 11, y + 5, words, "i", title=reason)
    else:
        yield rect(at - 8, y - 8, 17, 16, "transparent", title=reason)


def _box(
    name: str,
    shape_text: str,
    x: float,
    y: float,
    w: float,
    symbols: Sequence[str],
    *,
    dashed: bool = False,
    bad: bool = False,
) -> Iterator[str]:
    """Draw a tensor: its name and its shape."""
    room = w - 20
    edge = f'rx="4" stroke="var(--{"bad" if bad else "ink"})" stroke-width="{2 if bad else 1.5}"'
    edge += ' stroke-dasharray="4 3"' if dashed else ""
    yield rect(x + 5, y, w - 10, BOX, "var(--pane)", edge, title=f"{name}: {shape_text}")
    shape = break_at_separators(shape_text, room) or [cut_to(shape_text, room)]
    is_wrapped = len(shape) > 1
    names = (
        break_at_separators(name, room, 1, bold=True)
        if is_wrapped
        else name_lines(name, room, anywhere=True)
    )
    lines = [(t, "i w") for t in names or [cut_to(name, room, bold=True)]]
    lines += [(t, "bad" if bad else "i") for t in shape]
    top = y + (BOX - LINE * len(lines)) / 2 + 13
    for n, (text, style) in enumerate(lines):
        marked = symbols if style == "i" else ()
        yield label(x + w / 2, top + n * LINE, text, style, anchor="middle", symbols=marked)


def _more(more: Sequence[PassedValue], x: float, y: float, w: float) -> Iterator[str]:
    """Draw the arguments that do not fit as one column."""
    names = ", ".join(f"{p.param}: {p.declared}" for p in more)
    for top in (y, y + BOX + ARROW):
        edge = 'rx="4" stroke="var(--ink)" stroke-width="1.5" stroke-dasharray="4 3"'
        yield rect(x + 5, top, w - 10, BOX, "var(--pane)", edge, title=names)
        words = f"{len(more)} more"
        yield label(x + w / 2, top + BOX / 2 + 5, words, "i w", anchor="middle")
    center, from_ = x + w / 2, y + BOX
    yield pipe(f"M{center:g} {from_:g}v{ARROW - 7:g}") + tip(center, from_ + ARROW - 1, "down")


def _draw(s: OnShow, op: str) -> Drawn:
    c = s.now.compiled
    rows = s.house.cached("calls", (), lambda: data(c, s.house.operators))
    names = tuple(b.name for b in c.program.env.symbols)
    return rows, figure(rows, s.view.size, names, op), table(rows)


PICTURE = Picture(
    name="calls",
    title="Calls",
    words="The boundary of each call: arguments, parameters, and the destination of results.",
    stage=Stage.TYPED,
    about="operator",
    draw=_draw,
)
