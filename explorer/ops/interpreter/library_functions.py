"""Registry of the functions over arrays that library calls name, the user's included."""

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
    destination  it writes into the arrays `out` (one array for one result), Relax's
                 call_dps_library; otherwise it returns its results
    """

    library: str
    function: str
    run: Callable[..., Any]
    annotation: Annotate | None = None

    @property
    def name(self) -> str:
        """The name in listings: `blas.matmul`."""
        return f"{self.library}.{self.function}"

    @property
    def destination(self) -> bool:
        """Return True if it takes the arrays to write into."""
        return "out" in _parameters(self.run)

    def types(self, attrs: Attrs, args: Sequence[Tensor | None]) -> tuple[Tensor, ...] | None:
        """Return the annotations of the results, or None without an annotation."""
        if self.annotation is None:
            return None
        declared = self.annotation(*args, **accepted(self.annotation, attrs))
        return declared if isinstance(declared, tuple) else (declared,)

    def __call__(
        self, attrs: Attrs, args: Sequence[Array | None], results: int, out: Sequence[Array] | None
    ) -> tuple[Array, ...]:
        """Call the function; return `out` if it writes into that.

        Raises ShapeError or DtypeError if a result contradicts its annotation.
        """
        keywords = accepted(self.run, attrs)
        expected = self.types(attrs, [_type(a) for a in args])
        if not self.destination:
            returned = self.run(*args, **keywords)
            arrays = tuple(
                map(np.asarray, returned if isinstance(returned, tuple) else (returned,))
            )
            self.check(arrays, expected, results)
            return arrays
        places = tuple(out) if out is not None else self._allocate(expected)
        self.check(places, expected, results)
        self.run(*args, out=places[0] if results == 1 else places, **keywords)
        return places

    def _allocate(self, expected: tuple[Tensor, ...] | None) -> tuple[Array, ...]:
        assert expected is not None, "registration asks for the annotation"
        return tuple(_empty(t) for t in expected)

    def check(
        self, arrays: Sequence[Array], expected: Sequence[Tensor] | None, results: int
    ) -> None:
        """Raise ShapeError or DtypeError unless the results match their annotations."""
        if len(arrays) != results:
            raise ShapeError(
                f"{self.name} returned {len(arrays)} results where {results} are bound",
                where=self.name,
                expected=results,
                actual=len(arrays),
                try_="return a tuple with one array for each result",
            )
        for array, type in zip(arrays, expected or (), strict=False):
            if type.shape is not None and array.shape != type.shape:
                raise ShapeError(
                    f"{self.name} returned an array of shape {array.shape}, and its annotation "
                    f"says {type.shape}",
                    where=self.name,
                    expected=type.shape,
                    actual=array.shape,
                    try_=f"correct {self.function!r} or its annotation",
                )
            if type.dtype is not None and dtype_of(array) != type.dtype:
                raise DtypeError(
                    f"{self.name} returned an array of {dtype_of(array)}, and its annotation says "
                    f"{type.dtype}",
                    where=self.name,
                    expected=type.dtype,
                    actual=dtype_of(array),
                    try_=f"correct {self.function!r} or its annotation",
                )


def check_result(
    name: str,
    source: str,
    array: Array,
    shape: tuple[object, ...] | None,
    dtype: str | None,
) -> None:
    """Raise ShapeError or DtypeError unless a library's result is as `source` requires."""
    if shape is not None and array.shape != shape:
        raise ShapeError(
            f"{name} returned an array of shape {array.shape}, and {source} {shape}",
            where=name,
            expected=shape,
            actual=array.shape,
            try_="correct the function or its annotation",
        )
    if dtype is not None and dtype_of(array) != dtype:
        raise DtypeError(
            f"{name} returned an array of {dtype_of(array)}, and {source} {dtype}",
            where=name,
            expected=dtype,
            actual=dtype_of(array),
            try_="correct the function or its annotation",
        )


@lru_cache(maxsize=1024)
def _parameters(function: Callable[..., Any]) -> Mapping[str, bool]:
    """Return each parameter, and whether it is keyword-only."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise BadOption(
            f"the parameters of {function!r} cannot be inspected",
            where=getattr(function, "__name__", "a function"),
            try_="wrap it in a Python function",
        ) from None
    return {p.name: p.kind is p.KEYWORD_ONLY for p in parameters}


def accepted(function: Callable[..., Any], attrs: Attrs) -> dict[str, Any]:
    """Return the attributes that a function takes as keywords."""
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
    """Register a function for library calls; a later one of the same name replaces it."""
    if function.destination and function.annotation is None:
        raise BadOption(
            f"{function.name} writes into `out`, so how large that is must be said",
            where=function.name,
            expected="annotation=, from the annotations of the arguments to those of the results",
            actual="no annotation",
        )
    _functions[function.library, function.function] = function
    return function


def library_functions() -> Mapping[tuple[str, str], LibraryFunction]:
    """Return all registered functions, by library and name."""
    return MappingProxyType(_functions)


def find_function(library: str, function: str) -> LibraryFunction:
    """Return the function of that name; raise UnsupportedOperator with the names there are."""
    registered = _functions.get((library, function))
    if registered is None:
        names = sorted(f for lib, f in _functions if lib == library)
        raise UnsupportedOperator(
            f"the library {library!r} has no function {function!r}",
            where=f"{library}.{function}",
            expected=", ".join(names),
            actual=function,
            try_="register it with @explorer.library before the program runs",
        )
    return registered
