"""Values of names between statements: arrays and numbers go through a branch or a loop of the
program, whatever else must stay what it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.dims import SymbolicDim
from explorer.frontends.tracing.structure import flatten


class Missing:
    """The place of a name that has no value yet."""

    def __repr__(self) -> str:
        return "no value"


MISSING = Missing()


def read(name: Callable[[], Any]) -> Any:
    """The value of a name, MISSING where it has none."""
    try:
        return name()
    except NameError:
        return MISSING


def is_arrays(value: Any) -> bool:
    """Whether a value is arrays and numbers, nested as one likes; there is one at least."""
    leaves, _ = flatten(value)
    return bool(leaves) and all(map(_is_array, leaves))


def _is_array(leaf: Any) -> bool:
    if isinstance(leaf, (TracedArray, SymbolicDim)):
        return True
    if isinstance(leaf, (bool, int, float, np.generic)):
        return True
    return isinstance(leaf, np.ndarray) and leaf.dtype != object


def is_plain(value: Any) -> bool:
    return isinstance(value, (str, bytes, type(None)))


def kind_of_value(value: Any) -> str:
    if value is None:
        return "None"
    return "an array" if is_arrays(value) else f"of type {type(value).__name__}"


def called(name: str) -> str:
    return "the result" if name.startswith("_result_") else name
