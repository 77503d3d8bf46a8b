"""Functions that mean NumPy's on arrays, and are recorded on traced values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import Signature, signature
from typing import Any

from explorer.errors import TraceError
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.frames import source_of
from explorer.frontends.tracing.lines import calling_line
from explorer.frontends.tracing.promote import is_traced

Function = Callable[..., Any]
EMPTY = Signature.empty


def operation(
    eager: Function, name: str = "", *, views: bool | None = False
) -> Callable[[Function], Function]:
    """`eager` where all arguments are arrays and numbers; else what is decorated, as one operator
    of the source, which is called `name` or like the function.

    `views`: in NumPy the results may be views of the first argument; None: the function says itself
    of what they are.
    """

    def decorate(function: Function) -> Function:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if not (is_traced(args) or is_traced(kwargs)):
                return eager(*args, **kwargs)
            with source_of(name or function.__name__):
                try:
                    found = function(*args, **kwargs)
                except TypeError as problem:
                    _refuse_arguments(function, args, kwargs, problem)
                    raise
            if views:
                return viewed(found, args[0] if args else None)
            return found if views is None else apart(found, args)

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
    own = isinstance(found, TracedArray)
    if own and (found.of is not None or any(found is g for g in given)):
        return TracedArray(found.value, found.home, weak=found.weak)
    return found
