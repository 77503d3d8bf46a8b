"""Relax's shape heap at work: how each slot is filled and checked.

It is traced for the sizes at the knobs and for invalid inputs.
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
