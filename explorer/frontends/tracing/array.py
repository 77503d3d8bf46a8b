"""An array whose value only a run knows: what is done with it is recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from explorer.errors import DtypeError, ShapeError, TraceError
from explorer.frontends.tracing.complex_array import is_complex
from explorer.frontends.tracing.dims import python_dim
from explorer.frontends.tracing.frames import Frame, current_frame
from explorer.frontends.tracing.lines import Line, calling_line
from explorer.frontends.tracing.operators import ArrayOperators
from explorer.ir.calls import Var
from explorer.ir.shapes.dims import product
from explorer.ir.types import Tensor, numpy_dtype


@dataclass(frozen=True, slots=True)
class Change:
    """Elements of an array got other values, in a function and what is written inside of it;
    `statement` is what the array is a result of, if it may be one of those before it.
    """

    frame: Frame
    text: str
    statement: object = None


@dataclass(frozen=True, slots=True)
class Shared:
    """An array that another may be, as a run decides; how many changes it had then, and the
    statement whose other results are none of theirs.
    """

    array: TracedArray
    seen: int
    statement: object = None

    @property
    def changes(self) -> Iterator[Change]:
        """What has changed it since."""
        for change in self.array.changes[self.seen :]:
            if change.statement is None or change.statement is not self.statement:
                yield change


class TracedArray(ArrayOperators):
    """An array of which dtype and dims are known.

    `weak`: it stands for a Python number, so that its dtype yields to an array's.
    """

    def __init__(self, value: Var, home: Frame, *, weak: bool = False) -> None:
        self._value, self.home, self.weak = value, home, weak
        self.of: TracedArray | None = None  # the array that it is a view of
        self.changes: list[Change] = []
        self.seen = 0  # how many changes the array had that this one is a view of
        self.shared: tuple[Shared, ...] = ()  # the arrays that it may be
        self.statement: object = None  # what it is a result of, if it may be one from before
        self.made = current_frame()  # in which it came to be: a copy is the value of one around
        self.readers: set[Frame] = set()  # other functions than its own that have read it

    def __repr__(self) -> str:
        return f"<{self._value.name}: {self.type}>"

    @property
    def value(self) -> Var:
        """The value that stands for it here; TraceError where that is not told any more, because
        elements of it were changed under another name.
        """
        of = self if self.of is None else self.of
        for change in of.changes[self.seen :]:
            if change.frame.is_around(current_frame()):
                self._refuse_old("an array" if of is self else "a view of an array", change)
        for other in of.shared:
            for change in other.changes:
                if change.frame.is_around(current_frame()):
                    self._refuse_old("what may be an array, as a run decides,", change)
        if of.home is not current_frame():
            of.readers.add(current_frame())
        return self._value

    def _refuse_old(self, what: str, change: Change) -> NoReturn:
        line = calling_line()
        raise TraceError(
            f"{line}: {self._value.name!r} is {what} of which elements were changed by "
            f"{change.text}, as NumPy would see here and a traced value does not; take .copy() of "
            "it before",
            where=line,
            try_=".copy()",
        )

    def give(self, value: Var, change: Change) -> None:
        """Let the array have other elements, here and under all its names; not its views."""
        self.note(change)
        self._value, self.seen, self.shared = value, len(self.changes), self.shared_now()

    def note(self, change: Change) -> None:
        """Elements of it are others from here on, and of what it may be."""
        for array in (self, *(other.array for other in self.shared)):
            array.changes.append(change)
            if array.home is not change.frame:
                change.frame.changed.append((array, change.text))

    def is_read_in(self, inner: Frame) -> bool:
        """Whether a function has read it that it was there before."""
        return not inner.is_around(self.made) and any(map(inner.is_around, self.readers))

    def shared_now(self) -> tuple[Shared, ...]:
        """The arrays that it may be, as they are now."""
        return tuple(replace(o, seen=len(o.array.changes)) for o in self.shared)

    # What is known of it.

    @property
    def type(self) -> Tensor:
        """The annotation."""
        return self._value.tensor

    @property
    def shape(self) -> tuple[Any, ...]:
        """The dims: numbers, and `SymbolicDim`s where a run decides."""
        return tuple(python_dim(d) for d in self.type.dims)

    @property
    def size(self) -> Any:
        """How many elements there are."""
        return python_dim(product(self.type.dims))

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return len(self.type.dims)

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """NumPy's dtype of the elements."""
        return numpy_dtype(self.type.element)

    @property
    def real(self) -> Any:
        """The array itself."""
        return self.functions.real(self)

    @property
    def imag(self) -> Any:
        """Zeros."""
        return self.functions.imag(self)

    # What a run alone could say.

    def _only_a_run_knows(self, what: str, instead: str) -> NoReturn:
        line = calling_line()
        raise TraceError(
            f"{line}: {what} needs the value of {self.value.name!r}, which only a run knows; "
            f"use {instead} ({line.text})",
            where=line,
            try_=instead,
        )

    def __bool__(self) -> bool:
        self._only_a_run_knows(
            "an if or a while", "explorer.cond, explorer.while_loop or explorer.np.where"
        )

    def __int__(self) -> int:
        self._only_a_run_knows("int()", "the array itself, or .astype('int64')")

    def __float__(self) -> float:
        self._only_a_run_knows("float()", "the array itself, or .astype('float32')")

    def __index__(self) -> int:
        self._only_a_run_knows("an index or a range", "explorer.np.take or explorer.while_loop")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        self._only_a_run_knows("a NumPy array", "functions of explorer.np")

    def item(self) -> Any:
        """No number before a run."""
        self._only_a_run_knows("item()", "the array itself")

    def tolist(self) -> Any:
        """No list before a run."""
        self._only_a_run_knows("tolist()", "the array itself")

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of an array without dims")
        first = self.shape[0]
        if not isinstance(first, int):
            self._only_a_run_knows("len()", ".shape[0] as it is, or explorer.scan")
        return first

    def __iter__(self) -> Iterator[Any]:
        if self.ndim and not isinstance(self.shape[0], int):
            self._only_a_run_knows("a for loop", "explorer.scan")
        return iter([self[i] for i in range(len(self))])

    def __setitem__(self, key: Any, value: Any) -> None:
        if self.home is not current_frame():
            line = calling_line()
            raise TraceError(
                f"{line}: {self._value.name!r} is an array of the function around, and here its "
                f"elements cannot be changed ({line.text}); take it as an argument, and give it "
                "back",
                where=line,
            )
        changed(self, key, value)


def changed(x: TracedArray, key: Any, value: Any) -> TracedArray:
    """`x[key] = value`: x itself, where it is a value of the function that is being written, else
    another array, to be called x from here on.
    """
    line = calling_line()
    if x.of is not None:
        raise TraceError(
            f"{line}: {x._value.name!r} is a view, and NumPy would change what it is a view of as "
            f"well ({line.text}); give that the elements by an index of its own, or take .copy()",
            where=line,
            try_=".copy()",
        )
    found: TracedArray = TracedArray.functions.setitem(x, key, value)
    return _with_elements(x, found, line)


def _with_elements(x: TracedArray, found: TracedArray, line: Line) -> TracedArray:
    """What an array is called from here on, after its elements became those of `found`."""
    frame = current_frame()
    change = Change(frame, f"line {line.number}, {line.text}", x.statement)
    if x.home is frame:
        x.give(frame.own(found.value, found.home), change)
        return x
    x.note(change)
    new = TracedArray(found.value, found.home)
    new.shared = (Shared(x, len(x.changes)), *x.shared_now())
    return new


def _augmented(name: str) -> Callable[[TracedArray, Any], Any]:
    """`x += y` or its like: elements of the array change, under all its names, as in NumPy; what
    has no dims gets another value, as a number does.
    """

    def operator(x: TracedArray, other: Any) -> Any:
        found = getattr(x, name)(other)
        if is_complex(found) and x.ndim:
            raise DtypeError(
                f"{calling_line()}: elements of {x.type} do not become complex",
                where=calling_line(),
                try_="an assignment without an operator makes another array",
            )
        if not isinstance(found, TracedArray) or not x.ndim or x.weak:
            return found
        line = calling_line()
        dims = [(a, b) for a, b in zip(x.type.dims, found.type.dims) if isinstance(a, int)]
        if found.ndim != x.ndim or any(isinstance(b, int) and a != b for a, b in dims):
            raise ShapeError(
                f"{line}: {found.type} does not fit in {x.type} ({line.text})",
                where=line,
                try_="an assignment without an operator makes another array",
            )
        if found.dtype != x.dtype:
            both = found.dtype.kind in "fV" and x.dtype.kind in "fV"  # bfloat16 is V to NumPy
            if not both and not np.can_cast(found.dtype, x.dtype, "same_kind"):
                raise DtypeError(
                    f"{line}: elements of {x.type} do not become {found.dtype} ({line.text})",
                    where=line,
                    try_="an assignment without an operator makes another array",
                )
            found = found.astype(x.dtype)
        if x.of is None:
            return _with_elements(x, found, line)
        x.of.note(Change(current_frame(), f"line {line.number}, {line.text}", x.of.statement))
        return found

    return operator


for _name in (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "matmul",
    "and",
    "or",
    "xor",
    "lshift",
    "rshift",
):
    setattr(TracedArray, f"__i{_name}__", _augmented(f"__{_name}__"))
