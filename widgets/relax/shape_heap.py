"""Relax's shape heap at work: what fills and checks each slot, for the sizes at the knobs and for
inputs that are wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.ir.lattice import dims_of
from explorer.ir.program import Program
from explorer.ir.shapes.algebra import sympy
from explorer.ir.shapes.dims import Dim, evaluate_dim, symbols_of
from explorer.ir.text.text_tokens import print_dim
from explorer.ir.types import Annotation, ShapeType, Tensor, TupleType, numpy_dtype
from explorer.ops.reference.heap_trace import HeapStep, trace_heap
from explorer.ops.reference.shape_heap import CheckPoint, Op, ShapeHeap, heap_of
from widgets.draw.symbol_marks import symbols_of_dims
from widgets.relax.shape_words import annotation_text

FILLS = ("STORE", "COMPUTE", "RECALL", "GIVEN")


@dataclass(frozen=True, slots=True)
class SlotRow:
    """A slot. `assumed`: a symbol in it is found by the run, and this is what was tuned for."""

    number: int
    text: str
    value: int | None
    filled: str
    assumed: bool
    symbols: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StepRow:
    """An instruction that was run: `op` and what it is about, and its slot with what it holds."""

    point: str
    op: str
    text: str
    slot: int | None
    value: int | None
    wrong: str = ""


@dataclass(frozen=True, slots=True)
class WrongRow:
    """An input that does not fit: the instruction that fails, its slot if it has one, the slots
    that were filled by then, and the error's sentence.
    """

    what: str
    given: str
    step: StepRow
    filled: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class HeapRows:
    """The heap of the function that runs."""

    function: str
    slots: tuple[SlotRow, ...]
    steps: tuple[StepRow, ...]
    wrong: tuple[WrongRow, ...]


def data(program: Program, sizes: Mapping[str, int]) -> HeapRows:
    """What a call does with these sizes, and with inputs that are off by a little."""
    heap = heap_of(program.main, program.env, inputs=True)
    names = {s for d in _stated(heap) for s in symbols_of(d)}
    known = {n: sizes.get(n, program.env.of(n).hint) for n in names}
    values = _values(heap, known)
    steps = [_row(s) for s in trace_heap(heap, values)]
    slots = tuple(_slot(n, dim, steps, sizes) for n, dim in enumerate(heap.slots))
    wrong = (_failing(heap, values, *change) for change in _changes(heap, known, values))
    found = tuple(w for w in wrong if w is not None)
    return HeapRows(heap.function, slots, tuple(steps), found)


def _stated(heap: ShapeHeap) -> list[Dim]:
    subjects = [s for point in heap.points for s in point.subjects]
    return [*heap.slots, *(d for s in subjects for d in dims_of(s.type) or ())]


def _values(heap: ShapeHeap, known: Mapping[str, int]) -> dict[str, Any]:
    return {v.name: _fitting(v.type, known) for p in heap.points for v in p.values}


def _fitting(annotation: Annotation, known: Mapping[str, int]) -> Any:
    """A value that fits: a shape, or an array of what no shape stands for."""
    match annotation:
        case TupleType(items):
            return tuple(_fitting(i, known) for i in items)
        case Tensor() | ShapeType():
            dims = dims_of(annotation)
            rank = annotation.rank or 0
            shape = (1,) * rank if dims is None else tuple(evaluate_dim(d, known) for d in dims)
            if isinstance(annotation, Tensor) and annotation.dtype == "string":
                return np.broadcast_to(np.zeros((), "<U1"), shape)
            return shape
    return None


def _row(step: HeapStep) -> StepRow:
    op, _, text = step.text.partition(" ")
    return StepRow(step.point, op, text.replace("<-", "←"), step.slot, step.value, step.message)


def _slot(number: int, dim: Dim, steps: list[StepRow], sizes: Mapping[str, int]) -> SlotRow:
    filled = next((s for s in steps if s.slot == number and s.op in FILLS), None)
    return SlotRow(
        number,
        print_dim(dim),
        filled.value if filled else None,
        f"{filled.op} at {filled.point}" if filled else "not filled",
        not symbols_of(dim) <= sizes.keys(),
        symbols_of_dims([dim]),
    )


Change = tuple[str, str, Mapping[str, Any]]  # what is wrong, the input in words, the values


def _failing(
    heap: ShapeHeap, values: Mapping[str, Any], what: str, given: str, change: Mapping[str, Any]
) -> WrongRow | None:
    """The instruction at which a call with other values ends; None where they fit after all."""
    steps = [_row(s) for s in trace_heap(heap, {**values, **change})]
    if not steps or not steps[-1].wrong:
        return None
    filled = {s.slot: s.value for s in steps if s.slot is not None and s.value is not None}
    return WrongRow(what, given, steps[-1], tuple(sorted(filled.items())))


def _changes(
    heap: ShapeHeap, known: Mapping[str, int], values: Mapping[str, Any]
) -> Iterator[Change]:
    """One input of each kind that does not fit, as far as this heap has such a kind."""
    yield from _extents(heap.entry, values, "an input")
    yield from _kinds(heap.entry, values)
    yield from _bounds(heap, known)
    for cast in heap.casts.values():
        found = list(_extents(cast, values, "a value that the run found"))
        if found:
            yield found[0]
            return


def _extents(point: CheckPoint, values: Mapping[str, Any], whose: str) -> Iterator[Change]:
    """One extent one longer: of those that are a number, that share a symbol, that are computed."""
    said: set[str] = set()
    for step in point.first:
        subject = step.subject
        shape = values[subject.name]
        kind = {
            Op.ASSERT_EQ_IMM: "is a number",
            Op.ASSERT_EQ_LOAD: "is known from another extent",
            Op.NO_OP: "is computed from others",
        }.get(step.op, "")
        if subject.path or not isinstance(shape, tuple) or kind in said or not kind:
            continue
        said.add(kind)
        other = tuple(n + (i == step.axis) for i, n in enumerate(shape))
        what = f"{whose}, one longer in an extent that {kind}"
        yield what, _given(subject.name, subject.type, other), {subject.name: other}


def _kinds(point: CheckPoint, values: Mapping[str, Any]) -> Iterator[Change]:
    """Another rank, and another dtype."""
    for subject in point.subjects:
        shape, kind = values[subject.name], subject.type
        if subject.path or not isinstance(kind, Tensor) or not isinstance(shape, tuple):
            continue
        if kind.rank is not None:
            more = (*shape, 1)
            given = _given(subject.name, kind, more)
            yield "an input with one dim more", given, {subject.name: more}
        if kind.dtype is not None:
            dtype = "int32" if kind.dtype != "int32" else "float32"
            array = np.broadcast_to(np.zeros((), numpy_dtype(dtype)), shape)
            given = _given(subject.name, Tensor(None, dtype), shape)
            yield "an input of another dtype", given, {subject.name: array}
        return


def _bounds(heap: ShapeHeap, known: Mapping[str, int]) -> Iterator[Change]:
    """A symbol above and below its bounds."""
    bounded = [i for i in heap.entry.second if i.op is Op.BOUND and i.bound is not None]
    for what, pick in (("above", 1), ("below", -1)):
        for step in bounded:
            assert step.bound is not None and isinstance(step.dim, sympy.Symbol)
            end = step.bound.high if pick > 0 else step.bound.low
            if end is None or end + pick < 0:
                continue
            name = step.dim.name
            values = _values(heap, {**known, name: end + pick})
            given = f"{name} = {end + pick}"
            yield f"a symbol {what} its bound", given, values
            break


def _given(name: str, kind: Annotation, shape: tuple[int, ...]) -> str:
    if isinstance(kind, ShapeType):
        return f"{name}: {annotation_text(ShapeType(shape))}"
    dtype = kind.dtype if isinstance(kind, Tensor) else None
    return f"{name}: {annotation_text(Tensor(shape, dtype))}"
