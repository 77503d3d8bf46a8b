"""Array values recorded by a trace; their elements are known only at run time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from explorer.errors import DtypeError, ShapeError, TraceError
from explorer.frontends.python.tracing.dims import python_dim
from explorer.frontends.python.tracing.frames import (
    FunctionFrame,
    Line,
    calling_line,
    current_frame,
)
from explorer.frontends.python.tracing.operators import IN_PLACE, ArrayOperators, is_complex
from explorer.ir.calls import Var
from explorer.ir.dims import product
from explorer.ir.types import Tensor, numpy_dtype


@dataclass(frozen=True, slots=True)
class Change:
    """A change of an array's elements, in a function and the functions nested in it.

    `statement` is the statement that the array is a result of, if it may alias an earlier array.
    """

    frame: FunctionFrame
    text: str
    statement: object = None


@dataclass(frozen=True, slots=True)
class PossibleAlias:
    """A possible alias of another array, decided at run time.

    `changes_seen` is the number of that array's changes when the alias was created. Changes by
    `statement`, which created both, are ignored.
    """

    array: TracedArray
    changes_seen: int
    statement: object = None

    @property
    def changes(self) -> Iterator[Change]:
        """The changes of the array since the alias was created."""
        for change in self.array.changes[self.changes_seen :]:
            if change.statement is None or change.statement is not self.statement:
                yield change


class TracedArray(ArrayOperators):
    """An array whose dtype and dims are known while tracing.

    `weak` marks a stand-in for a Python number: its dtype yields to an array's.
    """

    def __init__(self, value: Var, home: FunctionFrame, *, weak: bool = False) -> None:
        """Create the array of a program value in the function `home`."""
        self._value, self.home, self.weak = value, home, weak
        self.base: TracedArray | None = None  # the array that this is a view of
        self.changes: list[Change] = []
        self.changes_seen = 0  # number of changes of the base when the view was created
        self.aliases: tuple[PossibleAlias, ...] = ()  # possible aliases
        self.statement: object = None  # its statement, if it may alias an older array
        self.created_in = current_frame()  # the function in which it was created
        self.readers: set[FunctionFrame] = set()  # other functions that have read it

    def __repr__(self) -> str:
        """Return the value's name and type."""
        return f"<{self._value.name}: {self.type}>"

    @property
    def value(self) -> Var:
        """The program value of the array in the current function.

        Raises TraceError if its elements were changed under another name, so that the value is
        stale.
        """
        base = self if self.base is None else self.base
        for change in base.changes[self.changes_seen :]:
            if change.frame.encloses(current_frame()):
                self._refuse_stale("an array" if base is self else "a view of an array", change)
        for other in base.aliases:
            for change in other.changes:
                if change.frame.encloses(current_frame()):
                    self._refuse_stale("a possible alias, decided at run time, of an array", change)
        if base.home is not current_frame():
            base.readers.add(current_frame())
        return self._value

    def _refuse_stale(self, what: str, change: Change) -> NoReturn:
        line = calling_line()
        raise TraceError(
            f"{line}: {self._value.name!r} is {what} whose elements were changed by "
            f"{change.text}; NumPy would see the change here, a traced value does not; take "
            ".copy() of it before",
            where=line,
            try_=".copy()",
        )

    def replace_value(self, value: Var, change: Change) -> None:
        """Replace the value, here and under all names of the array; its views become stale."""
        self.record_change(change)
        self._value, self.changes_seen = value, len(self.changes)
        self.aliases = self.current_aliases()

    def record_change(self, change: Change) -> None:
        """Record a change of the elements, also in all possible aliases."""
        for array in (self, *(other.array for other in self.aliases)):
            array.changes.append(change)
            if array.home is not change.frame:
                change.frame.changed.append((array, change.text))

    def is_read_in(self, inner: FunctionFrame) -> bool:
        """Return True if a function reads this array from outside."""
        return not inner.encloses(self.created_in) and any(map(inner.encloses, self.readers))

    def current_aliases(self) -> tuple[PossibleAlias, ...]:
        """Return the possible aliases, valid from the current change on."""
        return tuple(replace(o, changes_seen=len(o.array.changes)) for o in self.aliases)

    # Facts known while tracing.

    @property
    def type(self) -> Tensor:
        """The annotation."""
        return self._value.tensor

    @property
    def shape(self) -> tuple[Any, ...]:
        """The dims: integers, and `SymbolicDim`s where the extent is symbolic."""
        return tuple(python_dim(d) for d in self.type.dims)

    @property
    def size(self) -> Any:
        """The number of elements."""
        return python_dim(product(self.type.dims))

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return len(self.type.dims)

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The NumPy dtype of the elements."""
        return numpy_dtype(self.type.element)

    @property
    def real(self) -> Any:
        """The array itself."""
        return self.functions.real(self)

    @property
    def imag(self) -> Any:
        """Zeros of the same shape."""
        return self.functions.imag(self)

    # Conversions that need the value.

    def _refuse_conversion(self, what: str, instead: str) -> NoReturn:
        line = calling_line()
        raise TraceError(
            f"{line}: {what} needs the value of {self.value.name!r}, known only at run time; "
            f"use {instead} ({line.text})",
            where=line,
            try_=instead,
        )

    def __bool__(self) -> bool:
        """Raise TraceError: the value is known only at run time."""
        self._refuse_conversion(
            "an if or a while", "explorer.cond, explorer.while_loop or explorer.np.where"
        )

    def __int__(self) -> int:
        """Raise TraceError: the value is known only at run time."""
        self._refuse_conversion("int()", "the array itself, or .astype('int64')")

    def __float__(self) -> float:
        """Raise TraceError: the value is known only at run time."""
        self._refuse_conversion("float()", "the array itself, or .astype('float32')")

    def __index__(self) -> int:
        """Raise TraceError: the value is known only at run time."""
        self._refuse_conversion("an index or a range", "explorer.np.take or explorer.while_loop")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise TraceError: the elements are known only at run time."""
        self._refuse_conversion("a NumPy array", "functions of explorer.np")

    def item(self) -> Any:
        """Raise TraceError: the value is known only at run time."""
        self._refuse_conversion("item()", "the array itself")

    def tolist(self) -> Any:
        """Raise TraceError: the elements are known only at run time."""
        self._refuse_conversion("tolist()", "the array itself")

    def __len__(self) -> int:
        """Return the first extent; raise TraceError if it is symbolic."""
        if not self.ndim:
            raise TypeError("len() of an array without dims")
        first = self.shape[0]
        if not isinstance(first, int):
            self._refuse_conversion("len()", ".shape[0] as it is, or explorer.scan")
        return first

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the rows; raise TraceError if their number is symbolic."""
        if self.ndim and not isinstance(self.shape[0], int):
            self._refuse_conversion("a for loop", "explorer.scan")
        return iter([self[i] for i in range(len(self))])

    def __setitem__(self, key: Any, value: Any) -> None:
        """Assign to elements; raise TraceError if the array belongs to an enclosing function."""
        if self.home is not current_frame():
            line = calling_line()
            raise TraceError(
                f"{line}: {self._value.name!r} is an array of the enclosing function, and its "
                f"elements cannot be changed here ({line.text}); pass it as an argument and return "
                "it",
                where=line,
            )
        assign_elements(self, key, value)


def assign_elements(x: TracedArray, key: Any, value: Any) -> TracedArray:
    """Assign `x[key] = value` and return the array to be called x from here on.

    It is x itself if x belongs to the current function, else another array. Raises TraceError if x
    is a view.
    """
    line = calling_line()
    if x.base is not None:
        raise TraceError(
            f"{line}: {x._value.name!r} is a view, and NumPy would change its base array as well "
            f"({line.text}); assign to the base array by an index, or take .copy()",
            where=line,
            try_=".copy()",
        )
    updated: TracedArray = TracedArray.functions.setitem(x, key, value)
    return _replace_elements(x, updated, line)


def _replace_elements(x: TracedArray, updated: TracedArray, line: Line) -> TracedArray:
    """Return the array that replaces x after its elements became those of `updated`."""
    frame = current_frame()
    change = Change(frame, f"line {line.number}, {line.text}", x.statement)
    if x.home is frame:
        x.replace_value(frame.own(updated.value, updated.home), change)
        return x
    x.record_change(change)
    new = TracedArray(updated.value, updated.home)
    new.aliases = (PossibleAlias(x, len(x.changes)), *x.current_aliases())
    return new


def _augmented(name: str) -> Callable[[TracedArray, Any], Any]:
    """Return the in-place operator `name`, as in `x += y`.

    As in NumPy, it changes the elements of the array under all its names. A scalar is rebound
    instead.
    """

    def operator(x: TracedArray, other: Any) -> Any:
        updated = getattr(x, name)(other)
        if is_complex(updated) and x.ndim:
            raise DtypeError(
                f"{calling_line()}: elements of {x.type} do not become complex",
                where=calling_line(),
                try_="an assignment without an operator, which creates another array",
            )
        if not isinstance(updated, TracedArray) or not x.ndim or x.weak:
            return updated
        line = calling_line()
        dims = [(a, b) for a, b in zip(x.type.dims, updated.type.dims) if isinstance(a, int)]
        if updated.ndim != x.ndim or any(isinstance(b, int) and a != b for a, b in dims):
            raise ShapeError(
                f"{line}: {updated.type} does not fit in {x.type} ({line.text})",
                where=line,
                try_="an assignment without an operator, which creates another array",
            )
        if updated.dtype != x.dtype:
            # NumPy's kind of bfloat16 is V.
            both = updated.dtype.kind in "fV" and x.dtype.kind in "fV"
            if not both and not np.can_cast(updated.dtype, x.dtype, "same_kind"):
                raise DtypeError(
                    f"{line}: elements of {x.type} do not become {updated.dtype} ({line.text})",
                    where=line,
                    try_="an assignment without an operator, which creates another array",
                )
            updated = updated.astype(x.dtype)
        if x.base is None:
            return _replace_elements(x, updated, line)
        x.base.record_change(
            Change(current_frame(), f"line {line.number}, {line.text}", x.base.statement)
        )
        return updated

    return operator


for _name in IN_PLACE:
    setattr(TracedArray, f"__i{_name}__", _augmented(f"__{_name}__"))
