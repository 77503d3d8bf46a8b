"""The drawing and the words of the Shape heap room."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from explorer.ir.stage import Stage
from widgets.draw.svg import Svg, cross, fit, label, path, rect, symbol_label, text_width, wrapped
from widgets.draw.table import Cell, Table, count_text
from widgets.model.on_show import OnShow
from widgets.model.picture import Drawn, Picture
from widgets.relax import shape_heap
from widgets.relax.shape_heap import FILLS, HeapRows, SlotRow, StepRow, WrongRow

SLOTS, STEPS = 14, 26
RIGHT = 668.0
CELL = 92.0


def table(rows: HeapRows) -> Table:
    """Slots, instructions, and what becomes of wrong inputs."""
    found: list[tuple[Cell, ...]] = [
        ("slot", s.number, s.text, _value(s.value), f"{s.filled}{', assumed' * s.assumed}")
        for s in rows.slots
    ]
    found += [
        (s.point, _number(s.slot), f"{s.op} {s.text}", _value(s.value), s.wrong) for s in rows.steps
    ]
    found += [
        (
            f"wrong: {w.what}",
            _number(w.step.slot),
            f"{w.step.op} {w.step.text}",
            w.given,
            w.step.wrong,
        )
        for w in rows.wrong
    ]
    columns = ("where", "slot", "expression or instruction", "value", "filled by, or the error")
    return Table(columns, tuple(found), caption=caption(rows))


def _value(value: int | None) -> str:
    return "" if value is None else str(value)


def _number(slot: int | None) -> Cell:
    return "" if slot is None else slot


def caption(rows: HeapRows) -> str:
    """How much there is, in one line."""
    return (
        f"{count_text(len(rows.slots), 'slot')}, {count_text(len(rows.steps), 'instruction')} "
        f"in a call of {rows.function}, {count_text(len(rows.wrong), 'wrong input')}"
    )


def figure(rows: HeapRows) -> Svg:
    """Slots and instructions side by side in the order of the run, wrong inputs below."""
    marks = [label(12, 22, "Slots", "i w"), label(RIGHT, 22, "filled by", "q", anchor="end")]
    y = 42.0
    for slot in rows.slots[:SLOTS]:
        marks += [path(f"M12 {y - 13.5}H{RIGHT}", "var(--line)"), *_slot(slot, y)]
        y += 20
    if not rows.slots:
        marks.append(label(12, y, "none: every extent that is checked is a number"))
        y += 20
    y = _rest(marks, y, len(rows.slots) - SLOTS, "slots")
    y = _steps(rows, marks, y + 16)
    marks += [
        label(12, y + 16, "A wrong input", "i w"),
        label(RIGHT, y + 16, "an input is refused before any kernel runs", "q", anchor="end"),
    ]
    y += 36
    for wrong in rows.wrong:
        y = _wrong(wrong, rows.slots, marks, y)
    if not rows.wrong:
        marks.append(label(12, y, "none: this function takes no tensor whose shape is known"))
        y += 20
    return Svg(680, y, "".join(marks), f"Shape heap: {caption(rows)}")


def _rest(marks: list[str], y: float, count: int, what: str) -> float:
    if count <= 0:
        return y
    marks.append(label(12, y, f"and {count:,} more {what}, all of them in the table", "q"))
    return y + 20


def _slot(s: SlotRow, y: float) -> list[str]:
    said = f"slot {s.number}: {s.text} is {_value(s.value)}, {s.filled}"
    name = (
        symbol_label(48, y, s.text, said, room=240)
        if s.symbols == (s.text,)
        else label(48, y, fit(s.text, 240, mono=True), "mono i", symbols=s.symbols, title=s.text)
    )
    value = f"{_value(s.value)}{' assumed' * s.assumed}"
    return [
        label(25, y, str(s.number), anchor="middle"),
        rect(12, y - 11, 26, 15, "transparent", 'rx="2" stroke="var(--edge)"', symbols=s.symbols),
        name,
        label(300, y, value, "i w"),
        label(RIGHT, y, fit(s.filled, 260), anchor="end", title=s.filled),
    ]


def _steps(rows: HeapRows, marks: list[str], y: float) -> float:
    marks += [
        label(12, y, "Instructions", "i w"),
        label(RIGHT, y, "slot, and what it holds", "q", anchor="end"),
    ]
    y, point = y + 20, ""
    for step in rows.steps[:STEPS]:
        if step.point != point:
            y, point = y + 5 * bool(point), step.point
            marks += [path(f"M12 {y - 13.5}H{RIGHT}", "var(--line2)"), label(12, y, point, "i")]
            y += 18
        marks += _step(step, rows.slots, y)
        y += 18
    return _rest(marks, y + 2, len(rows.steps) - STEPS, "instructions")


def _step(s: StepRow, slots: Sequence[SlotRow], y: float) -> list[str]:
    style = "bad" if s.wrong else "i w" if s.op in FILLS else ""
    held = "" if s.slot is None else f"slot {s.slot}: {'not yet' if s.value is None else s.value}"
    symbols = slots[s.slot].symbols if s.slot is not None else ()
    return [
        *([cross(18, y - 4, 4)] if s.wrong else []),
        label(28, y, s.op, f"mono {style}"),
        label(140, y, fit(s.text, 420, mono=True), "mono", symbols=symbols, title=s.text),
        label(RIGHT, y, held, "i", anchor="end"),
    ]


def _wrong(w: WrongRow, slots: Sequence[SlotRow], marks: list[str], y: float) -> float:
    marks += [
        path(f"M12 {y - 13.5}H{RIGHT}", "var(--line)"),
        label(12, y, w.what, "i"),
        label(RIGHT, y, fit(w.given, 310, mono=True), "mono i", anchor="end", title=w.given),
    ]
    y += 8
    if slots:
        marks += _cells(w, slots, y)
        y += 40
    marks += [
        cross(19, y + 8, 4.5),
        label(32, y + 12, fit(f"{w.step.op} {w.step.text}", 636, mono=True), "mono bad"),
    ]
    y += 30
    for line in wrapped(w.step.wrong, 636):
        marks.append(label(32, y, line, "i"))
        y += 15
    return y + 14


def _cells(w: WrongRow, slots: Sequence[SlotRow], y: float) -> Iterator[str]:
    """The slots as they were when the call ended; the one at fault is crossed."""
    most, filled = int((RIGHT - 12) // CELL), dict(w.filled)
    at = w.step.slot if w.step.slot is not None else 0
    first = max(0, min(at - most // 2, len(slots) - most))
    for i, slot in enumerate(slots[first : first + most]):
        x, value = 12 + i * CELL, filled.get(slot.number)
        bad = slot.number == w.step.slot
        edge = "var(--bad)" if bad else "var(--edge)"
        dashed = "" if bad or value is not None else 'stroke-dasharray="3 2"'
        extra = f'rx="2" stroke="{edge}" stroke-width="{2 if bad else 1}" {dashed}'
        extra += ' data-wrong="slot"' if bad else ""
        said = f"slot {slot.number}, {slot.text}: {'empty' if value is None else value}"
        yield rect(
            x,
            y,
            CELL - 8,
            32,
            "var(--del)" if bad else "var(--pane)",
            extra,
            title=said,
            symbols=slot.symbols,
        )
        yield label(
            x + 6, y + 13, fit(slot.text, CELL - 20, mono=True), "mono", symbols=slot.symbols
        )
        text = "empty" if value is None else str(value)
        yield label(x + 6, y + 27, text, "bad" if bad else "i w" if value is not None else "q")
        if bad:
            yield cross(x + CELL - 20, y + 22, 5)
    if len(slots) > most:
        more = f"{len(slots) - most} more"
        yield label(RIGHT - text_width(more), y + 20, more, "q")


def _draw(s: OnShow, op: str) -> Drawn:
    program, sizes = s.now.compiled.program, dict(s.now.sizes)
    rows = s.house.kept("heap", s.now.sizes, lambda: shape_heap.data(program, sizes))
    return rows, figure(rows), table(rows)


PICTURE = Picture(
    name="heap",
    title="Shape heap",
    words="The sizes that a run computes, the checks of its inputs, and what a wrong input meets.",
    stage=Stage.TYPED,
    draw=_draw,
)
