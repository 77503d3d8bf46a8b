"""Range checks of hyperparameters, and their conversion to arrays."""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np

from explorer.errors import BadOption


def numbers(optimizer: Any, *names: str) -> dict[str, np.ndarray]:
    """Return fields as float64 scalars: data that is exact for parameters of any dtype."""
    return {n: np.array(getattr(optimizer, n), np.float64) for n in names}


def working_dtype(dtype: Any) -> str:
    """Return the dtype of a step's arithmetic and moments.

    It is float32 for narrower parameters, in which 0.999 is 1.
    """
    return "float64" if str(dtype) == "float64" else "float32"


def at_least(low: float, **fields: float) -> None:
    """Raise BadOption unless each value is a finite number of at least `low`."""
    for name, value in fields.items():
        if not isinstance(value, (int, float)) or not isfinite(value) or value < low:
            raise BadOption(f"{name} must be a number of at least {low}, not {value!r}", where=name)


def counts(low: int, **fields: int) -> None:
    """Raise BadOption unless each value is an integer of at least `low`."""
    for name, value in fields.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < low:
            raise BadOption(
                f"{name} must be an integer of at least {low}, not {value!r}", where=name
            )


def below(high: float, **fields: float) -> None:
    """Raise BadOption unless each value is less than `high`."""
    for name, value in fields.items():
        if value >= high:
            raise BadOption(f"{name} must be less than {high}, not {value!r}", where=name)
