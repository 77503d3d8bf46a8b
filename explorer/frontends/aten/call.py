"""One node of an exported graph: what PyTorch says of its arguments and results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NoReturn

import numpy as np

from explorer.errors import UnsupportedOperator
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.emit import emit
from explorer.frontends.tracing.promote import converted, traced
from explorer.ir.dtypes import ITEM_BYTES, is_float


def dtype_name(dtype: Any) -> str:
    """The name of a dtype of PyTorch's; UnsupportedOperator where no kernel computes with it."""
    name = str(dtype).removeprefix("torch.")
    if name not in ITEM_BYTES:
        raise UnsupportedOperator(f"there are no kernels for {name}", where=name)
    return name


@dataclass(frozen=True)
class Call:
    """An operator where it stands: `name` of the node, `op` of PyTorch, values of the arguments as
    PyTorch traced them, its results, the places of those that are read, and whether the program is
    to be differentiated.
    """

    name: str
    op: str
    given: tuple[Any, ...]
    results: tuple[Any, ...]
    read: frozenset[int]
    trains: bool = False

    @property
    def dtype(self) -> str:
        """The dtype of the first result."""
        return self.dtype_of(0)

    def dtype_of(self, result: int) -> str:
        """The dtype of a result."""
        return dtype_name(self.results[result].dtype)

    @property
    def is_float(self) -> bool:
        """Return True if the first result is of floats."""
        return is_float(self.dtype)

    def cast(self, value: Any) -> TracedArray:
        """A value in the dtype of the first result."""
        return converted(value, numpy_name(self.dtype))

    def alike(self, *values: Any) -> list[TracedArray]:
        """Values in the dtype that PyTorch promotes the tensors and numbers of the call to."""
        common = import_module("torch._prims_common")
        plain = [g for g in self.given if hasattr(g, "dtype") or isinstance(g, (bool, int, float))]
        kind = common.ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT
        _, found = common.elementwise_dtypes(*plain, type_promotion_kind=kind)
        return [converted(v, numpy_name(dtype_name(found))) for v in values]

    def stopped(self, value: Any) -> TracedArray:
        """A value that PyTorch takes no gradient through."""
        found = traced(value)
        return emit("StopGradient", found) if self.trains else found

    def refuse(self, problem: str) -> NoReturn:
        """Say that this form of the operator has no meaning here."""
        raise UnsupportedOperator(f"{self.op} at {self.name!r}: {problem}", where=self.name)


def numpy_name(name: str) -> Any:
    """NumPy's dtype of that name, those of ml_dtypes among them."""
    return np.dtype(name)


def pair(value: Any, rank: int, otherwise: Sequence[int] | int = 1) -> tuple[int, ...]:
    """A number for each of the dims of a window; one for all of them, or none."""
    if isinstance(value, int):
        return (value,) * rank
    if not value:
        return pair(otherwise, rank)
    return tuple(value) * rank if len(value) == 1 else tuple(value)
