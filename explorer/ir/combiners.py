"""The combiners of reductions and running reductions, one record each in `RECORDS`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from explorer.ir.dtypes import DType, integer_limits, is_float
from explorer.ir.scalar_functions import SCALAR_FUNCTIONS


@dataclass(frozen=True, slots=True)
class Combiner:
    """One combiner: associative and commutative, so that elements may be reduced in any order.

    `step` is the scalar function that combines one more element, `numpy` the same on arrays.
    `identity(dtype)` is the initial value, and the result of an empty reduction. `picks`: the
    result is one of the elements, NaN if any of them is NaN.
    """

    name: str
    step: str
    numpy: np.ufunc
    identity: Callable[[DType], float]
    picks: bool = False

    def has_vectors_of(self, dtype: DType) -> bool:
        """Return True if the CPU reduces vectors of a dtype, in the type that it is computed in."""
        return dtype != "bool" and SCALAR_FUNCTIONS[self.step].has_vectors_of(dtype)


def _number(value: int) -> Callable[[DType], float]:
    return lambda dtype: float(value) if is_float(dtype) else value


def _least(dtype: DType) -> float:
    return float("-inf") if is_float(dtype) else integer_limits(dtype)[0]


def _greatest(dtype: DType) -> float:
    return float("inf") if is_float(dtype) else integer_limits(dtype)[1]


RECORDS: tuple[Combiner, ...] = (
    Combiner("sum", "add", np.add, _number(0)),
    Combiner("prod", "mul", np.multiply, _number(1)),
    Combiner("max", "max", np.maximum, _least, picks=True),
    Combiner("min", "min", np.minimum, _greatest, picks=True),
)
COMBINERS: dict[str, Combiner] = {r.name: r for r in RECORDS}
