"""The drawing and the words of the Shapes room."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from explorer.ir.stage import Stage
from widgets.draw.columns import GAP, ROW, Text, columns, line, shares
from widgets.draw.see import Mark, Sentence, lit_by
from widgets.draw.slide import NARROW, PX
from widgets.draw.svg import Svg, fit, label, path, rect, symbol_label, text_width, together
from widgets.draw.table import Cell, Table, count_text, size_text
from widgets.model.on_show import OnShow
from widgets.model.picture import Drawn, Picture
from widgets.relax import shapes
from widgets.relax.shapes import KNOWN, ShapeRows, SymbolRow, UseRow, ValueRow

SHOWN = 14
HEAD, GUTTER, APART = 34.0, 40.0, 1300  # over the rows of a part, between two columns of them
LEAST = 110.0  # pixels that a name or an annotation needs before others have room
BAR, LONGEST = 60.0, 260.0  # pixels of a bar of bytes: below the first there is none
NAMED = 2  # symbols of a sentence
_WORDS = {"rank only": "known by rank only", "nothing": "not known"}
T = TypeVar("T")


def table(rows: ShapeRows) -> Table:
    """One row a symbol, a value, a kernel's loops, and a buffer."""
    symbols: list[tuple[Cell, ...]] = [
        (s.name, "symbol", s.bounds, s.defined, f"{s.now}{' (assumed)' * s.assumed}", 0, "")
        for s in rows.symbols
    ]
    values = [
        (v.label, "value", v.annotation, v.known, v.now, v.bytes, v.name) for v in rows.values
    ]
    loops = [(u.label, "loops", u.text, "", "", 0, u.name) for u in rows.loops]
    buffers = [(u.label, "buffer", u.text, "", "", u.bytes, u.name) for u in rows.buffers]
    described: tuple[Sequence[ValueRow | UseRow], ...] = (rows.values, rows.loops, rows.buffers)
    return Table(
        ("name", "is a", "annotation", "known or defined", "now", "bytes", "in the program"),
        (*symbols, *values, *loops, *buffers),
        (*(() for _ in symbols), *(row.ops for part in described for row in part)),
        f"{count_text(len(symbols), 'symbol')}, "
        f"{count_text(len(values), 'value')}: {counted(rows)}",
        see(rows),
    )


def see(rows: ShapeRows) -> tuple[Sentence, ...]:
    """The sentences: the symbols and their values, what is known of shapes, and what depends on
    the symbol that is used most.
    """
    known = [Mark(f"{n:,}", f"known{KNOWN.index(k)}") for k, n in _known(rows)]
    kinds = [k for k, _ in _known(rows)]
    shapes_: list[str | Mark] = [f"Of {count_text(len(rows.values), 'shape')} "]
    if len(known) == 1 < len(rows.values):
        shapes_, known = ["All "], [replace(known[0], text=f"{known[0].text} shapes")]
    for n, (mark, kind) in enumerate(zip(known, kinds)):
        verb = "is" if mark.text == "1" else "are"
        shapes_ += [", " if n else "", mark, f" {verb} {_WORDS.get(kind, kind)}"]
    told: list[Sentence] = [(*shapes_, ".")] if known else []
    if not rows.symbols:
        return (("Every extent of this model is a number.",), *told)
    first: list[str | Mark] = [Mark(count_text(len(rows.symbols), "symbol"), "symbol"), ": "]
    for n, s in enumerate(rows.symbols[:NAMED]):
        word = "assumed to be" if s.assumed else "is"
        first += [", " if n else "", Mark(s.name, f"symbol sym{n}"), f" {word} {s.now:,}"]
    if len(rows.symbols) > NAMED:
        first.append(f" and {len(rows.symbols) - NAMED:,} more")
    at = max(range(len(rows.symbols)), key=lambda n: rows.symbols[n].dims)
    most = rows.symbols[at]
    uses = [(most.loops, "loop"), (most.buffers, "buffer")]
    marks = [Mark(count_text(n, what), f"{what} sym{at}") for n, what in uses if n]
    values = sum(most.name in v.symbols for v in rows.values)
    marks.insert(0, Mark(count_text(values, "value"), f"value sym{at}"))
    joined = [part for m in marks for part in (", ", m)][1:]
    if len(joined) > 1:
        joined[-2] = " and "
    depend = " depend" + "s" * (len(marks) == 1 and values == 1)
    return ((*first, "."), *told, (*joined, f"{depend} on {most.name}."))


def counted(rows: ShapeRows) -> str:
    """How much is known of how many values."""
    counts = {k: sum(v.known == k for v in rows.values) for k in KNOWN}
    return ", ".join(f"{n} {k}" for k, n in counts.items() if n)


@dataclass(frozen=True, slots=True)
class _Line:
    """A row of words: `keys` are those that sentences light it by, `symbol` that of a symbol's own
    row, with what is read out there; `bytes` are drawn as a bar beside the others of its part.
    """

    cells: tuple[Text, ...]
    keys: str
    ops: tuple[str, ...] = ()
    symbol: tuple[str, str] = ("", "")
    bytes: int = 0
    on: bool = False


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows below a title: of `count` those that may be drawn, and what stands beside the title."""

    title: str
    lines: tuple[_Line, ...]
    count: int
    keys: str
    beside: tuple[tuple[str, str], ...] = ()  # words with their keys
    none: str = ""

    @property
    def wanted(self) -> int:
        """How many rows would show all of it."""
        return max(1, self.count)


def figure(rows: ShapeRows, size: tuple[int, int], selected: str = "") -> Svg:
    """Symbols, then values, loops and buffers: those around the selected operator. Where there is
    much width, loops and buffers stand beside the values.
    """
    width, height = size
    parts = _parts(rows, selected, int(height / ROW))
    apart = width >= APART
    sides = [parts[:2], parts[2:]] if apart else [parts]
    each = (width - GUTTER * (len(sides) - 1)) / len(sides)
    marks = [
        mark
        for n, side in enumerate(sides)
        for mark in _column(side, n * (each + GUTTER), each, height)
    ]
    title = f"Shapes of {count_text(len(rows.values), 'value')}: {counted(rows)}"
    return Svg(width, height, "".join(marks), title, selected, PX)


def _parts(rows: ShapeRows, selected: str, most: int) -> tuple[_Part, ...]:
    """The parts; of many rows `most` around the selected operator."""
    numbers = {s.name: n for n, s in enumerate(rows.symbols)}
    values = around(rows.values, [selected in v.ops for v in rows.values], most)
    found = [
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
            tuple((f"{n:,} {k}", f"known{KNOWN.index(k)}") for k, n in _known(rows)),
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
        found.append(_Part(title, lines, len(uses), keys, beside, none))
    return tuple(found)


def _keys(symbols: Iterable[str], numbers: Mapping[str, int]) -> str:
    """The keys of symbols, whose names may be any text."""
    return " ".join(f"sym{numbers[name]}" for name in symbols if name in numbers)


def _known(rows: ShapeRows) -> list[tuple[str, int]]:
    counts = [(k, sum(v.known == k for v in rows.values)) for k in KNOWN]
    return [(k, n) for k, n in counts if n]


def _no_loops(rows: ShapeRows) -> str:
    if not rows.lowered:
        return "there are no loops yet: compile through Relax"
    return "no loop's extent depends on a symbol"


def _column(parts: Sequence[_Part], x: float, wide: float, height: float) -> Iterator[str]:
    """Parts from the top down, each with as many rows as there is room for."""
    heads = len(parts)
    while heads > 1 and height - heads * HEAD < heads * 2 * ROW:
        heads -= 1
    shown = shares([p.wanted for p in parts[:heads]], int((height - heads * HEAD) / ROW))
    y = 16.0
    for part, count in zip(parts, shown):
        yield from _part(part, count, x, y, wide)
        y += HEAD + ROW * count


def _part(part: _Part, count: int, x: float, y: float, wide: float) -> Iterator[str]:
    """A title with its rows; where not all are drawn, the last line says how many are not."""
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
    lines = around(part.lines, [one.on for one in part.lines], drawn) if drawn else ()
    cells = _fitting([one.cells for one in lines], wide)
    room = columns(cells, wide)
    bar = x + sum(room[:-1]) + GAP * len(room), end - (room[-1] if room else 0) - GAP
    most = max((one.bytes for one in lines), default=0)
    for one, row in zip(lines, cells):
        body = path(f"M{x:g} {y - 15.5:g}H{x + wide:g}", "var(--line)")
        body += rect(x, y - 15, wide, ROW - 1, "none", 'class="ground"', ops=one.ops)
        if one.symbol[0]:
            name, said = one.symbol
            body += symbol_label(x, y, name, said, room=room[0] * 11 / PX)
            row = (replace(row[0], text=""), *row[1:])
        body += "".join(line(row, room, x, y, one.ops, end))
        if one.bytes and bar[1] - bar[0] > BAR:
            w = max(1.0, min(LONGEST, bar[1] - bar[0]) * one.bytes / most)
            body += rect(bar[0], y - 9, w, 9, "var(--line2)", title=size_text(one.bytes))
        yield lit_by(together([body], one.ops), one.keys)
        y += ROW
    if part.lines and drawn < part.count:
        more = f"and {part.count - drawn:,} more"
        words = more if wide < NARROW / 2 else f"{more}, all of them in the table"
        yield label(x, y, words, title=words)


def _fitting(rows: Sequence[tuple[Text, ...]], wide: float) -> Sequence[tuple[Text, ...]]:
    """The rows with as many of their last columns as have room, two at the least."""
    while rows and len(rows[0]) > 2:
        room = columns(rows, wide)
        if min(room[:2]) >= LEAST or all(
            max(c.wide for c in column) <= w + 0.5 for column, w in zip(zip(*rows), room)
        ):
            return rows
        rows = [row[:-1] for row in rows]
    return rows


def around(rows: Sequence[T], on: Sequence[bool], shown: int = SHOWN) -> Sequence[T]:
    """As many rows as are shown: those around the first one that is on, else the first ones.

    Rows that are near each other have the same ones around them.
    """
    at, step = next((i for i, lit in enumerate(on) if lit), 0), max(1, shown // 2)
    first = max(0, min(at // step * step - step // 2, len(rows) - shown))
    return rows[first : first + shown]


def _symbol(s: SymbolRow, numbers: Mapping[str, int]) -> _Line:
    found = ((s.dims, "dim"), (s.loops, "loop"), (s.buffers, "buffer"))
    uses = ", ".join(count_text(*of) for of in found)
    said = f"{s.name}: {s.bounds}, defined by {s.defined}, {uses}"
    now = f"{s.now:,} assumed" if s.assumed else f"now {s.now:,}"
    cells = (
        Text(s.name, "mono i w"),
        Text(now, "i w"),
        Text(s.bounds),
        Text(s.defined),
        Text(uses, end=True),
    )
    return _Line(cells, f"symbol {_keys((s.name,), numbers)}", (), (s.name, said))


def _value(v: ValueRow, numbers: Mapping[str, int], selected: str) -> _Line:
    cells = (
        Text(v.label, "i", title=_called(v)),
        Text(v.annotation, "mono", symbols=v.symbols),
        Text(v.now, "i"),
        Text(size_text(v.bytes) if v.bytes else "", end=True),
        Text(v.known, "bad" if v.known in KNOWN[2:] else "", end=True),
    )
    keys = f"value known{KNOWN.index(v.known)} {_keys(v.symbols, numbers)}"
    return _Line(cells, keys, v.ops, bytes=v.bytes, on=selected in v.ops)


def _use(u: UseRow, key: str, numbers: Mapping[str, int], selected: str) -> _Line:
    cells = (
        Text(u.label, "i", title=_called(u)),
        Text(u.text, "mono", symbols=u.symbols),
        Text(size_text(u.bytes) if u.bytes else "", "i", end=True),
    )
    keys = f"{key} {_keys(u.symbols, numbers)}"
    return _Line(cells, keys, u.ops, bytes=u.bytes, on=selected in u.ops)


def _called(row: ValueRow | UseRow) -> str:
    return row.name if row.label == row.name else f"{row.label}: {row.name} in the program"


def _rows(s: OnShow) -> ShapeRows:
    return shapes.data(s.now.compiled, dict(s.now.sizes), s.plan, s.house.heaviest)


def _draw(s: OnShow, op: str) -> Drawn:
    sizes = s.now.sizes
    rows = s.house.kept("relax", sizes, lambda: _rows(s))
    return rows, figure(rows, s.view.size, op), table(rows)


PICTURE = Picture(
    name="relax",
    title="Shapes",
    words="The shape of every value as it was deduced, and where each symbol comes from.",
    stage=Stage.TYPED,
    about="operator",
    draw=_draw,
)
