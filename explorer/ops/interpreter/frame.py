"""Symbols of one call: a shape heap being filled while the call runs, or traced for a picture."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NoReturn

import numpy as np

from explorer.errors import (
    BoundError,
    DtypeError,
    IronworksError,
    MissingInput,
    ShapeError,
    UnknownInput,
)
from explorer.ir.annotations import dims_of, symbols_in
from explorer.ir.calls import Var
from explorer.ir.dims import ShapeEnv, Sizes
from explorer.ir.program import Function, Program
from explorer.ir.text.text_tokens import print_dim, print_shape, print_type
from explorer.ir.types import Annotation, ShapeType, Tensor, TupleType, dtype_of, numpy_dtype
from explorer.ops.interpreter.shape_heap import (
    CheckPoint,
    Instruction,
    Op,
    ShapeHeap,
    Subject,
    heap_of,
)

NO_NEGATIVE = "extents of 0 or more"
Value = Any  # an array, a shape, a tuple of values, or an object that is not looked at
Extents = tuple[int, ...]


class CallFrame:
    """One call of a function: `sizes` are the symbols known so far.

    A value that violates its annotation raises ShapeError, DtypeError or BoundError. The error
    names the parameter, match_cast or result, and the relation that failed.
    """

    __slots__ = ("heap", "sizes", "slots")

    def __init__(self, heap: ShapeHeap, caller_sizes: Sizes) -> None:
        """Store the caller's symbols in their slots."""
        self.heap = heap
        self.sizes = dict(caller_sizes)
        self.slots = [0] * len(heap.slots)
        for name, slot in heap.caller_slots:
            self.slots[slot] = caller_sizes[name]

    @classmethod
    def of(cls, function: Function, env: ShapeEnv, caller_sizes: Sizes | None = None) -> CallFrame:
        """Return a fresh frame; a branch or a loop body gets the symbols of its caller."""
        return cls(heap_of(function, env, caller_sizes or ()), caller_sizes or {})

    def enter(self, values: Sequence[Value]) -> None:
        """Check the arguments; from then on the symbols of the parameters are known."""
        self.check(self.heap.entry, values)

    def cast(self, name: str, value: Value) -> Value:
        """Check a match_cast's value and return it.

        A tensor matched with a shape becomes its elements.
        """
        point = self.heap.casts[name]
        self.check(point, (value,))
        full_type = point.subjects[0].type if point.subjects else None
        if isinstance(full_type, ShapeType) and not point.subjects[0].path:
            return np.asarray(value, np.int64).reshape(-1)
        return value

    def leave(self, values: Sequence[Value]) -> None:
        """Check the results."""
        self.check(self.heap.leave, values)

    def check(self, point: CheckPoint, values: Sequence[Value]) -> None:
        """Check kind, dtype and rank of every value, then every extent, in two rounds."""
        extents = [extents_of(s, values) for s in point.subjects]
        self.execute(point.first, extents)
        self.define(point)
        if point.compute is not None:
            for step, value in zip(point.computed, self.computed(point), strict=True):
                self.fill(step, value)
        self.execute(point.second, extents)

    def define(self, point: CheckPoint) -> None:
        """Copy the symbols that the first round stored."""
        for name, slot in point.defines:
            self.sizes[name] = self.slots[slot]

    def computed(self, point: CheckPoint) -> tuple[int, ...]:
        """Return the values of the expressions whose symbols are now known."""
        try:
            return point.compute(self.sizes) if point.compute else ()
        except ZeroDivisionError:
            dims = ", ".join(print_dim(i.dim) for i in point.computed)
            raise ShapeError(f"{point}: one of {dims} divides by zero", where=point.name) from None

    def fill(self, step: Instruction, value: int) -> None:
        """Fill a slot; a value stored there earlier must agree."""
        if step.op is Op.RECALL and self.slots[step.slot] != value:
            _refuse_extent(step, self.slots[step.slot], value)
        self.slots[step.slot] = value

    def execute(self, steps: Iterable[Instruction], extents: Sequence[Extents]) -> None:
        """Run instructions over the extents of a point's subjects."""
        slots = self.slots
        for step in steps:
            op, place, axis, slot, dim, _, bound = step
            if op is Op.STORE:
                slots[slot] = extents[place][axis]
            elif op is Op.ASSERT_EQ_LOAD:
                if slots[slot] != extents[place][axis]:
                    _refuse_extent(step, extents[place][axis], slots[slot])
            elif op is Op.ASSERT_EQ_IMM:
                if dim != extents[place][axis]:
                    _refuse_extent(step, extents[place][axis], None)
            elif op is Op.BOUND:
                assert bound is not None
                value = slots[slot]
                if value < bound.low or (bound.high is not None and value > bound.high):
                    _refuse_bound(step, value)


def negative_extents(name: str, type: Tensor, shape: Sequence[int], sizes: Sizes) -> ShapeError:
    """Return the error of a value that would have a negative extent."""
    used = ", ".join(f"{n} = {sizes[n]}" for n in sorted(symbols_in(type)))
    return ShapeError(
        f"{name} of shape {type} would have the extents {list(shape)} for {used}: "
        "give larger inputs",
        where=name,
        expected=NO_NEGATIVE,
        actual=list(shape),
    )


def extents_of(subject: Subject, values: Sequence[Value]) -> Extents:
    """Return the extents of a value, after checks of its kind, dtype and rank."""
    value = values[subject.value]
    for at in subject.path:
        value = value[at]
    if isinstance(subject.type, ShapeType):
        extents = _elements(subject, value)
    elif not isinstance(value, np.ndarray | np.generic):
        _refuse_kind(subject, f"a {type(value).__name__}")
    else:
        if subject.dtype is not None and not _is_of(value.dtype, subject.dtype):
            _refuse_kind(subject, dtype_of(np.asarray(value)))
        extents = value.shape
    if subject.rank is not None and len(extents) != subject.rank:
        _refuse_rank(subject, extents)
    return extents


@lru_cache
def _is_of(actual: np.dtype[Any], dtype: str) -> bool:
    return actual.name == dtype or (dtype == "string" and actual.kind in "OUST")


def _elements(subject: Subject, value: Value) -> Extents:
    """Return a shape value: the elements of an integer tensor, or a tuple of integers."""
    array = np.asarray(value)
    if array.dtype.kind not in "iu" and array.size:
        _refuse_kind(subject, dtype_of(array))
    return tuple(array.reshape(-1).tolist())


def _refuse_kind(subject: Subject, actual: str) -> NoReturn:
    expected = subject.dtype or "a tensor"
    if isinstance(subject.type, ShapeType):
        expected = "a shape or an integer tensor"
    raise DtypeError(
        f"{subject.what} must be {expected} and is {actual}",
        where=subject.name,
        expected=expected,
        actual=actual,
    )


def _refuse_rank(subject: Subject, extents: Extents) -> NoReturn:
    dims = dims_of(subject.type)
    has = f"[{', '.join(map(str, extents))}]"
    expected = f"{subject.rank} dims" if dims is None else f"shape [{print_shape(dims)}]"
    raise ShapeError(
        f"{subject.what} must have {expected} and has {has}",
        where=subject.name,
        expected=expected if dims is None else dims,
        actual=extents,
    )


def _refuse_extent(step: Instruction, extent: int, value: int | None) -> NoReturn:
    expected = print_dim(step.dim) if value is None else f"{print_dim(step.dim)} = {value}"
    raise ShapeError(
        f"dim {step.axis} of {step.subject.what} must be {expected} and is {extent}",
        where=step.subject.name,
        expected=f"[{print_shape(dims_of(step.subject.type) or ())}]",
        actual=extent,
    )


def _refuse_bound(step: Instruction, value: int) -> NoReturn:
    bound = step.bound
    assert bound is not None
    high = "any" if bound.high is None else bound.high
    raise BoundError(
        f"{bound.name} is {value} and was bounded to {bound.low} .. {high}",
        where=bound.name,
        expected=f"{bound.low} .. {high}",
        actual=value,
        try_=f"load the model with bounds={{{bound.name!r}: (low, high)}} that allow it",
    )


# Values of the symbols from the shapes of the inputs.


def bind_sizes(
    program: Program, inputs: Mapping[str, np.ndarray], preset: Sizes | None = None
) -> dict[str, int]:
    """Return the value of each symbol, from the shapes of the inputs.

    `preset` are symbols known before. Raises MissingInput, UnknownInput, DtypeError, ShapeError or
    BoundError, naming the input.
    """
    params = program.main.params
    names = {p.name for p in params}
    for name in inputs:
        if name not in names:
            raise UnknownInput(
                f"there is no input {name!r}; the inputs are {_names(params)}",
                where=name,
                expected=_names(params),
            )
    for param in params:
        if param.name not in inputs:
            raise MissingInput(f"the input {param.name!r} is missing", where=param.name)
    frame = CallFrame(heap_of(program.main, program.env, preset or (), inputs=True), preset or {})
    frame.enter([inputs[p.name] for p in params])
    return frame.sizes


def _names(params: tuple[Var, ...]) -> str:
    return ", ".join(repr(p.name) for p in params)


# A shape heap being filled step by step, for a picture.


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
