"""Relax's shape heap at work: how each slot is filled and checked.

It is traced for the sizes at the knobs and for invalid inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.ir.annotations import dims_of
from explorer.ir.dims import Dim, evaluate_dim, symbols_of, sympy
from explorer.ir.program import Program
from explorer.ir.stage import Stage
from explorer.ir.text.text_tokens import print_dim
from explorer.ir.types import Annotation, ShapeType, Tensor, TupleType, numpy_dtype
from explorer.ops.interpreter.frame import HeapStep, trace_heap
from explorer.ops.interpreter.shape_heap import CheckPoint, Op, ShapeHeap, heap_of
from explorer.plain_text import counted
from widgets.draw.slide import LINE, NARROW, PX, cut_to, label_width, pipe, tick
from widgets.draw.svg import Svg, label, rect, symbols_of_dims, wrap_text
from widgets.draw.table import Cell, Mark, Sentence, Table, lit_by
from widgets.model.picture import Drawn, OnShow, Picture
from widgets.relax.shape_words import annotation_text

FILLS = ("STORE", "COMPUTE", "RECALL", "GIVEN")
CELLS, ROW, OP, FOOT = 56.0, 23.0, 122.0, 30.0
LEAST = 72.0  # minimum pixels of a slot


@dataclass(frozen=True, slots=True)
class SlotRow:
    """A slot of the shape heap.

    `assumed`: the run computes a symbol in it, and `value` is from the size tuned for.
    """

    number: int
    text: str
    value: int | None
    filled: str
    assumed: bool
    symbols: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class InstructionRow:
    """An executed instruction: its `op` and operands, and its slot with the value there."""

    point: str
    op: str
    text: str
    slot: int | None
    value: int | None
    wrong: str = ""


@dataclass(frozen=True, slots=True)
class WrongRow:
    """An invalid input and its error.

    `step` is the instruction that fails; `filled` are the slots that were filled by then.
    """

    what: str
    input_text: str
    step: InstructionRow
    filled: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class HeapRows:
    """The shape heap of the main function."""

    function: str
    slots: tuple[SlotRow, ...]
    steps: tuple[InstructionRow, ...]
    wrong: tuple[WrongRow, ...]


def data(program: Program, sizes: Mapping[str, int]) -> HeapRows:
    """Return the trace of a call with these sizes, and of calls with slightly invalid inputs."""
    heap = heap_of(program.main, program.env, inputs=True)
    names = {s for d in _stated_dims(heap) for s in symbols_of(d)}
    symbol_values = {n: sizes.get(n, program.env.of(n).hint) for n in names}
    values = _values(heap, symbol_values)
    steps = [_row(s) for s in trace_heap(heap, values)]
    slots = tuple(_slot(n, dim, steps, sizes) for n, dim in enumerate(heap.slots))
    wrong = (
        _run_invalid_call(heap, values, *change)
        for change in _invalid_inputs(heap, symbol_values, values)
    )
    refused = tuple(w for w in wrong if w is not None)
    return HeapRows(heap.function, slots, tuple(steps), refused)


def _stated_dims(heap: ShapeHeap) -> list[Dim]:
    subjects = [s for point in heap.points for s in point.subjects]
    return [*heap.slots, *(d for s in subjects for d in dims_of(s.type) or ())]


def _values(heap: ShapeHeap, symbol_values: Mapping[str, int]) -> dict[str, Any]:
    return {v.name: _valid_value(v.type, symbol_values) for p in heap.points for v in p.values}


def _valid_value(annotation: Annotation, symbol_values: Mapping[str, int]) -> Any:
    """Return a valid value: a shape, or an array where a shape does not represent the type."""
    match annotation:
        case TupleType(items):
            return tuple(_valid_value(i, symbol_values) for i in items)
        case Tensor() | ShapeType():
            dims = dims_of(annotation)
            rank = annotation.rank or 0
            shape = (
                (1,) * rank if dims is None else tuple(evaluate_dim(d, symbol_values) for d in dims)
            )
            if isinstance(annotation, Tensor) and annotation.dtype == "string":
                return np.broadcast_to(np.zeros((), "<U1"), shape)
            return shape
    return None


def _row(step: HeapStep) -> InstructionRow:
    op, _, text = step.text.partition(" ")
    return InstructionRow(
        step.point, op, text.replace("<-", "←"), step.slot, step.value, step.message
    )


def _slot(number: int, dim: Dim, steps: list[InstructionRow], sizes: Mapping[str, int]) -> SlotRow:
    filled = next((s for s in steps if s.slot == number and s.op in FILLS), None)
    return SlotRow(
        number,
        print_dim(dim),
        filled.value if filled else None,
        f"{filled.op} at {filled.point}" if filled else "not filled",
        not symbols_of(dim) <= sizes.keys(),
        symbols_of_dims([dim]),
    )


Change = tuple[str, str, Mapping[str, Any]]  # the fault, the input as text, the changed values


def _run_invalid_call(
    heap: ShapeHeap,
    values: Mapping[str, Any],
    what: str,
    input_text: str,
    change: Mapping[str, Any],
) -> WrongRow | None:
    """Return the instruction at which a call with changed values fails, None if it succeeds."""
    steps = [_row(s) for s in trace_heap(heap, {**values, **change})]
    if not steps or not steps[-1].wrong:
        return None
    filled = {s.slot: s.value for s in steps if s.slot is not None and s.value is not None}
    return WrongRow(what, input_text, steps[-1], tuple(sorted(filled.items())))


def _invalid_inputs(
    heap: ShapeHeap, symbol_values: Mapping[str, int], values: Mapping[str, Any]
) -> Iterator[Change]:
    """Yield one invalid input of each kind that this heap can check."""
    yield from _wrong_extents(heap.entry, values, "an input")
    yield from _wrong_types(heap.entry, values)
    yield from _wrong_symbols(heap, symbol_values)
    for cast in heap.casts.values():
        changes = list(_wrong_extents(cast, values, "a value that the run found"))
        if changes:
            yield changes[0]
            return


def _wrong_extents(point: CheckPoint, values: Mapping[str, Any], whose: str) -> Iterator[Change]:
    """Yield inputs with one extent too long: a constant, a shared symbol, a computed one."""
    covered: set[str] = set()
    for step in point.first:
        subject = step.subject
        shape = values[subject.name]
        kind = {
            Op.ASSERT_EQ_IMM: "is a number",
            Op.ASSERT_EQ_LOAD: "is known from another extent",
            Op.NO_OP: "is computed from others",
        }.get(step.op, "")
        if subject.path or not isinstance(shape, tuple) or kind in covered or not kind:
            continue
        covered.add(kind)
        other = tuple(n + (i == step.axis) for i, n in enumerate(shape))
        what = f"{whose}, one longer in an extent that {kind}"
        yield what, _describe_input(subject.name, subject.type, other), {subject.name: other}


def _wrong_types(point: CheckPoint, values: Mapping[str, Any]) -> Iterator[Change]:
    """Yield inputs of another rank and of another dtype."""
    for subject in point.subjects:
        shape, kind = values[subject.name], subject.type
        if subject.path or not isinstance(kind, Tensor) or not isinstance(shape, tuple):
            continue
        if kind.rank is not None:
            more = (*shape, 1)
            input_text = _describe_input(subject.name, kind, more)
            yield "an input with one dim more", input_text, {subject.name: more}
        if kind.dtype is not None:
            dtype = "int32" if kind.dtype != "int32" else "float32"
            array = np.broadcast_to(np.zeros((), numpy_dtype(dtype)), shape)
            input_text = _describe_input(subject.name, Tensor(None, dtype), shape)
            yield "an input of another dtype", input_text, {subject.name: array}
        return


def _wrong_symbols(heap: ShapeHeap, symbol_values: Mapping[str, int]) -> Iterator[Change]:
    """Yield inputs with a symbol above and below its bounds."""
    bounded = [i for i in heap.entry.second if i.op is Op.BOUND and i.bound is not None]
    for what, pick in (("above", 1), ("below", -1)):
        for step in bounded:
            assert step.bound is not None and isinstance(step.dim, sympy.Symbol)
            end = step.bound.high if pick > 0 else step.bound.low
            if end is None or end + pick < 0:
                continue
            name = step.dim.name
            values = _values(heap, {**symbol_values, name: end + pick})
            input_text = f"{name} = {end + pick}"
            yield f"a symbol {what} its bound", input_text, values
            break


def _describe_input(name: str, kind: Annotation, shape: tuple[int, ...]) -> str:
    if isinstance(kind, ShapeType):
        return f"{name}: {annotation_text(ShapeType(shape))}"
    dtype = kind.dtype if isinstance(kind, Tensor) else None
    return f"{name}: {annotation_text(Tensor(shape, dtype))}"


def table(rows: HeapRows) -> Table:
    """Return rows for the slots, the instructions, and the invalid inputs with their errors."""
    cells: list[tuple[Cell, ...]] = [
        ("slot", s.number, s.text, _value(s.value), f"{s.filled}{', assumed' * s.assumed}")
        for s in rows.slots
    ]
    cells += [
        (s.point, _number(s.slot), f"{s.op} {s.text}", _value(s.value), s.wrong) for s in rows.steps
    ]
    cells += [
        (
            f"wrong: {w.what}",
            _number(w.step.slot),
            f"{w.step.op} {w.step.text}",
            w.input_text,
            w.step.wrong,
        )
        for w in rows.wrong
    ]
    columns = ("where", "slot", "expression or instruction", "value", "filled by, or the error")
    return Table(columns, tuple(cells), caption=caption(rows), see=see(rows))


def _value(value: int | None) -> str:
    return "" if value is None else str(value)


def _number(slot: int | None) -> Cell:
    return "" if slot is None else slot


def caption(rows: HeapRows) -> str:
    """Describe in one line how many slots, instructions and invalid inputs there are."""
    return (
        f"{counted(len(rows.slots), 'slot')}, {counted(len(rows.steps), 'instruction')} "
        f"in a call of {rows.function}, {counted(len(rows.wrong), 'wrong input')}"
    )


def see(rows: HeapRows) -> tuple[Sentence, ...]:
    """Return the key sentences: the slots, the checks of a call, and what is refused."""
    writes = sum(s.op in FILLS for s in rows.steps)
    checks = len(rows.steps) - writes
    sentences: list[Sentence] = []
    if rows.slots:
        sentences.append(
            (
                Mark(counted(len(rows.slots), "slot"), "slot"),
                " are filled by " if len(rows.slots) > 1 else " is filled by ",
                Mark(counted(writes, "write"), "write"),
                ".",
            )
        )
    else:
        sentences.append(("No slot is needed: every extent is a number.",))
    sentences.append(
        (Mark(counted(checks, "check"), "check"), " compare the inputs and results of a call.")
    )
    if rows.wrong:
        sentences.append(
            (
                Mark(counted(len(rows.wrong), "wrong input"), "wrong"),
                " are refused before any kernel runs."
                if len(rows.wrong) > 1
                else " is refused before any kernel runs.",
            )
        )
    return tuple(sentences)


@dataclass(frozen=True, slots=True)
class _Frame:
    """Positions of the slots: `count` of them from `first` on, and their width."""

    left: float
    wide: float
    first: int
    count: int

    def x(self, slot: int) -> float | None:
        """Return the centre of a slot's column, None if it is not drawn."""
        n = slot - self.first
        return self.left + (n + 0.5) * self.wide if 0 <= n < self.count else None


def figure(rows: HeapRows, size: tuple[int, int]) -> Svg:
    """Draw the heap's slots above the instructions of a call, with a mark for each write or read.

    Invalid inputs are beside them, or below on a narrow page.
    """
    width, height = size
    narrow = width < NARROW
    part = width if narrow else round(width * 0.64)
    low = height - FOOT
    if narrow and rows.wrong:
        low = height * 0.56
    text = OP if narrow else min(part - 2 * LEAST, 330.0)
    count = max(1, min(len(rows.slots), int((part - text - 8) / LEAST)))
    frame = _Frame(text, min(150.0, (part - text - 8) / count), 0, count if rows.slots else 0)
    marks = [*_cells(rows, frame, part)]
    marks += _steps(rows, frame, part, low, narrow=narrow)
    if rows.wrong and not narrow:
        marks += _cards(rows.wrong, part + 24, 0, width, height - FOOT)
    elif rows.wrong:
        marks += _cards(rows.wrong, 0, low + 10, width, height - FOOT)
    marks += _legend(height - 9, width)
    return Svg(width, height, "".join(marks), f"Shape heap: {caption(rows)}", px=PX)


def _cells(rows: HeapRows, f: _Frame, part: float) -> Iterator[str]:
    """Draw the slots with their number, expression and value."""
    yield label(0, 22, "slots", "big")
    if not rows.slots:
        description = "none: every extent that is checked is a number"
        yield label(0, 44, description, title=description)
        return
    if f.count < len(rows.slots):
        yield label(0, 42, f"{f.count} of {len(rows.slots)}")
    for s in rows.slots[f.first : f.first + f.count]:
        x = f.x(s.number)
        assert x is not None
        description = f"slot {s.number}: {s.text} is {_value(s.value)}, {s.filled}"
        edge = 'rx="4" stroke="var(--ink)" stroke-width="1.5"'
        body = rect(
            x - f.wide / 2 + 3,
            1,
            f.wide - 6,
            CELLS - 8,
            "var(--pane)",
            edge,
            title=description,
            symbols=s.symbols,
        )
        name = cut_to(s.text, f.wide - 14, bold=True)
        body += label(x, 19, name, "i w", anchor="middle", symbols=s.symbols, title=s.text)
        value = f"= {_value(s.value)}{' assumed' * s.assumed}"
        value = value if label_width(value) <= f.wide - 12 else f"= {_value(s.value)}"
        body += label(x, 38, value, "i", anchor="middle")
        yield lit_by(body, f"slot s{s.number}")


def _steps(rows: HeapRows, f: _Frame, part: float, low: float, *, narrow: bool) -> Iterator[str]:
    """Draw the instructions from the top down, with a mark in the column of their slot."""
    y, point, shown = CELLS + 18.0, "", 0
    bottom = {n: CELLS - 8 for n in range(len(rows.slots))}
    lines, marks = list[str](), list[str]()
    for step in rows.steps:
        words = [] if narrow else wrap_text(step.text, f.left - OP - 12, PX)
        high = max(ROW, LINE * len(words) + 6)
        if y + high + ROW * (step.point != point) > low:
            break
        if step.point != point:
            point = step.point
            marks.append(label(0, y, point, "i w"))
            y += ROW
        marks += _step(step, rows.wrong, f, y, words, part)
        if step.slot is not None and (x := f.x(step.slot)) is not None:
            keys = f"slot s{step.slot}"
            lines.append(
                lit_by(pipe(f"M{x:g} {bottom[step.slot]:g}V{y - 5:g}", ink="line2", width=2), keys)
            )
            bottom[step.slot] = y - 5
        y += high
        shown += 1
    yield from lines
    yield from marks
    if shown < len(rows.steps):
        yield label(0, y, f"and {counted(len(rows.steps) - shown, 'more instruction')}", "q")


def _step(
    s: InstructionRow,
    wrong: Sequence[WrongRow],
    f: _Frame,
    y: float,
    words: Sequence[str],
    part: float,
) -> Iterator[str]:
    writes = s.op in FILLS
    body = label(0, y, s.op, "mono i w" if writes else "mono i", title=s.text)
    body += "".join(label(OP, y + LINE * n, t, title=s.text) for n, t in enumerate(words))
    failing = [
        n
        for n, w in enumerate(wrong, 1)
        if (w.step.point, w.step.op, w.step.text) == (s.point, s.op, s.text)
    ]
    x = f.x(s.slot) if s.slot is not None else None
    if x is not None:
        body += _mark(x, y - 5, writes=writes, bad=bool(failing), description=f"{s.op} {s.text}")
    if failing:
        numbers = " ".join(f"{n}" for n in failing)
        at = (x if x is not None else f.left + 6) + 14
        body += rect(at - 2, y - 14, 18 + label_width(numbers, bold=True), 18, "var(--pane)")
        body += tick(at + 6, y - 5, good=False) + label(at + 15, y, numbers, "bad")
    yield lit_by(body, f"{'write' if writes else 'check'}{' wrong' * bool(failing)}")


def _mark(x: float, y: float, *, writes: bool, bad: bool, description: str) -> str:
    """Draw a filled square for a write of a slot, a ring for a read."""
    ink = "bad" if bad else "ink"
    wrong = ' data-wrong="slot"' if bad else ""
    if writes:
        return rect(
            x - 6,
            y - 6,
            12,
            12,
            f"var(--{ink})",
            f'stroke="var(--{ink})"{wrong}',
            title=description,
        )
    edge = f'rx="6" stroke="var(--{ink})" stroke-width="2"{wrong}'
    return rect(x - 6, y - 6, 12, 12, "var(--pane)", edge, title=description)


def _cards(
    wrong: Sequence[WrongRow], x: float, y: float, right: float, low: float
) -> Iterator[str]:
    """Draw each invalid input with its number, its value, and the error."""
    if x:
        yield label(x, y + 22, "wrong inputs", "big")
        y += CELLS - 14
    room = right - x - 26
    for n, w in enumerate(wrong, 1):
        title = wrap_text(f"{n}  {w.what}", room, PX * 1.08)
        input_lines = wrap_text(w.input_text, room, PX, mono=True)
        error_lines = wrap_text(w.step.wrong, room, PX)
        lines = [
            *((t, "i w") for t in title),
            *((t, "mono i") for t in input_lines),
            *((t, "bad-q") for t in error_lines),
        ]
        high = LINE * len(lines) + 14
        if y + high > low:
            lines, high = lines[: len(title)], LINE * len(title) + 14
            if y + high > low:
                if y + 20 <= low:
                    yield label(x, y + 14, f"and {len(wrong) - n + 1} more")
                return
        body = tick(x + 7, y + 10, good=False)
        for i, (text, style) in enumerate(lines):
            shown = "" if style == "bad-q" else style
            body += label(x + 22, y + 15 + LINE * i, text, shown, title=w.step.wrong)
        yield lit_by(body, "wrong")
        y += high


def _legend(y: float, room: float) -> Iterator[str]:
    x = 0.0
    for writes, keys, words in ((True, "write", "writes a slot"), (False, "check", "reads it")):
        yield lit_by(
            _mark(x + 8, y - 5, writes=writes, bad=False, description=words)
            + label(x + 22, y, words),
            keys,
        )
        x += label_width(words) + 44
    words = "a wrong input ends here"
    if x + 22 + label_width(words) <= room:
        yield lit_by(tick(x + 8, y - 5, good=False) + label(x + 22, y, words), "wrong")


def _draw(s: OnShow, op: str) -> Drawn:
    program, sizes = s.now.compiled.program, dict(s.now.sizes)
    rows = s.house.cached("heap", s.now.sizes, lambda: data(program, sizes))
    return rows, figure(rows, s.view.size), table(rows)


PICTURE = Picture(
    name="heap",
    title="Shape heap",
    words="The sizes that a run computes, the checks of its inputs, and errors of wrong inputs.",
    stage=Stage.TYPED,
    draw=_draw,
)
