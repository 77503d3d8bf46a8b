"""A node of an exported graph, with PyTorch's facts of its arguments and results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NoReturn

import numpy as np

from explorer.errors import UnsupportedOperator
from explorer.frontends.python.tracing.array import TracedArray
from explorer.frontends.python.tracing.emit import converted, emit, traced
from explorer.ir.dtypes import ITEM_BYTES, is_float


def dtype_name(dtype: Any) -> str:
    """Return the name of a PyTorch dtype; raise UnsupportedOperator if it has no kernels."""
    name = str(dtype).removeprefix("torch.")
    if name not in ITEM_BYTES:
        raise UnsupportedOperator(f"there are no kernels for {name}", where=name)
    return name


@dataclass(frozen=True)
class OperatorCall:
    """An operator call in an exported graph.

    `name` is the node's, `op` PyTorch's operator. `arguments` are the arguments' values as PyTorch
    traced them. `read` are the indices of results that are used. `trains` is True if the program is
    to be differentiated.
    """

    name: str
    op: str
    arguments: tuple[Any, ...]
    results: tuple[Any, ...]
    read: frozenset[int]
    trains: bool = False

    @property
    def dtype(self) -> str:
        """The dtype of the first result."""
        return self.dtype_of(0)

    def dtype_of(self, result: int) -> str:
        """Return the dtype of a result."""
        return dtype_name(self.results[result].dtype)

    @property
    def is_float(self) -> bool:
        """True if the first result is of floats."""
        return is_float(self.dtype)

    def cast(self, value: Any) -> TracedArray:
        """Convert a value to the dtype of the first result."""
        return converted(value, numpy_name(self.dtype))

    def promote(self, *values: Any) -> list[TracedArray]:
        """Convert values to the dtype that PyTorch promotes the call's tensors and numbers to."""
        common = import_module("torch._prims_common")
        plain = [
            g for g in self.arguments if hasattr(g, "dtype") or isinstance(g, (bool, int, float))
        ]
        kind = common.ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT
        _, dtype = common.elementwise_dtypes(*plain, type_promotion_kind=kind)
        return [converted(v, numpy_name(dtype_name(dtype))) for v in values]

    def stop_gradient(self, value: Any) -> TracedArray:
        """Return a value through which no gradient flows."""
        array = traced(value)
        return emit("StopGradient", array) if self.trains else array

    def refuse(self, problem: str) -> NoReturn:
        """Raise UnsupportedOperator: this form of the operator has no translation."""
        raise UnsupportedOperator(f"{self.op} at {self.name!r}: {problem}", where=self.name)


def numpy_name(name: str) -> Any:
    """Return the NumPy dtype of that name, including those of ml_dtypes."""
    return np.dtype(name)


def pair(value: Any, rank: int, otherwise: Sequence[int] | int = 1) -> tuple[int, ...]:
    """Return one number for each dim of a window, from a number, a list, or nothing."""
    if isinstance(value, int):
        return (value,) * rank
    if not value:
        return pair(otherwise, rank)
    return tuple(value) * rank if len(value) == 1 else tuple(value)
