"""Functions that mean NumPy's on arrays, and are recorded on traced values."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from explorer.frontends.tracing.frames import source_of
from explorer.frontends.tracing.promote import is_traced

Function = Callable[..., Any]


def operation(eager: Function, name: str = "") -> Callable[[Function], Function]:
    """`eager` where all arguments are arrays and numbers; else what is decorated, as one operator
    of the source, which is called `name` or like the function.
    """

    def decorate(function: Function) -> Function:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if not (is_traced(args) or is_traced(kwargs)):
                return eager(*args, **kwargs)
            with source_of(name or function.__name__):
                return function(*args, **kwargs)

        return call

    return decorate
