"""Relax's three levels in one module: graph calls, and the loops, libraries and functions used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from explorer.compiler.operators import Operator, head
from explorer.ir.calls import (
    Branch,
    FunctionCall,
    Gradient,
    KernelCall,
    LibraryCall,
    Loop,
    MatchCast,
    OpCall,
    ShapeOf,
    View,
)
from explorer.ir.kernels.canonical import canonical
from explorer.ir.program import Binding, Function, Program
from explorer.ir.stage import Stage
from explorer.plain_text import counted
from widgets.draw.slide import (
    BOLD,
    LINE,
    NARROW,
    PX,
    Text,
    column_widths,
    cut_to,
    label_width,
    line,
)
from widgets.draw.svg import (
    Svg,
    fit,
    label,
    operator_group,
    path,
    rect,
    symbols_of_dims,
    text_width,
)
from widgets.draw.table import Mark, Sentence, Table, lit_by
from widgets.model.compiled import Compiled
from widgets.model.picture import Drawn, OnShow, Picture
from widgets.relax.shape_words import extents, loops_text
from widgets.relax.shapes import around

LEVELS = ("operator", "kernel", "library", "host", "view or shape")
TOP, FOOT = 56.0, 24.0  # above and below the calls
ONE, TWO = 24.0, 40.0  # pitch of calls with one and two lines
LOW, TALL, BETWEEN = 22.0, 40.0, 6.0  # entries of one and two lines, and their gap
SPLIT, LINK, LEFT = 0.48, 84.0, 560.0  # left of entries (share), arrow length, maximum left
LEAST = 60.0  # minimum pixels to show an entry's loops
NOUNS = {
    "operator": ("n operator", "operators"),
    "kernel": (" kernel call", "kernel calls"),
    "library": (" call of a library", "calls of libraries"),
    "host": (" step of the host", "steps of the host"),
    "view or shape": (" view or shape", "views or shapes"),
}
INKS = {
    "operator": "var(--ink)",
    "kernel": "var(--fn)",
    "library": "var(--st)",
    "host": "var(--k)",
    "view or shape": "var(--ink3)",
}


@dataclass(frozen=True, slots=True)
class CallRow:
    """A binding, in program order; `entries` are positions of its callees.

    If nothing is called, `note` says what is done.
    """

    name: str
    operator: str
    function: str
    level: str
    entries: tuple[int, ...]
    note: str
    ops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EntryRow:
    """A callee: its level, its loops or other description, and the number of calls to it."""

    name: str
    level: str
    text: str
    calls: int
    symbols: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LevelRows:
    """The module; `levels` counts the calls of each level, in the order of LEVELS."""

    calls: tuple[CallRow, ...]
    entries: tuple[EntryRow, ...]
    levels: tuple[tuple[str, int], ...]
    main: str


def data(c: Compiled, operators: Sequence[Operator]) -> LevelRows:
    """Return the module as Relax leaves it, or as far as it was lowered."""
    return of_program(lowered_program(c), operators)


def lowered_program(c: Compiled) -> Program:
    """Return the last program of stage LEGALIZED, or the last one before it."""
    before = [s.after for s in c.snapshots if s.after.stage <= Stage.LEGALIZED]
    return before[-1] if before else c.program


def of_program(program: Program, operators: Sequence[Operator]) -> LevelRows:
    """Return every binding of a program with its callees; equal kernels are one entry."""
    operators_by_name = {o.name: o for o in operators}
    functions = {f.name: f for f in program.functions}
    places: dict[Hashable, int] = {}
    entries: list[EntryRow] = []
    calls = []
    for function, binding in program.bindings():
        callees = []
        for key, entry in _entries(binding, functions):
            at = places.setdefault(key, len(entries))
            if at == len(entries):
                entries.append(entry)
            entries[at] = replace(entries[at], calls=entries[at].calls + 1)
            callees.append(at)
        calls.append(_call_row(function, binding, tuple(callees), operators_by_name))
    counts = Counter(call.level for call in calls)
    levels = tuple((level, counts[level]) for level in LEVELS if counts[level])
    return LevelRows(tuple(calls), tuple(entries), levels, program.main.name)


def _call_row(
    function: Function,
    binding: Binding,
    entries: tuple[int, ...],
    operators_by_name: Mapping[str, Operator],
) -> CallRow:
    ops = tuple(sorted(binding.origin))
    first = head(operators_by_name[o] for o in ops if o in operators_by_name)
    operator_label = "" if first is None else first.label
    return CallRow(
        ", ".join(v.name for v in binding.vars),
        f"{operator_label} and {len(ops) - 1} more"
        if operator_label and len(ops) > 1
        else operator_label,
        function.name,
        _level(binding),
        entries,
        _note(binding),
        ops,
    )


def _level(binding: Binding) -> str:
    match binding.expr:
        case OpCall():
            return "operator"
        case KernelCall():
            return "kernel"
        case LibraryCall(library, _, _, _):
            return "host" if library == "shape" else "library"
        case View() | MatchCast() | ShapeOf():
            return "view or shape"
        case Branch() | Loop() | FunctionCall() | Gradient():
            return "host"


def _note(binding: Binding) -> str:
    match binding.expr:
        case OpCall(op, _, _):
            return f"{op}, not lowered yet"
        case View(arg, _):
            return f"the bytes of {arg.name}"
        case MatchCast(arg):
            return f"checks {arg.name}, finds symbols"
        case ShapeOf(dims, _):
            return f"the dims {', '.join(map(str, dims)) or 'of a scalar'}"
    return ""


def _entries(
    binding: Binding, functions: Mapping[str, Function]
) -> list[tuple[Hashable, EntryRow]]:
    match binding.expr:
        case KernelCall(kernel, _, _):
            symbols = symbols_of_dims(extents(kernel).values())
            return [
                (
                    canonical(kernel)[0],
                    EntryRow(kernel.name, "kernel", loops_text(kernel), 0, symbols),
                )
            ]
        case LibraryCall(library, name, _, _):
            where = (
                "arithmetic on shapes, by Python" if library == "shape" else "run by the library"
            )
            entry = EntryRow(f"{library}.{name}", _level(binding), where, 0)
            return [((library, name), entry)]
        case Branch(_, then, orelse, _):
            return [_function(functions[then]), _function(functions[orelse])]
        case Loop(body, _, _, _, _, _) | FunctionCall(body, _) | Gradient(body):
            return [_function(functions[body])]
    return []


def _function(function: Function) -> tuple[Hashable, EntryRow]:
    count = len(function.body)
    text = f"a function of {count} binding{'' if count == 1 else 's'}"
    return ("function", function.name), EntryRow(function.name, "host", text, 0)


def table(rows: LevelRows) -> Table:
    """Return one row per call."""
    return Table(
        ("value", "function", "operator", "level", "calls", "which is", "calls to it"),
        tuple(
            (
                c.name,
                c.function,
                c.operator,
                c.level,
                ", ".join(rows.entries[e].name for e in c.entries),
                "; ".join(rows.entries[e].text for e in c.entries) or c.note,
                max((rows.entries[e].calls for e in c.entries), default=0),
            )
            for c in rows.calls
        ),
        tuple(c.ops for c in rows.calls),
        caption(rows),
        see(rows),
    )


def caption(rows: LevelRows) -> str:
    """Describe the number of calls of each level, and the number of distinct kernels."""
    counts = ", ".join(f"{n} {level}" for level, n in rows.levels)
    kernels = sum(e.level == "kernel" for e in rows.entries)
    return f"{len(rows.calls)} bindings: {counts}; {kernels} distinct kernels"


def see(rows: LevelRows) -> tuple[Sentence, ...]:
    """Return the key sentences: the bindings of each level, and the kernel with the most calls."""
    if not rows.calls:
        return ()
    parts: list[str | Mark] = [f"Of {counted(len(rows.calls), 'binding')} "]
    for n, (level, count) in enumerate(rows.levels):
        mark = Mark(f"{count:,}", f"lv{LEVELS.index(level)}")
        singular, many = NOUNS[level]
        parts += [", " if n else "", mark, f" is a{singular}" if count == 1 else f" are {many}"]
    sentences: list[Sentence] = [(*parts, ".")]
    kernels = [e for e in rows.entries if e.level == "kernel"]
    at = _most(rows)
    if kernels and at is not None:
        served = sum(e.calls for e in kernels)
        mine = rows.entries[at]
        different = Mark(f"{counted(len(kernels), 'kernel')}", "entry")
        head = (different, f" serve{'s' * (len(kernels) == 1)} {counted(served, 'call')}")
        most = ("; ", Mark(mine.name, "most"), f" serves {mine.calls:,} of them")
        sentences.append((*head, *(most if 1 < mine.calls < served else ()), "."))
    return tuple(sentences)


def _most(rows: LevelRows) -> int | None:
    """Return the kernel with the most calls, or another entry if there is no kernel."""
    order = sorted(range(len(rows.entries)), key=lambda n: -rows.entries[n].calls)
    return next((n for n in order if rows.entries[n].level == "kernel"), next(iter(order), None))


@dataclass(frozen=True, slots=True)
class CallPositions:
    """Positions of the drawn calls and their entries.

    `two`: calls have a second line; `tall`: entries have one.
    """

    calls: Sequence[CallRow]
    entries: Mapping[int, float]
    left: float  # left edge of the entries
    right: float
    two: bool
    tall: bool

    @property
    def pitch(self) -> float:
        """The distance from a call to the next."""
        return TWO if self.two else ONE

    def y(self, n: int) -> float:
        """Return the y of the middle of a call."""
        return TOP + (n + 0.5) * self.pitch


def figure(rows: LevelRows, size: tuple[int, int], selected: str = "") -> Svg:
    """Draw calls at the left, their callees at the right, and arrows between them.

    A narrow page has a list of both.
    """
    width, height = size
    room = height - TOP - FOOT
    two = len(rows.calls) * TWO <= room
    count = max(1, int(room / (TWO if two else ONE)))
    calls = around(rows.calls, [selected in c.ops for c in rows.calls], count)
    omitted = len(rows.calls) - len(calls)
    marks = [*_legend(rows, width)]
    if width < NARROW:
        marks += _list(calls, rows, width)
    else:
        places = _places(calls, rows, size, two)
        marks += _heads(places)
        marks += _arrows(places, rows)
        for n, call in enumerate(calls):
            marks += _call(call, rows, places, n)
        for at, y in places.entries.items():
            marks += _entry(rows.entries[at], places, y, most=at == _most(rows))
    if omitted:
        more = f"and {omitted:,} more bindings, all of them in the table"
        marks.append(label(0, height - 7, cut_to(more, width), title=more))
    title = f"Three levels: {caption(rows)}"
    return Svg(width, height, "".join(marks), title, selected, PX)


def _places(
    calls: Sequence[CallRow], rows: LevelRows, size: tuple[int, int], two: bool
) -> CallPositions:
    """Place each entry beside the middle of its calls, as far as there is room.

    The entry with the most calls is always included.
    """
    width, height = size
    plan = CallPositions(calls, {}, min(LEFT, width * SPLIT), width - 1.5, two, True)
    callers: dict[int, list[float]] = {}
    for n, call in enumerate(calls):
        for entry in call.entries:
            callers.setdefault(entry, []).append(plan.y(n))
    middle = {e: sum(ys) / len(ys) for e, ys in callers.items()}
    most = _most(rows)
    if most is not None and most not in middle:
        middle[most] = height
    floor = height - FOOT
    tall = len(middle) * (TALL + BETWEEN) <= floor - TOP
    step = (TALL if tall else LOW) + BETWEEN
    order = sorted(middle, key=middle.__getitem__)
    fit_in = int((floor - TOP) / step)
    order = [e for e in order[: max(1, fit_in - 1)] if e != most]
    order = sorted([*order, *([most] if most is not None else [])], key=middle.__getitem__)
    positions: dict[int, float] = {}
    free = TOP + step / 2
    for entry in order:
        positions[entry] = max(free, middle[entry])
        free = positions[entry] + step
    last = floor - step / 2
    for entry in reversed(order):
        positions[entry] = min(last, positions[entry])
        last = positions[entry] - step
    return replace(plan, entries=positions, tall=tall)


def _legend(rows: LevelRows, width: float) -> Iterator[str]:
    x = 0.0
    for level, count in rows.levels:
        text = f"{count:,} {level}"
        if x + 18 + label_width(text) > width:
            return
        mark = rect(x, 5, 11, 11, INKS[level]) + label(x + 17, 15, text)
        yield lit_by(mark, f"lv{LEVELS.index(level)}")
        x += 17 + label_width(text) + 24


def _heads(plan: CallPositions) -> Iterator[str]:
    room = plan.left - LINK
    for x, words in (
        (0.0, ("Graph: bindings in program order", "Graph")),
        (plan.left, ("Loops and libraries: what they call", "Loops and libraries")),
    ):
        heading = next((w for w in words if label_width(w, bold=True) <= room), words[-1])
        yield label(x, TOP - 9, heading, "i w")


def _keys(level: str, entries: Sequence[int], rows: LevelRows) -> str:
    most = " most" if _most(rows) in entries else ""
    return f"lv{LEVELS.index(level)}{most}"


def _call(c: CallRow, rows: LevelRows, plan: CallPositions, n: int) -> Iterator[str]:
    ink, y, pitch, end = INKS[c.level], plan.y(n), plan.pitch, plan.left - LINK
    called = c.operator or c.name
    where = "" if c.function == rows.main else f"in {c.function}: "
    note = where + (c.note or (f"makes {c.name}" if c.operator else "made by Relax"))
    top = y - 3.5 if plan.two else y + 4.5
    tip_text = f"{called}; {c.name} in the program; {note}"
    body = rect(0, y - pitch / 2 + 1, end, pitch - 2, "none", 'class="ground"', ops=c.ops)
    body += rect(0, y - pitch / 2 + 2, 4, pitch - 4, ink)
    room = end - 22 - label_width(c.level)
    body += label(12, top, fit(called, room, PX), "i", ops=c.ops, title=tip_text)
    at = end - 6
    body += f'<text x="{at:g}" y="{top:g}" text-anchor="end" style="fill:{ink}">{c.level}</text>'
    if plan.two:
        body += label(12, top + LINE, cut_to(note, end - 18), title=note)
    elif c.name not in called and label_width(called, bold=True) + 12 + label_width(note) <= room:
        body += label(24 + label_width(called, bold=True), top, note)
    yield lit_by(operator_group([body], c.ops), f"call {_keys(c.level, c.entries, rows)}")


def _arrows(plan: CallPositions, rows: LevelRows) -> Iterator[str]:
    start, end = plan.left - LINK, plan.left
    for n, call in enumerate(plan.calls):
        ink = INKS[call.level]
        for entry in call.entries:
            if entry not in plan.entries:
                continue
            y, to = plan.y(n), plan.entries[entry]
            middle = (start + end) / 2
            d = f"M{start:g} {y:g}C{middle:g} {y:g} {middle:g} {to:g} {end - 5:g} {to:g}"
            body = path(d, ink, 'class="way" stroke-width="1.3"', ops=call.ops)
            body += f'<path d="M{end:g} {to:g}l-7 -4v8z" fill="{ink}"/>'
            yield lit_by(body, f"way {_keys(call.level, (entry,), rows)}")


def _entry(e: EntryRow, plan: CallPositions, y: float, *, most: bool) -> Iterator[str]:
    ink, room = INKS[e.level], plan.right - plan.left
    high = TALL if plan.tall else LOW
    tip_text = f"{e.name}: {e.text}"
    edge = f'rx="4" stroke="{ink}" stroke-width="1.5"'
    body = rect(plan.left, y - high / 2, room, high, "var(--pane)", edge, title=tip_text,
                symbols=e.symbols)  # fmt: skip
    top = y - 4 if plan.tall else y + 4.5
    many = counted(e.calls, "call")
    style = "mono" if e.level == "kernel" else ""
    name = fit(e.name, (room - label_width(many) - 28) / BOLD, PX, mono=True)
    body += label(plan.left + 8, top, name, "mono i w", title=tip_text)
    body += label(plan.right - 8, top, many, anchor="end")
    x = plan.left + 8 + (0 if plan.tall else text_width(name, PX, mono=True) * BOLD + 14)
    free = plan.right - 8 - x - (0 if plan.tall else label_width(many) + 14)
    text = fit(e.text, free, PX, mono=bool(style)) if free > LEAST else ""
    if text:
        down = LINE if plan.tall else 0
        body += label(x, top + down, text, style, symbols=e.symbols, title=tip_text)
    yield lit_by(body, f"entry lv{LEVELS.index(e.level)}{' most' * most}")


def _list(calls: Sequence[CallRow], rows: LevelRows, width: float) -> Iterator[str]:
    """Draw calls with their level and callees, one per line."""
    cells = [
        (
            Text(c.operator or c.name, "i", title=f"{c.name} in the program"),
            Text(", ".join(rows.entries[e].name for e in c.entries) or c.note),
            Text(c.level, end=True),
        )
        for c in calls
    ]
    room = column_widths(cells, width - 12)
    for n, (c, row) in enumerate(zip(calls, cells)):
        y = TOP + (n + 0.5) * ONE
        body = rect(0, y - ONE / 2 + 1, width, ONE - 2, "none", 'class="ground"', ops=c.ops)
        body += rect(0, y - ONE / 2 + 2, 4, ONE - 4, INKS[c.level])
        body += "".join(line(row, room, 12, y + 4.5, c.ops, width))
        yield lit_by(operator_group([body], c.ops), f"call entry {_keys(c.level, c.entries, rows)}")


def _draw(s: OnShow, op: str) -> Drawn:
    all_operators = s.house.operators
    rows = s.house.cached("levels", (), lambda: data(s.now.compiled, all_operators))
    return rows, figure(rows, s.view.size, op), table(rows)


PICTURE = Picture(
    name="levels",
    title="Three levels",
    words="Graph operators, and the loops and library calls that they were lowered to.",
    stage=Stage.LEGALIZED,
    about="operator",
    draw=_draw,
)
