"""The drawing and the words of the Shapes room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from explorer.ir.stage import Stage
from widgets.draw.svg import Svg, fit, label, path, symbol_label
from widgets.draw.table import Cell, Table, count_text, size_text
from widgets.model.on_show import OnShow
from widgets.model.picture import Drawn, Picture
from widgets.relax import shapes
from widgets.relax.shapes import KNOWN, ShapeRows, SymbolRow, UseRow, ValueRow

SHOWN = 14
RIGHT = 668.0
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
    )


def counted(rows: ShapeRows) -> str:
    """How much is known of how many values."""
    counts = {k: sum(v.known == k for v in rows.values) for k in KNOWN}
    return ", ".join(f"{n} {k}" for k, n in counts.items() if n)


def figure(rows: ShapeRows, selected: str = "") -> Svg:
    """Symbols, then values, loops and buffers: those around the selected operator."""
    page = _Page()
    page.head("Symbols", "value now", "bounds", "defined by", "spoken of by")
    for symbol in rows.symbols[:SHOWN]:
        page.row(_symbol(symbol, page.y))
    page.rest(len(rows.symbols) - SHOWN, "symbols")
    if not rows.symbols:
        page.note("none: every extent of this model is a number")
    page.head("Values", counted(rows))
    values = around(rows.values, [selected in v.ops for v in rows.values])
    for value in values:
        page.row(_value(value, page.y))
    page.rest(len(rows.values) - len(values), "values")
    for title, uses, none in (
        ("Loops", rows.loops, _no_loops(rows)),
        ("Buffers", rows.buffers, "no buffer's bytes depend on a symbol"),
    ):
        page.head(title, f"{len(uses)} speak of a symbol" if uses else "")
        near = around(uses, [selected in u.ops for u in uses])
        for use in near:
            page.row(_use(use, page.y))
        page.rest(len(uses) - len(near), title.lower())
        if not uses:
            page.note(none)
    title = f"Shapes of {count_text(len(rows.values), 'value')}: {counted(rows)}"
    return Svg(680, page.y + 4, "".join(page.marks), title, selected)


def _no_loops(rows: ShapeRows) -> str:
    if not rows.lowered:
        return "there are no loops yet: compile through Relax"
    return "no loop's extent depends on a symbol"


class _Page:
    """Sections of rows from the top down."""

    def __init__(self) -> None:
        self.marks: list[str] = []
        self.y = 22.0

    def head(self, title: str, right: str, *columns: str) -> None:
        self.y += 16 if self.marks else 0
        self.marks += [
            label(12, self.y, title, "i w"),
            label(RIGHT, self.y, fit(right, 560), "q", anchor="end"),
            *(label(x, self.y, c, "q") for x, c in zip((136, 222, 416), columns, strict=False)),
        ]
        self.y += 20

    def row(self, marks: Sequence[str]) -> None:
        self.marks += [path(f"M12 {self.y - 13.5}H{RIGHT}", "var(--line)"), *marks]
        self.y += 20

    def note(self, text: str) -> None:
        self.row([label(12, self.y, text)])

    def rest(self, count: int, what: str) -> None:
        if count > 0:
            self.row(
                [label(12, self.y, f"and {count:,} more {what}, all of them in the table", "q")]
            )


def around(rows: Sequence[T], on: Sequence[bool], shown: int = SHOWN) -> Sequence[T]:
    """As many rows as are shown: those around the first one that is on, else the first ones.

    Rows that are near each other have the same ones around them.
    """
    at, step = next((i for i, lit in enumerate(on) if lit), 0), max(1, shown // 2)
    first = max(0, min(at // step * step - step // 2, len(rows) - shown))
    return rows[first : first + shown]


def _symbol(s: SymbolRow, y: float) -> list[str]:
    found = ((s.dims, "dim"), (s.loops, "loop"), (s.buffers, "buffer"))
    uses = ", ".join(count_text(*of) for of in found)
    said = f"{s.name}: {s.bounds}, defined by {s.defined}, {uses}"
    now = f"{s.now:,} assumed" if s.assumed else f"{s.now:,}"
    return [
        symbol_label(12, y, s.name, said, room=116),
        label(136, y, fit(s.bounds, 80)),
        label(222, y, fit(s.defined, 186), title=s.defined),
        label(416, y, uses),
        label(RIGHT, y, now, "i w", anchor="end"),
    ]


def _value(v: ValueRow, y: float) -> list[str]:
    inks = {"proved": "var(--ink)", "checked at run time": "var(--ink3)"}
    ink = inks.get(v.known, "none")
    dot = f'<circle cx="662" cy="{y - 4}" r="4" fill="{ink}" stroke="var(--ink)"/>'
    word = "checked" if v.known == "checked at run time" else v.known
    return [
        label(
            12,
            y,
            fit(v.label, 196),
            "i",
            ops=v.ops,
            title=v.name if v.label == v.name else f"{v.label}: {v.name} in the program",
        ),
        label(
            216, y, fit(v.annotation, 206, mono=True), "mono", symbols=v.symbols, title=v.annotation
        ),
        label(430, y, fit(v.now, 100), "i", title=v.now),
        label(592, y, size_text(v.bytes) if v.bytes else "", anchor="end"),
        label(652, y, word, anchor="end"),
        dot,
    ]


def _use(u: UseRow, y: float) -> list[str]:
    room = 380 if u.bytes else 444
    return [
        label(
            12,
            y,
            fit(u.label, 196),
            "i",
            ops=u.ops,
            title=u.name if u.label == u.name else f"{u.label}: {u.name} in the program",
        ),
        label(216, y, fit(u.text, room, mono=True), "mono", symbols=u.symbols, title=u.text),
        label(RIGHT, y, size_text(u.bytes) if u.bytes else "", "i", anchor="end"),
    ]


def _rows(s: OnShow) -> ShapeRows:
    return shapes.data(s.now.compiled, dict(s.now.sizes), s.plan, s.house.heaviest)


def _draw(s: OnShow, op: str) -> Drawn:
    sizes = s.now.sizes
    rows = s.house.kept("relax", sizes, lambda: _rows(s))
    return rows, figure(rows, op), table(rows)


PICTURE = Picture(
    name="relax",
    title="Shapes",
    words="The shape of every value as it was deduced, and where each symbol comes from.",
    stage=Stage.TYPED,
    about="operator",
    draw=_draw,
)
