"""Declared types of a Python function's parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from explorer.errors import TraceError
from explorer.ir.types import Tensor


def declared_inputs(run: Callable[..., Any], annotations: Mapping[str, Any]) -> dict[str, Any]:
    """Return the annotation of each parameter, from `annotations` or the signature.

    Parameters with a default and no annotation are left out. Raises TraceError if one has neither.
    """
    try:
        hints = inspect.get_annotations(run, eval_str=True)
    except NameError:
        hints = {}
    declarations: dict[str, Any] = {}
    for name, parameter in inspect.signature(run).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise TraceError(
                f"{run.__name__} takes {parameter}; a traced function names its inputs"
            )
        declared = annotations.get(name, hints.get(name))
        if is_declared(declared):
            declarations[name] = declared
        elif parameter.default is parameter.empty:
            raise TraceError(
                f"the parameter {name!r} of {run.__name__} has no annotation of its dtype and dims",
                where=name,
                try_=f'{name}: explorer.tensor("float32", "batch", 64)',
            )
    return declarations


def is_declared(value: Any) -> bool:
    """Return True if the value is an annotation, or a non-empty nest of them."""
    if isinstance(value, dict):
        return bool(value) and all(map(is_declared, value.values()))
    if isinstance(value, (tuple, list)):
        return bool(value) and all(map(is_declared, value))
    return isinstance(value, Tensor)
