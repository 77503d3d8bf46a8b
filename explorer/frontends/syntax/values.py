"""Values of names between statements.

Arrays and numbers are carried by branches and loops of the program. Other values must not change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.dims import SymbolicDim
from explorer.frontends.tracing.structure import flatten


class Missing:
    """The value of an unbound name."""

    def __repr__(self) -> str:
        """Return the text for error messages."""
        return "no value"


MISSING = Missing()


def read(name: Callable[[], Any]) -> Any:
    """Return the value of a name, or MISSING if it is unbound."""
    try:
        return name()
    except NameError:
        return MISSING


def is_arrays(value: Any) -> bool:
    """Return True if a value is a non-empty nest of arrays and numbers."""
    leaves, _ = flatten(value)
    return bool(leaves) and all(map(_is_array, leaves))


def _is_array(leaf: Any) -> bool:
    if isinstance(leaf, (TracedArray, SymbolicDim)):
        return True
    if isinstance(leaf, (bool, int, float, np.generic)):
        return True
    return isinstance(leaf, np.ndarray) and leaf.dtype != object


def is_plain(value: Any) -> bool:
    """Return True for strings, bytes and None, which are compared by value."""
    return isinstance(value, (str, bytes, type(None)))


def kind_of_value(value: Any) -> str:
    """Return a value's kind for error messages."""
    if value is None:
        return "None"
    return "an array" if is_arrays(value) else f"of type {type(value).__name__}"


def name_for_error(name: str) -> str:
    """Return a name for error messages; generated ones are "the result"."""
    return "the result" if name.startswith("_result_") else name
