"""Functions that mean NumPy's on arrays, and are recorded on traced values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import Signature, signature
from typing import Any, Literal, NoReturn

from explorer.errors import DtypeError, TraceError
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.complex_array import (
    ComplexArray,
    has_complex,
    join_each,
    split_parts,
)
from explorer.frontends.tracing.frames import source_of
from explorer.frontends.tracing.lines import calling_line
from explorer.frontends.tracing.promote import is_traced

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
    """`eager` where all arguments are arrays and numbers; else what is decorated, as one operator
    of the source, which is called `name` or like the function.

    `views`: in NumPy the results may be views of the first argument; None: the function says itself
    of what they are.

    `on_complex` is called if an argument is complex: a function, "itself", or by "parts" once for
    each part of the first argument.
    """

    def decorate(function: Function) -> Function:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if not (is_traced(args) or is_traced(kwargs)):
                return eager(*args, **kwargs)
            with source_of(name or function.__name__):
                try:
                    if on_complex != "itself" and has_complex((*args, *kwargs.values())):
                        return _on_complex(args, kwargs)
                    found = function(*args, **kwargs)
                except TypeError as problem:
                    _refuse_arguments(function, args, kwargs, problem)
                    raise
            if views:
                return viewed(found, args[0] if args else None)
            return found if views is None else apart(found, args)

        def _on_complex(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
            if on_complex == "parts":
                (real, imag), more = split_parts(args[0]), args[1:]
                return join_each(call(real, *more, **kwargs), call(imag, *more, **kwargs))
            if not callable(on_complex):
                _refuse_complex(name or function.__name__)
            return apart(on_complex(*args, **kwargs))

        return call

    return decorate


def _refuse_arguments(
    function: Function, args: Sequence[Any], kwargs: Mapping[str, Any], problem: TypeError
) -> None:
    """TraceError where a function does not take these arguments; NumPy's may take more."""
    takes = signature(function)
    try:
        takes.bind(*args, **kwargs)
    except TypeError as wrong:
        line, known = calling_line(), f"{function.__name__}{takes.replace(return_annotation=EMPTY)}"
        raise TraceError(
            f"{line}: explorer.np.{function.__name__} does not take these arguments of traced "
            f"arrays: {wrong} ({line.text})",
            where=line,
            expected=known,
        ) from problem


def _refuse_complex(name: str) -> NoReturn:
    line = calling_line()
    raise DtypeError(
        f"{line}: {name} takes no complex arrays in a trace ({line.text})",
        where=line,
        expected="real arrays",
        try_="their .real and .imag",
    )


def viewed(found: Any, of: Any) -> Any:
    """What was found, each array of it as a view of another one; that one itself is none."""
    if isinstance(found, (list, tuple)):
        return type(found)(viewed(f, of) for f in found)
    if isinstance(found, TracedArray) and isinstance(of, TracedArray) and found is not of:
        found.of = of if of.of is None else of.of
        found.seen = len(found.of.changes) if of.of is None else of.seen
    return found


def apart(found: Any, given: Sequence[Any] = ()) -> Any:
    """What was found, each array of it one of its own: neither a view, as what made it may have
    been, nor one of those given.
    """
    if type(found) in (list, tuple):
        return type(found)(apart(f, given) for f in found)
    if isinstance(found, ComplexArray):
        return ComplexArray(*(TracedArray(p.value, p.home) for p in (found.real, found.imag)))
    own = isinstance(found, TracedArray)
    if own and (found.of is not None or any(found is g for g in given)):
        return TracedArray(found.value, found.home, weak=found.weak)
    return found
