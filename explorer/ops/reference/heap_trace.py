"""A shape heap being filled step by step, for a picture; it ends at the first error."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from explorer.errors import IronworksError
from explorer.ir.shapes.dims import Sizes
from explorer.ir.text.text_tokens import print_dim, print_type
from explorer.ir.types import Annotation, ShapeType, Tensor, TupleType, numpy_dtype
from explorer.ops.reference.frame import CallFrame, Extents, extents_of
from explorer.ops.reference.shape_heap import CheckPoint, Instruction, Op, ShapeHeap, Subject


@dataclass(frozen=True, slots=True)
class HeapStep:
    """One instruction that was run: its point, its text, its slot or None, and the slot's value.

    If it failed, `ok` is False and `message` says why.
    """

    point: str
    text: str
    slot: int | None
    value: int | None
    ok: bool
    message: str = ""


def trace_heap(
    heap: ShapeHeap, values: Mapping[str, Any], caller_sizes: Sizes | None = None
) -> tuple[HeapStep, ...]:
    """Return the steps of a call.

    `values` has a shape or an array by the name of each parameter, match_cast and result (a tuple
    of them for a tuple). A shape stands for an array of the annotated dtype. The steps end at the
    first failure, or at the first point without a value.
    """
    return tuple(_steps(heap, values, caller_sizes or {}))


Work = tuple[str, int | None, Callable[[], object]]


def _steps(heap: ShapeHeap, values: Mapping[str, Any], caller_sizes: Sizes) -> Iterator[HeapStep]:
    frame = CallFrame(heap, caller_sizes)
    for name, slot_of_symbol in heap.caller_slots:
        yield HeapStep("the caller", f"GIVEN {name}", slot_of_symbol, caller_sizes[name], True)
    for point in heap.points:
        if not all(v.name in values for v in point.values):
            return
        arrays = [_value(v.type, values[v.name]) for v in point.values]
        for text, slot, run in _work(frame, point, arrays):
            try:
                run()
                message = ""
            except IronworksError as error:
                message = error.sentence
            slot_value = None if slot is None or text.startswith("NO_OP") else frame.slots[slot]
            yield HeapStep(str(point), text, slot, slot_value, not message, message)
            if message:
                return


def _work(frame: CallFrame, point: CheckPoint, values: Sequence[Any]) -> Iterator[Work]:
    """Yield the actions of a point, one at a time."""
    extents: list[Extents] = []
    for subject in point.subjects:
        text = f"CHECK {subject.what}: {print_type(subject.type)}"
        yield text, None, partial(_measure, subject, values, extents)
    for step in point.first:
        yield instruction_text(step), _slot(step), partial(frame.execute, (step,), extents)
    frame.define(point)
    for step, value in zip(point.computed, frame.computed(point), strict=True):
        yield instruction_text(step), _slot(step), partial(frame.fill, step, value)
    for step in point.second:
        yield instruction_text(step), _slot(step), partial(frame.execute, (step,), extents)


def _measure(subject: Subject, values: Sequence[Any], extents: list[Extents]) -> None:
    extents.append(extents_of(subject, values))


def _slot(step: Instruction) -> int | None:
    return step.slot if step.slot >= 0 else None


def instruction_text(step: Instruction) -> str:
    """Return the text of an instruction: `ASSERT_EQ_LOAD m <- dim 1 of the match_cast 'z'`."""
    dim = print_dim(step.dim)
    match step.op:
        case Op.COMPUTE:
            return f"COMPUTE {dim}"
        case Op.BOUND if step.bound is not None:
            high = "any" if step.bound.high is None else step.bound.high
            return f"BOUND {step.bound.low} <= {dim} <= {high}"
    return f"{step.op.value} {dim} <- dim {step.axis} of {step.subject.what}"


def _value(type: Annotation, value: Any) -> Any:
    """Return an array without memory in place of a shape."""
    match type:
        case TupleType(items):
            return tuple(_value(t, g) for t, g in zip(items, value, strict=False))
        case Tensor(_, dtype, _) if isinstance(value, tuple):
            plain = "float32" if dtype in (None, "string") else dtype
            return np.broadcast_to(np.zeros((), numpy_dtype(plain or "float32")), value)
        case ShapeType():
            return np.asarray(value, np.int64) if isinstance(value, tuple) else value
    return value
