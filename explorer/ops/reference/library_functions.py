"""Functions over arrays that library calls name, the user's own among them; a registry, no eval."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np

from explorer.errors import BadOption, DtypeError, ShapeError, UnsupportedOperator
from explorer.ir.calls import Attrs
from explorer.ir.types import Tensor, dtype_of, numpy_dtype

Array = np.ndarray
Annotate = Callable[..., Tensor | tuple[Tensor, ...]]


@dataclass(frozen=True, slots=True)
class LibraryFunction:
    """A Python function over NumPy arrays, called as `library.function`.

    annotation   annotations of the results from those of the arguments; checked at each call
    destination  it writes into the arrays `out` (one array where it has one result), Relax's
                 call_dps_library; otherwise it returns its results
    """

    library: str
    function: str
    run: Callable[..., Any]
    annotation: Annotate | None = None

    @property
    def name(self) -> str:
        """As a listing says it: `blas.matmul`."""
        return f"{self.library}.{self.function}"

    @property
    def destination(self) -> bool:
        """Whether it takes the arrays to write into."""
        return "out" in _parameters(self.run)

    def types(self, attrs: Attrs, args: Sequence[Tensor | None]) -> tuple[Tensor, ...] | None:
        """The annotations of the results; None where the function says nothing of them."""
        if self.annotation is None:
            return None
        found = self.annotation(*args, **accepted(self.annotation, attrs))
        return found if isinstance(found, tuple) else (found,)

    def __call__(
        self, attrs: Attrs, args: Sequence[Array | None], results: int, out: Sequence[Array] | None
    ) -> tuple[Array, ...]:
        """The results; those in `out` where the function writes into what it is given.

        Raises ShapeError or DtypeError where a result is not as annotated.
        """
        given = accepted(self.run, attrs)
        wanted = self.types(attrs, [_type(a) for a in args])
        if not self.destination:
            found = self.run(*args, **given)
            arrays = tuple(map(np.asarray, found if isinstance(found, tuple) else (found,)))
            self.check(arrays, wanted, results)
            return arrays
        places = tuple(out) if out is not None else self._room(wanted)
        self.check(places, wanted, results)
        self.run(*args, out=places[0] if results == 1 else places, **given)
        return places

    def _room(self, wanted: tuple[Tensor, ...] | None) -> tuple[Array, ...]:
        assert wanted is not None, "registration asks for the annotation"
        return tuple(_empty(t) for t in wanted)

    def check(self, found: Sequence[Array], wanted: Sequence[Tensor] | None, results: int) -> None:
        """ShapeError or DtypeError unless the results are as annotated."""
        if len(found) != results:
            raise ShapeError(
                f"{self.name} gave {len(found)} results where {results} are bound",
                where=self.name,
                expected=results,
                found=len(found),
                try_="return a tuple with one array for each result",
            )
        for array, type in zip(found, wanted or (), strict=False):
            if type.shape is not None and array.shape != type.shape:
                raise ShapeError(
                    f"{self.name} gave an array of shape {array.shape}, and its annotation says "
                    f"{type.shape}",
                    where=self.name,
                    expected=type.shape,
                    found=array.shape,
                    try_=f"correct {self.function!r} or its annotation",
                )
            if type.dtype is not None and dtype_of(array) != type.dtype:
                raise DtypeError(
                    f"{self.name} gave an array of {dtype_of(array)}, and its annotation says "
                    f"{type.dtype}",
                    where=self.name,
                    expected=type.dtype,
                    found=dtype_of(array),
                    try_=f"correct {self.function!r} or its annotation",
                )


def check_result(
    name: str,
    source: str,
    array: Array,
    shape: tuple[object, ...] | None,
    dtype: str | None,
) -> None:
    """ShapeError or DtypeError unless what a library gave is what `source` wants of it."""
    if shape is not None and array.shape != shape:
        raise ShapeError(
            f"{name} gave an array of shape {array.shape}, and {source} {shape}",
            where=name,
            expected=shape,
            found=array.shape,
            try_="correct the function or its annotation",
        )
    if dtype is not None and dtype_of(array) != dtype:
        raise DtypeError(
            f"{name} gave an array of {dtype_of(array)}, and {source} {dtype}",
            where=name,
            expected=dtype,
            found=dtype_of(array),
            try_="correct the function or its annotation",
        )


@lru_cache(maxsize=1024)
def _parameters(function: Callable[..., Any]) -> Mapping[str, bool]:
    """Each parameter, and whether it is given by name only."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise BadOption(
            f"nobody can tell the parameters of {function!r}",
            where=getattr(function, "__name__", "a function"),
            try_="wrap it in a function of Python",
        ) from None
    return {p.name: p.kind is p.KEYWORD_ONLY for p in found}


def accepted(function: Callable[..., Any], attrs: Attrs) -> dict[str, Any]:
    """The attributes that a function takes as keywords."""
    names = _parameters(function)
    return {n: v for n, v in attrs if n != "out" and names.get(n)}


def _type(value: Array | None) -> Tensor | None:
    return Tensor(tuple(value.shape), dtype_of(value)) if isinstance(value, np.ndarray) else None


def _empty(type: Tensor) -> Array:
    if not type.is_known or not all(isinstance(d, int) for d in type.dims):
        raise ShapeError(f"the buffer of a result needs its whole annotation, found {type}")
    shape = tuple(d for d in type.dims if isinstance(d, int))
    return np.empty(shape, numpy_dtype(type.element))


_functions: dict[tuple[str, str], LibraryFunction] = {}


def register_function(function: LibraryFunction) -> LibraryFunction:
    """Make a function known to library calls; a later one of the same name takes its place."""
    if function.destination and function.annotation is None:
        raise BadOption(
            f"{function.name} writes into `out`, so how large that is must be said",
            where=function.name,
            expected="annotation=, from the annotations of the arguments to those of the results",
            found="no annotation",
        )
    _functions[function.library, function.function] = function
    return function


def library_functions() -> Mapping[tuple[str, str], LibraryFunction]:
    """All functions that are known, by library and name."""
    return MappingProxyType(_functions)


def find_function(library: str, function: str) -> LibraryFunction:
    """The function of that name; UnsupportedOperator names those that there are."""
    found = _functions.get((library, function))
    if found is None:
        known = sorted(f for lib, f in _functions if lib == library)
        raise UnsupportedOperator(
            f"the library {library!r} has no function {function!r}",
            where=f"{library}.{function}",
            expected=", ".join(known),
            found=function,
            try_="register it with @explorer.library before the program runs",
        )
    return found
