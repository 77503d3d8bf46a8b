"""Numbers of optimizers: in their ranges, and as arrays."""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np

from explorer.errors import BadOption


def numbers(optimizer: Any, *names: str) -> dict[str, np.ndarray]:
    """Fields as float64 scalars, so that they are data and exact for parameters of any dtype."""
    return {n: np.array(getattr(optimizer, n), np.float64) for n in names}


def working_dtype(dtype: Any) -> str:
    """Return the dtype of a step's arithmetic and moments: float32 where parameters have fewer
    bits, in which 0.999 is 1.
    """
    return "float64" if str(dtype) == "float64" else "float32"


def at_least(low: float, **given: float) -> None:
    """BadOption for a number that is less, or none."""
    for name, value in given.items():
        if not isinstance(value, (int, float)) or not isfinite(value) or value < low:
            raise BadOption(f"{name} is a number from {low} on, not {value!r}", where=name)


def counts(low: int, **given: int) -> None:
    """BadOption for what is no whole number, or less."""
    for name, value in given.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < low:
            raise BadOption(f"{name} is a whole number from {low} on, not {value!r}", where=name)


def below(high: float, **given: float) -> None:
    """BadOption for a number that is not less."""
    for name, value in given.items():
        if value >= high:
            raise BadOption(f"{name} is less than {high}, not {value!r}", where=name)
