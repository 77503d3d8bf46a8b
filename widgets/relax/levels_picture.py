"""The drawing and the words of the Three levels room."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from explorer.ir.stage import Stage
from widgets.draw.svg import Svg, fit, label, path, rect, text_width
from widgets.draw.table import Table
from widgets.model.on_show import OnShow
from widgets.model.picture import Drawn, Picture
from widgets.relax import levels
from widgets.relax.levels import CallRow, EntryRow, LevelRows
from widgets.relax.shapes_picture import around

SHOWN = 22
TOP, PITCH, LOW = 66.0, 30.0, 34.0  # of calls, and of entries
LEFT, FROM, TO, RIGHT = 12.0, 290.0, 366.0, 668.0
INKS = {
    "operator": "var(--ink)",
    "kernel": "var(--fn)",
    "library": "var(--st)",
    "host": "var(--k)",
    "view or shape": "var(--ink3)",
}


def table(rows: LevelRows) -> Table:
    """One row a call."""
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
    )


def caption(rows: LevelRows) -> str:
    """How many calls there are of each level, and how many kernels serve them."""
    counts = ", ".join(f"{n} {level}" for level, n in rows.levels)
    kernels = sum(e.level == "kernel" for e in rows.entries)
    return f"{len(rows.calls)} bindings: {counts}; {kernels} distinct kernels"


def figure(rows: LevelRows, selected: str = "") -> Svg:
    """Calls at the left, what they go to at the right, and the arrows between."""
    calls = around(rows.calls, [selected in c.ops for c in rows.calls], SHOWN)
    places = _places(calls)
    marks = [*_heads(rows), *_arrows(calls, rows, places)]
    for i, call in enumerate(calls):
        marks += _call(call, rows.main, TOP + i * PITCH)
    for at, y in places.items():
        marks += _entry(rows.entries[at], y)
    bottom = max(TOP + len(calls) * PITCH, TOP + len(places) * LOW)
    rest = len(rows.calls) - len(calls)
    if rest:
        more = f"and {rest:,} more bindings, all of them in the table"
        marks.append(label(LEFT, bottom + 4, more, "q"))
    title = f"Three levels: {caption(rows)}"
    return Svg(680, bottom + 16, "".join(marks), title, selected)


def _places(calls: Sequence[CallRow]) -> dict[int, float]:
    """Where each entry stands: beside the middle of its calls, as far as there is room."""
    callers: dict[int, list[float]] = {}
    for i, call in enumerate(calls):
        for entry in call.entries:
            callers.setdefault(entry, []).append(TOP + i * PITCH)
    middle = {e: sum(ys) / len(ys) for e, ys in callers.items()}
    order = sorted(middle, key=middle.__getitem__)
    found: dict[int, float] = {}
    free = TOP
    for entry in order:
        found[entry] = max(free, middle[entry])
        free = found[entry] + LOW
    most = max(TOP + (len(calls) - 1) * PITCH, TOP + (len(order) - 1) * LOW)
    for entry in reversed(order):
        found[entry] = min(most, found[entry])
        most = found[entry] - LOW
    return found


def _heads(rows: LevelRows) -> Iterator[str]:
    yield label(LEFT, 22, "Graph: bindings in program order", "i w")
    yield label(TO + 4, 22, "Loops and libraries: what they call", "i w")
    x = LEFT
    for level, count in rows.levels:
        text = f"{count} {level}"
        yield rect(x, 33, 10, 10, INKS[level])
        yield label(x + 15, 42, text)
        x += text_width(text) + 31


def _call(c: CallRow, main: str, y: float) -> Iterator[str]:
    ink = INKS[c.level]
    wide = text_width(c.level)
    yield rect(LEFT, y - 13, FROM - LEFT, PITCH - 2, "none", 'class="ground"', ops=c.ops)
    yield rect(LEFT, y - 11, 4, PITCH - 6, ink, ops=c.ops)
    called = c.operator or c.name
    name = fit(called, FROM - LEFT - 24 - wide)
    yield label(22, y, name, "i", ops=c.ops, title=f"{called}; {c.name} in the program")
    yield f'<text x="{FROM - 6:g}" y="{y:g}" text-anchor="end" style="fill:{ink}">{c.level}</text>'
    where = "" if c.function == main else f"in {c.function}: "
    said = where + (c.note or (f"makes {c.name}" if c.operator else "made by Relax"))
    yield label(22, y + 13, fit(said, FROM - 32), "q", ops=c.ops, title=said)


def _arrows(
    calls: Sequence[CallRow], rows: LevelRows, places: Mapping[int, float]
) -> Iterator[str]:
    for i, call in enumerate(calls):
        ink = INKS[call.level]
        y = TOP + i * PITCH
        for entry in call.entries:
            end = places[entry] + 2
            middle = (FROM + TO) / 2
            d = f"M{FROM:g} {y - 2:g}C{middle:g} {y - 2:g} {middle:g} {end:g} {TO - 5:g} {end:g}"
            yield path(d, ink, 'class="way"', ops=call.ops)
            yield f'<path d="M{TO:g} {end:g}l-6 -3v6z" fill="{ink}"/>'


def _entry(e: EntryRow, y: float) -> Iterator[str]:
    ink, wide = INKS[e.level], RIGHT - TO
    said = f"{e.name}: {e.text}"
    edge = f'rx="2" stroke="{ink}"'
    yield rect(TO, y - 13, wide, LOW - 4, "var(--pane)", edge, title=said, symbols=e.symbols)
    many = f"{e.calls} call{'' if e.calls == 1 else 's'}"
    room = wide - text_width(many) - 24
    yield label(TO + 8, y, fit(e.name, room, mono=True), "mono i w", title=said)
    yield label(RIGHT - 8, y, many, anchor="end")
    text = fit(e.text, wide - 16, mono=e.level == "kernel")
    style = "mono" if e.level == "kernel" else "q"
    yield label(TO + 8, y + 13, text, style, symbols=e.symbols, title=said)


def _draw(s: OnShow, op: str) -> Drawn:
    known = s.house.operators
    rows = s.house.kept("levels", (), lambda: levels.data(s.now.compiled, known))
    return rows, figure(rows, op), table(rows)


PICTURE = Picture(
    name="levels",
    title="Three levels",
    words="Graph operators, loops and library calls of one program, and which became which.",
    stage=Stage.LEGALIZED,
    about="operator",
    draw=_draw,
)
