"""NumPy's universal functions: elementwise, broadcasting, in NumPy's dtypes."""

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
    """Return the dtypes in which NumPy's ufunc computes, and the dtype of its result."""
    kinds = [kind_of(v) for v in values]
    if all(k is int or k is float for k in kinds):  # Python numbers only
        kinds = [numpy.dtype(k) for k in kinds]
    try:
        *operands, result = ufunc.resolve_dtypes((*kinds, *(None,) * ufunc.nout))
    except TypeError as error:
        raise DtypeError(
            f"{calling_line()}: {ufunc.__name__} is not defined on "
            f"{' and '.join(str(kind_of(v)) for v in values)}",
            where=calling_line(),
        ) from error
    if len(set(operands)) > 1:
        operands = [numpy.result_type(*operands)] * len(operands)
    return operands, result


def ufunc(of: Any, body: str | Body, on_complex: Body | None = None) -> Callable[..., Any]:
    """Return NumPy's function `of` extended to traced values.

    `body` is an operator, or a function of the converted operands. `on_complex` is called if an
    operand is complex.
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
        computed = emit(body, *args) if isinstance(body, str) else body(*args)
        result_array = converted(computed, result)
        return weakened(result_array, values)

    record.__name__, record.__doc__ = of.__name__, f"Apply NumPy's `{of.__name__}`."
    names = ("x",) if of.nin == 1 else tuple(f"x{n}" for n in range(1, of.nin + 1))
    shown = [Parameter(n, Parameter.POSITIONAL_ONLY, annotation="Any") for n in names]
    record.__signature__ = Signature(shown, return_annotation="Any")  # type: ignore[attr-defined]
    return operation(of, on_complex=on_complex)(record)


def _check_integer(value: Any, dtype: Any) -> None:
    """Raise DtypeError if a Python integer does not fit the dtype of the other operands."""
    if type(value) is not int or dtype.kind not in "iu":
        return
    limits = numpy.iinfo(dtype)
    if not limits.min <= value <= limits.max:
        raise DtypeError(
            f"{calling_line()}: the integer {value} does not fit {dtype}",
            where=calling_line(),
            expected=f"{limits.min} to {limits.max}",
            actual=value,
        )


def weakened(array: TracedArray, values: tuple[Any, ...]) -> TracedArray:
    """Mark a scalar as weakly typed if all its operands are."""
    weak = array.ndim == 0 and all(is_weak(v) for v in values)
    return TracedArray(array.value, array.home, weak=True) if weak else array


def number_like(value: float, like: TracedArray) -> TracedArray:
    """Return a constant in the dtype of another array."""
    return converted(value, like.dtype)


def is_bool(x: TracedArray) -> bool:
    """Return True for an array of bools."""
    return x.dtype.kind == "b"
