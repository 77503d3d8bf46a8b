"""What the parameters of a Python function are declared to be."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from explorer.errors import TraceError
from explorer.ir.types import Tensor


def declared_inputs(run: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The annotation of each parameter, given or in the signature; a default stands for itself."""
    try:
        hints = inspect.get_annotations(run, eval_str=True)
    except NameError:
        hints = {}
    found: dict[str, Any] = {}
    for name, parameter in inspect.signature(run).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise TraceError(
                f"{run.__name__} takes {parameter}; a traced function names its inputs"
            )
        declared = given.get(name, hints.get(name))
        if is_declared(declared):
            found[name] = declared
        elif parameter.default is parameter.empty:
            raise TraceError(
                f"the parameter {name!r} of {run.__name__} has no annotation that says what array "
                "it is",
                where=name,
                try_=f'{name}: explorer.tensor("float32", "batch", 64)',
            )
    return found


def is_declared(value: Any) -> bool:
    """Whether a value says of what type an input is, or several of them."""
    if isinstance(value, dict):
        return bool(value) and all(map(is_declared, value.values()))
    if isinstance(value, (tuple, list)):
        return bool(value) and all(map(is_declared, value))
    return isinstance(value, Tensor)
