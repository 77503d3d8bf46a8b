"""Relax's symbols and their uses: annotations, loops and buffers of every function."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeVar

from explorer.ir.annotations import defined_by, dims_of, symbols_in
from explorer.ir.calls import KernelCall, MatchCast, Var
from explorer.ir.decisions.memory_plan import MemoryPlan
from explorer.ir.dims import evaluate_dim, symbols_of
from explorer.ir.program import Binding, Program
from explorer.ir.stage import Stage
from explorer.ir.types import Annotation, ShapeType, Tensor, TupleType
from explorer.plain_text import counted
from widgets.draw.slide import GAP, NARROW, PX, ROW, Text, column_widths, line, share_rows
from widgets.draw.svg import (
    Svg,
    fit,
    label,
    operator_group,
    path,
    rect,
    symbol_label,
    symbols_in_text,
    symbols_of_dims,
    text_width,
)
from widgets.draw.table import Cell, Mark, Sentence, Table, lit_by, size_text
from widgets.model.compiled import Compiled
from widgets.model.picture import Drawn, OnShow, Picture
from widgets.relax.shape_words import annotation_text, bounds_text, extents, loops_text

SHAPE_STATUSES = ("proved", "checked at run time", "rank only", "nothing")
SHOWN = 14
HEAD, GUTTER, APART = 34.0, 40.0, 1300  # height of a title, gap between columns, width for two
LEAST = 110.0  # minimum pixels of a name or an annotation
BAR, LONGEST = 60.0, 260.0  # minimum and maximum pixels of a byte bar
NAMED = 2  # symbols named in a sentence
_WORDS = {"rank only": "known by rank only", "nothing": "not known"}
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SymbolRow:
    """A symbol: its definition, and the number of dims, loops and buffers that use it.

    `now` is its value at the knob. `assumed`: the run computes it, and `now` is the value tuned
    for.
    """

    name: str
    bounds: str
    defined: str
    now: int
    assumed: bool
    dims: int = 0
    loops: int = 0
    buffers: int = 0


@dataclass(frozen=True, slots=True)
class ValueRow:
    """A value with its display `label`.

    `status` is one of SHAPE_STATUSES; `bytes` is its size under the current symbol values.
    """

    name: str
    annotation: str
    status: str
    now: str
    bytes: int
    ops: tuple[str, ...]
    symbols: tuple[str, ...] = ()
    label: str = ""


@dataclass(frozen=True, slots=True)
class UseRow:
    """A kernel call with its loops, or a buffer with the formula of its bytes, and its `label`."""

    name: str
    text: str
    symbols: tuple[str, ...]
    ops: tuple[str, ...]
    bytes: int = 0
    label: str = ""


LabelOf = Callable[[tuple[str, ...]], str]


def no_label(ops: tuple[str, ...]) -> str:
    """Return "": every value is shown under its name in the program."""
    return ""


@dataclass(frozen=True, slots=True)
class ShapeRows:
    """All rows in program order; only those loops and buffers that use a symbol."""

    symbols: tuple[SymbolRow, ...]
    values: tuple[ValueRow, ...]
    loops: tuple[UseRow, ...]
    buffers: tuple[UseRow, ...]
    lowered: bool


def data(
    c: Compiled,
    sizes: Mapping[str, int],
    plan: MemoryPlan | None = None,
    label_of: LabelOf = no_label,
) -> ShapeRows:
    """Return the values after shape inference, the final program's loops, and the plan's buffers.

    `label_of` returns the label of what some source operators compute, "" where there is none.
    """
    program, last = inferred_program(c), c.program
    values = _values(program)
    defined = _definitions(program)
    names = dict.fromkeys(chain(defined, *(symbols_in(v.type) for _, v, _ in values)))
    symbol_values = {n: sizes.get(n, program.env.of(n).hint) for n in names}
    loops = tuple(_loops(last, last.stage >= Stage.LEGALIZED))
    buffers = tuple(_buffers(plan, symbol_values)) if plan is not None else ()
    symbols = (
        SymbolRow(
            name,
            bounds_text(program.env.of(name)),
            defined.get(name, "given by a caller"),
            value,
            name not in sizes,
            sum(_dims_with(v.type, name) for _, v, _ in values),
            sum(name in row.symbols for row in loops),
            sum(name in row.symbols for row in buffers),
        )
        for name, value in symbol_values.items()
    )
    return ShapeRows(
        tuple(symbols),
        tuple(
            _labelled(_value_row(where, v, b, symbol_values), label_of) for where, v, b in values
        ),
        tuple(_labelled(row, label_of) for row in loops),
        tuple(_labelled(row, label_of) for row in buffers),
        last.stage >= Stage.LEGALIZED,
    )


Row = TypeVar("Row", ValueRow, UseRow)


def _labelled(row: Row, label_of: LabelOf) -> Row:
    return replace(row, label=label_of(row.ops) or row.name)


def inferred_program(c: Compiled) -> Program:
    """Return the program after shape inference."""
    done = [s.after for s in c.snapshots if s.after.stage == Stage.TYPED]
    return done[-1] if done else c.program


Value = tuple[str, Var, Binding | None]  # prefix of a non-main function, the value, its binding


def _values(program: Program) -> list[Value]:
    values: list[Value] = []
    for function in program.functions:
        where = "" if function is program.main else f"{function.name}."
        values += [(where, p, None) for p in function.params]
        values += [(where, v, b) for b in function.body for v in b.vars]
    return values


def _definitions(program: Program) -> dict[str, str]:
    """Return for each symbol the first place that defines it."""
    definitions: dict[str, str] = {}
    for where, var, binding in _values(program):
        if binding is not None and not isinstance(binding.expr, MatchCast):
            continue
        for name in defined_by(var.type):
            what = "match_cast" if binding is not None else "parameter"
            axis = _axis(var.type, name)
            definitions.setdefault(name, f"{what} {where}{var.name}{axis}")
    return definitions


def _axis(annotation: Annotation, name: str) -> str:
    axes = [i for i, d in enumerate(dims_of(annotation) or ()) if str(d) == name]
    return f", dim {axes[0]}" if axes else ""


def _dims_with(annotation: Annotation, name: str) -> int:
    if isinstance(annotation, TupleType):
        return sum(_dims_with(item, name) for item in annotation.items)
    return sum(name in symbols_of(d) for d in dims_of(annotation) or ())


def _value_row(
    where: str, var: Var, binding: Binding | None, symbol_values: Mapping[str, int]
) -> ValueRow:
    ops = tuple(sorted(binding.origin)) if binding is not None else ()
    cast = binding is not None and isinstance(binding.expr, MatchCast)
    shape, size = dims_of(var.type), 0
    if isinstance(var.type, Tensor) and var.type.is_known and var.type.dtype != "string":
        size = evaluate_dim(var.type.bytes, symbol_values)
    return ValueRow(
        where + var.name,
        annotation_text(var.type),
        _shape_status(var.type, cast),
        ""
        if shape is None
        else "×".join(str(evaluate_dim(d, symbol_values)) for d in shape) or "scalar",
        size,
        ops,
        tuple(sorted(symbols_in(var.type))),
    )


def _shape_status(annotation: Annotation, cast: bool) -> str:
    match annotation:
        case Tensor() | ShapeType():
            if dims_of(annotation) is not None:
                return "checked at run time" if cast else "proved"
            return "nothing" if annotation.rank is None else "rank only"
        case TupleType(items):
            return max(
                (_shape_status(i, cast) for i in items), key=SHAPE_STATUSES.index, default="proved"
            )
    return "nothing"


def _loops(program: Program, lowered: bool) -> Iterator[UseRow]:
    """Yield the kernel calls whose extents use a symbol."""
    for function, binding in program.bindings() if lowered else ():
        if not isinstance(binding.expr, KernelCall):
            continue
        where = "" if function is program.main else f"{function.name}."
        symbols = symbols_of_dims(extents(binding.expr.kernel).values())
        if symbols:
            ops = tuple(sorted(binding.origin))
            yield UseRow(where + binding.name, loops_text(binding.expr.kernel), symbols, ops)


def _buffers(plan: MemoryPlan, symbol_names: Collection[str]) -> Iterator[UseRow]:
    for b in plan.buffers:
        symbols = symbols_in_text(b.formula, symbol_names)
        if symbols and not b.alias_of:
            yield UseRow(b.name, b.formula, symbols, tuple(sorted(b.origin)), b.bytes)


def table(rows: ShapeRows) -> Table:
    """Return one row per symbol, value, kernel with loops, and buffer."""
    symbols: list[tuple[Cell, ...]] = [
        (s.name, "symbol", s.bounds, s.defined, f"{s.now}{' (assumed)' * s.assumed}", 0, "")
        for s in rows.symbols
    ]
    values = [
        (v.label, "value", v.annotation, v.status, v.now, v.bytes, v.name) for v in rows.values
    ]
    loops = [(u.label, "loops", u.text, "", "", 0, u.name) for u in rows.loops]
    buffers = [(u.label, "buffer", u.text, "", "", u.bytes, u.name) for u in rows.buffers]
    described: tuple[Sequence[ValueRow | UseRow], ...] = (rows.values, rows.loops, rows.buffers)
    return Table(
        ("name", "is a", "annotation", "known or defined", "now", "bytes", "in the program"),
        (*symbols, *values, *loops, *buffers),
        (*(() for _ in symbols), *(row.ops for part in described for row in part)),
        f"{counted(len(symbols), 'symbol')}, "
        f"{counted(len(values), 'value')}: {count_statuses(rows)}",
        see(rows),
    )


def see(rows: ShapeRows) -> tuple[Sentence, ...]:
    """Return the key sentences: the symbols, what is known of shapes, and the uses of a symbol.

    The last sentence is about the symbol with the most uses.
    """
    status_marks = [
        Mark(f"{n:,}", f"known{SHAPE_STATUSES.index(k)}") for k, n in _status_counts(rows)
    ]
    kinds = [k for k, _ in _status_counts(rows)]
    shapes_: list[str | Mark] = [f"Of {counted(len(rows.values), 'shape')} "]
    if len(status_marks) == 1 < len(rows.values):
        shapes_, status_marks = (
            ["All "],
            [replace(status_marks[0], text=f"{status_marks[0].text} shapes")],
        )
    for n, (mark, kind) in enumerate(zip(status_marks, kinds)):
        verb = "is" if mark.text == "1" else "are"
        shapes_ += [", " if n else "", mark, f" {verb} {_WORDS.get(kind, kind)}"]
    sentences: list[Sentence] = [(*shapes_, ".")] if status_marks else []
    if not rows.symbols:
        return (("Every extent of this model is a number.",), *sentences)
    first: list[str | Mark] = [Mark(counted(len(rows.symbols), "symbol"), "symbol"), ": "]
    for n, s in enumerate(rows.symbols[:NAMED]):
        word = "assumed to be" if s.assumed else "is"
        first += [", " if n else "", Mark(s.name, f"symbol sym{n}"), f" {word} {s.now:,}"]
    if len(rows.symbols) > NAMED:
        first.append(f" and {len(rows.symbols) - NAMED:,} more")
    at = max(range(len(rows.symbols)), key=lambda n: rows.symbols[n].dims)
    most = rows.symbols[at]
    uses = [(most.loops, "loop"), (most.buffers, "buffer")]
    marks = [Mark(counted(n, what), f"{what} sym{at}") for n, what in uses if n]
    values = sum(most.name in v.symbols for v in rows.values)
    marks.insert(0, Mark(counted(values, "value"), f"value sym{at}"))
    joined = [part for m in marks for part in (", ", m)][1:]
    if len(joined) > 1:
        joined[-2] = " and "
    depend = " depend" + "s" * (len(marks) == 1 and values == 1)
    return ((*first, "."), *sentences, (*joined, f"{depend} on {most.name}."))


def count_statuses(rows: ShapeRows) -> str:
    """Describe how many values have each status."""
    counts = {k: sum(v.status == k for v in rows.values) for k in SHAPE_STATUSES}
    return ", ".join(f"{n} {k}" for k, n in counts.items() if n)


@dataclass(frozen=True, slots=True)
class _Line:
    """A row of text.

    `keys` are its highlight keys. `symbol` is the name of a symbol's own row and the text read out
    there. `bytes` are drawn as a bar relative to the other rows of its part.
    """

    cells: tuple[Text, ...]
    keys: str
    ops: tuple[str, ...] = ()
    symbol: tuple[str, str] = ("", "")
    bytes: int = 0
    on: bool = False


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows below a title; `count` is the number of rows, `beside` the text after the title."""

    title: str
    lines: tuple[_Line, ...]
    count: int
    keys: str
    beside: tuple[tuple[str, str], ...] = ()  # text with its highlight keys
    none: str = ""

    @property
    def rows_needed(self) -> int:
        """The number of rows that would show all of it."""
        return max(1, self.count)


def figure(rows: ShapeRows, size: tuple[int, int], selected: str = "") -> Svg:
    """Draw symbols, then values, loops and buffers, near the selected operator.

    On a wide page, loops and buffers are in a second column.
    """
    width, height = size
    parts = _parts(rows, selected, int(height / ROW))
    apart = width >= APART
    column_parts = [parts[:2], parts[2:]] if apart else [parts]
    each = (width - GUTTER * (len(column_parts) - 1)) / len(column_parts)
    marks = [
        mark
        for n, column in enumerate(column_parts)
        for mark in _column(column, n * (each + GUTTER), each, height)
    ]
    title = f"Shapes of {counted(len(rows.values), 'value')}: {count_statuses(rows)}"
    return Svg(width, height, "".join(marks), title, selected, PX)


def _parts(rows: ShapeRows, selected: str, most: int) -> tuple[_Part, ...]:
    """Return the parts; of many rows only `most` near the selected operator."""
    numbers = {s.name: n for n, s in enumerate(rows.symbols)}
    values = around(rows.values, [selected in v.ops for v in rows.values], most)
    parts = [
        _Part(
            "Symbols",
            tuple(_symbol(s, numbers) for s in rows.symbols[:most]),
            len(rows.symbols),
            "symbol",
            none="every extent of this model is a number",
        ),
        _Part(
            "Values",
            tuple(_value(v, numbers, selected) for v in values),
            len(rows.values),
            f"value {_keys(numbers, numbers)}",
            tuple(
                (f"{n:,} {k}", f"known{SHAPE_STATUSES.index(k)}") for k, n in _status_counts(rows)
            ),
            none="the program has none",
        ),
    ]
    for title, key, uses, none in (
        ("Loops", "loop", rows.loops, _no_loops(rows)),
        ("Buffers", "buffer", rows.buffers, "no buffer's bytes depend on a symbol"),
    ):
        near = around(uses, [selected in u.ops for u in uses], most)
        used = dict.fromkeys(name for u in uses for name in u.symbols)
        keys = f"{key} {_keys(used, numbers)}"
        beside = ((f"{len(uses):,} depend on a symbol", keys),) if uses else ()
        lines = tuple(_use(u, key, numbers, selected) for u in near)
        parts.append(_Part(title, lines, len(uses), keys, beside, none))
    return tuple(parts)


def _keys(symbols: Iterable[str], numbers: Mapping[str, int]) -> str:
    """Return the highlight keys of symbols, whose names may be any text."""
    return " ".join(f"sym{numbers[name]}" for name in symbols if name in numbers)


def _status_counts(rows: ShapeRows) -> list[tuple[str, int]]:
    counts = [(k, sum(v.status == k for v in rows.values)) for k in SHAPE_STATUSES]
    return [(k, n) for k, n in counts if n]


def _no_loops(rows: ShapeRows) -> str:
    if not rows.lowered:
        return "there are no loops yet: compile through Relax"
    return "no loop's extent depends on a symbol"


def _column(parts: Sequence[_Part], x: float, wide: float, height: float) -> Iterator[str]:
    """Draw parts from the top down, each with as many rows as there is room for."""
    heads = len(parts)
    while heads > 1 and height - heads * HEAD < heads * 2 * ROW:
        heads -= 1
    shown = share_rows([p.rows_needed for p in parts[:heads]], int((height - heads * HEAD) / ROW))
    y = 16.0
    for part, count in zip(parts, shown):
        yield from _part(part, count, x, y, wide)
        y += HEAD + ROW * count


def _part(part: _Part, count: int, x: float, y: float, wide: float) -> Iterator[str]:
    """Draw a title with its rows; if some are omitted, the last line says how many."""
    head, right, end = label(x, y, part.title, "i w"), x + wide, x + wide
    yield lit_by(head, part.keys)
    for words, keys in reversed(part.beside):
        if right - text_width(words, PX) < x + 90:
            break
        yield lit_by(label(right, y, words, anchor="end"), keys)
        right -= text_width(words, PX) + GAP
    drawn = min(count, len(part.lines)) if part.count <= count else count - 1
    y += HEAD - 6
    if not part.lines:
        yield label(x, y, fit(part.none, wide, PX), title=part.none)
    lines = around(part.lines, [entry.on for entry in part.lines], drawn) if drawn else ()
    cells = _drop_columns([entry.cells for entry in lines], wide)
    room = column_widths(cells, wide)
    bar = x + sum(room[:-1]) + GAP * len(room), end - (room[-1] if room else 0) - GAP
    most = max((entry.bytes for entry in lines), default=0)
    for entry, row in zip(lines, cells):
        body = path(f"M{x:g} {y - 15.5:g}H{x + wide:g}", "var(--line)")
        body += rect(x, y - 15, wide, ROW - 1, "none", 'class="ground"', ops=entry.ops)
        if entry.symbol[0]:
            name, spoken = entry.symbol
            body += symbol_label(x, y, name, spoken, room=room[0] * 11 / PX)
            row = (replace(row[0], text=""), *row[1:])
        body += "".join(line(row, room, x, y, entry.ops, end))
        if entry.bytes and bar[1] - bar[0] > BAR:
            w = max(1.0, min(LONGEST, bar[1] - bar[0]) * entry.bytes / most)
            body += rect(bar[0], y - 9, w, 9, "var(--line2)", title=size_text(entry.bytes))
        yield lit_by(operator_group([body], entry.ops), entry.keys)
        y += ROW
    if part.lines and drawn < part.count:
        more = f"and {part.count - drawn:,} more"
        words = more if wide < NARROW / 2 else f"{more}, all of them in the table"
        yield label(x, y, words, title=words)


def _drop_columns(rows: Sequence[tuple[Text, ...]], wide: float) -> Sequence[tuple[Text, ...]]:
    """Drop last columns until the rows fit, but keep at least two."""
    while rows and len(rows[0]) > 2:
        room = column_widths(rows, wide)
        if min(room[:2]) >= LEAST or all(
            max(c.width for c in column) <= w + 0.5 for column, w in zip(zip(*rows), room)
        ):
            return rows
        rows = [row[:-1] for row in rows]
    return rows


def around(rows: Sequence[T], on: Sequence[bool], shown: int = SHOWN) -> Sequence[T]:
    """Return `shown` rows around the first one that is on, else the first rows.

    Nearby rows have the same window, so the view does not jump.
    """
    at, step = next((i for i, lit in enumerate(on) if lit), 0), max(1, shown // 2)
    first = max(0, min(at // step * step - step // 2, len(rows) - shown))
    return rows[first : first + shown]


def _symbol(s: SymbolRow, numbers: Mapping[str, int]) -> _Line:
    counts = ((s.dims, "dim"), (s.loops, "loop"), (s.buffers, "buffer"))
    uses = ", ".join(counted(*of) for of in counts)
    spoken = f"{s.name}: {s.bounds}, defined by {s.defined}, {uses}"
    now = f"{s.now:,} assumed" if s.assumed else f"now {s.now:,}"
    cells = (
        Text(s.name, "mono i w"),
        Text(now, "i w"),
        Text(s.bounds),
        Text(s.defined),
        Text(uses, end=True),
    )
    return _Line(cells, f"symbol {_keys((s.name,), numbers)}", (), (s.name, spoken))


def _value(v: ValueRow, numbers: Mapping[str, int], selected: str) -> _Line:
    cells = (
        Text(v.label, "i", title=_title_of(v)),
        Text(v.annotation, "mono", symbols=v.symbols),
        Text(v.now, "i"),
        Text(size_text(v.bytes) if v.bytes else "", end=True),
        Text(v.status, "bad" if v.status in SHAPE_STATUSES[2:] else "", end=True),
    )
    keys = f"value known{SHAPE_STATUSES.index(v.status)} {_keys(v.symbols, numbers)}"
    return _Line(cells, keys, v.ops, bytes=v.bytes, on=selected in v.ops)


def _use(u: UseRow, key: str, numbers: Mapping[str, int], selected: str) -> _Line:
    cells = (
        Text(u.label, "i", title=_title_of(u)),
        Text(u.text, "mono", symbols=u.symbols),
        Text(size_text(u.bytes) if u.bytes else "", "i", end=True),
    )
    keys = f"{key} {_keys(u.symbols, numbers)}"
    return _Line(cells, keys, u.ops, bytes=u.bytes, on=selected in u.ops)


def _title_of(row: ValueRow | UseRow) -> str:
    return row.name if row.label == row.name else f"{row.label}: {row.name} in the program"


def _rows(s: OnShow) -> ShapeRows:
    return data(s.now.compiled, dict(s.now.sizes), s.plan, s.house.heaviest)


def _draw(s: OnShow, op: str) -> Drawn:
    sizes = s.now.sizes
    rows = s.house.cached("relax", sizes, lambda: _rows(s))
    return rows, figure(rows, s.view.size, op), table(rows)


PICTURE = Picture(
    name="relax",
    title="Shapes",
    words="The inferred shape of every value, and the origin of each symbol.",
    stage=Stage.TYPED,
    about="operator",
    draw=_draw,
)
