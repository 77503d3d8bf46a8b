"""NumPy's universal functions: on each element, with broadcasting, in NumPy's dtypes."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any

import numpy

from explorer.errors import DtypeError, TraceError
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.emit import emit
from explorer.frontends.tracing.lines import calling_line
from explorer.frontends.tracing.operation import operation
from explorer.frontends.tracing.promote import converted, is_weak, kind_of

Body = Callable[..., TracedArray]


def loop_dtypes(ufunc: Any, values: tuple[Any, ...]) -> tuple[list[Any], Any]:
    """The dtypes that NumPy's function would work in, and that of its result."""
    kinds = [kind_of(v) for v in values]
    if all(k is int or k is float for k in kinds):  # numbers alone
        kinds = [numpy.dtype(k) for k in kinds]
    try:
        *given, result = ufunc.resolve_dtypes((*kinds, *(None,) * ufunc.nout))
    except TypeError as error:
        raise DtypeError(
            f"{calling_line()}: {ufunc.__name__} has no meaning on "
            f"{' and '.join(str(kind_of(v)) for v in values)}",
            where=calling_line(),
        ) from error
    if len(set(given)) > 1:
        given = [numpy.result_type(*given)] * len(given)
    return given, result


def ufunc(of: Any, body: str | Body, on_complex: Body | None = None) -> Callable[..., Any]:
    """NumPy's function `of`; on traced values an operator, or what `body` makes of them, or
    `on_complex` if one of them is complex.
    """

    def record(*values: Any) -> Any:
        if len(values) != of.nin:
            line = calling_line()
            raise TraceError(
                f"{line}: {of.__name__} takes {of.nin} arrays, not {len(values)} ({line.text})",
                where=line,
            )
        dtypes, result = loop_dtypes(of, values)
        for v, t in zip(values, dtypes, strict=True):
            _check_integer(v, t)
        args = [converted(v, t) for v, t in zip(values, dtypes, strict=True)]
        found = emit(body, *args) if isinstance(body, str) else body(*args)
        made = converted(found, result)
        return weakened(made, values)

    record.__name__, record.__doc__ = of.__name__, f"NumPy's `{of.__name__}`."
    names = ("x",) if of.nin == 1 else tuple(f"x{n}" for n in range(1, of.nin + 1))
    shown = [Parameter(n, Parameter.POSITIONAL_ONLY, annotation="Any") for n in names]
    record.__signature__ = Signature(shown, return_annotation="Any")  # type: ignore[attr-defined]
    return operation(of, on_complex=on_complex)(record)


def _check_integer(value: Any, dtype: Any) -> None:
    """DtypeError where a Python integer is not of the dtype of the arrays beside it."""
    if type(value) is not int or dtype.kind not in "iu":
        return
    limits = numpy.iinfo(dtype)
    if not limits.min <= value <= limits.max:
        raise DtypeError(
            f"{calling_line()}: the integer {value} is not one of {dtype}",
            where=calling_line(),
            expected=f"{limits.min} to {limits.max}",
            found=value,
        )


def weakened(array: TracedArray, values: tuple[Any, ...]) -> TracedArray:
    """What is made of Python numbers alone stands for one."""
    weak = array.ndim == 0 and all(is_weak(v) for v in values)
    return TracedArray(array.value, array.home, weak=True) if weak else array


def number_like(value: float, like: TracedArray) -> TracedArray:
    return converted(value, like.dtype)


def is_bool(x: TracedArray) -> bool:
    return x.dtype.kind == "b"
