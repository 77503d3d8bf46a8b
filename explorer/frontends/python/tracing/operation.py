"""Functions that are recorded on traced values: NumPy's, and operators of the user."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import Signature, signature
from typing import Any, Literal, NoReturn

import numpy as np

from explorer.errors import DtypeError, TraceError
from explorer.frontends.python.tracing.array import TracedArray
from explorer.frontends.python.tracing.emit import emit_call, is_traced, traced
from explorer.frontends.python.tracing.frames import attributed_to_call, calling_line
from explorer.frontends.python.tracing.operators import (
    ComplexArray,
    has_complex,
    join_each,
    split_parts,
)
from explorer.ops import RECORDS
from explorer.ops.record import OperatorRecord
from explorer.ops.user_operators import check_call, plain_attributes, register
from explorer.ops.widening import reference

Function = Callable[..., Any]
OnComplex = Function | Literal["itself", "parts"]
EMPTY = Signature.empty


def operation(
    eager: Function,
    name: str = "",
    *,
    views: bool | None = False,
    on_complex: OnComplex | None = None,
) -> Callable[[Function], Function]:
    """Decorate a recording function: call `eager` unless an argument is traced.

    The recorded operators belong to one source operator, called `name` or like the function.

    Args:
        eager: the function on arrays and numbers.
        name: the name of the source operator.
        views: True if the results may be views of the first argument, as in NumPy; None if the
            function marks views itself.
        on_complex: the handler of complex arguments: a function, "itself", or "parts" to record
            once for each part of the first argument.
    """

    def decorate(function: Function) -> Function:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if not (is_traced(args) or is_traced(kwargs)):
                return eager(*args, **kwargs)
            with attributed_to_call(name or function.__name__):
                try:
                    if on_complex != "itself" and has_complex((*args, *kwargs.values())):
                        return _on_complex(args, kwargs)
                    result = function(*args, **kwargs)
                except TypeError as problem:
                    _refuse_arguments(function, args, kwargs, problem)
                    raise
            if views:
                return mark_views(result, args[0] if args else None)
            return result if views is None else distinct(result, args)

        def _on_complex(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
            if on_complex == "parts":
                (real, imag), more = split_parts(args[0]), args[1:]
                return join_each(call(real, *more, **kwargs), call(imag, *more, **kwargs))
            if not callable(on_complex):
                _refuse_complex(name or function.__name__)
            return distinct(on_complex(*args, **kwargs))

        return call

    return decorate


def _refuse_arguments(
    function: Function, args: Sequence[Any], kwargs: Mapping[str, Any], problem: TypeError
) -> None:
    """Raise TraceError if a function does not take these arguments; NumPy's may take more."""
    accepted = signature(function)
    try:
        accepted.bind(*args, **kwargs)
    except TypeError as wrong:
        line, expected = (
            calling_line(),
            f"{function.__name__}{accepted.replace(return_annotation=EMPTY)}",
        )
        raise TraceError(
            f"{line}: explorer.np.{function.__name__} does not take these arguments of traced "
            f"arrays: {wrong} ({line.text})",
            where=line,
            expected=expected,
        ) from problem


def _refuse_complex(name: str) -> NoReturn:
    line = calling_line()
    raise DtypeError(
        f"{line}: {name} takes no complex arrays in a trace ({line.text})",
        where=line,
        expected="real arrays",
        try_="their .real and .imag",
    )


def mark_views(result: Any, base: Any) -> Any:
    """Mark each array of a result as a view of `of`, except `of` itself."""
    if isinstance(result, (list, tuple)):
        return type(result)(mark_views(f, base) for f in result)
    if isinstance(result, TracedArray) and isinstance(base, TracedArray) and result is not base:
        result.base = base if base.base is None else base.base
        result.changes_seen = len(result.base.changes) if base.base is None else base.changes_seen
    return result


def distinct(result: Any, arguments: Sequence[Any] = ()) -> Any:
    """Return the result with its arrays made distinct.

    Each is neither a view nor one of the `arguments`.
    """
    if type(result) in (list, tuple):
        return type(result)(distinct(f, arguments) for f in result)
    if isinstance(result, ComplexArray):
        return ComplexArray(*(TracedArray(p.value, p.home) for p in (result.real, result.imag)))
    own = isinstance(result, TracedArray)
    if own and (result.base is not None or any(result is g for g in arguments)):
        return TracedArray(result.value, result.home, weak=result.weak)
    return result


def operator(record: OperatorRecord, domain: str = "") -> Callable[..., Any]:
    """Register an operator of one result and return its function.

    On arrays the function runs the record's reference; in a traced function it emits one operator.
    ONNX files name the operator in `domain`. A later registration of the same name replaces it.

    Raises:
        BadOption: it is not a record, or has the name of an ONNX operator. Faults of its rules
            raise BadOperator when the rules are used.
    """
    register(record, domain)
    name = record.name

    def eager(*args: Any, **attrs: Any) -> Any:
        arrays = [None if a is None else np.asarray(a) for a in args]
        plain = plain_attributes(name, attrs)
        check_call(RECORDS[name], plain, arrays)
        with np.errstate(all="ignore"):
            results = reference(RECORDS[name], plain, arrays)
        return results[0] if isinstance(results, tuple) and len(results) == 1 else results

    def recorded(*args: Any, **attrs: Any) -> Any:
        values = [None if a is None else traced(a) for a in args]
        (result,) = emit_call(name, 1, values, plain_attributes(name, attrs))
        return result

    recorded.__name__ = recorded.__qualname__ = name
    recorded.__doc__ = f"The operator {name}."
    return operation(eager)(recorded)
