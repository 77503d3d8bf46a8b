"""Site of an operator: its attributes, and what is known of its arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from explorer.errors import IronworksError, ShapeError, UnsupportedOperator
from explorer.ir.calls import AttrValue, Var
from explorer.ir.shapes.dims import Dim, Shape, ShapeEnv
from explorer.ir.types import DType, Tensor

Array = np.ndarray
Values = np.ndarray  # of dtype object: dims, by element


def single(value: float) -> float:
    """Round a number to float32, as ONNX's attributes store it: 0.01 is 0.009999999776."""
    return float(np.float32(value))


@dataclass(frozen=True, slots=True)
class Site:
    """An operator with its attributes, and what is known of its arguments.

    `values` are the elements of small integer arguments, as dims, if deduction knows them.
    """

    op: str
    where: str
    args: tuple[Var | None, ...]
    attrs: Mapping[str, AttrValue]
    env: ShapeEnv = ShapeEnv()
    values: tuple[Values | None, ...] = ()
    results: int = 1

    def has(self, i: int) -> bool:
        """Return True if the argument is present."""
        return i < len(self.args) and self.args[i] is not None

    def arg(self, i: int) -> Var:
        """Return a required argument."""
        var = self.args[i] if i < len(self.args) else None
        return var if var is not None else self.fail(f"needs an argument at position {i}")

    def tensor(self, i: int) -> Tensor:
        """Return the annotation of an argument."""
        return self.arg(i).tensor

    def shape(self, i: int = 0) -> Shape:
        """Return the shape of an argument."""
        return self.tensor(i).dims

    def dtype(self, i: int = 0) -> DType:
        """Return the dtype of an argument."""
        return self.tensor(i).element

    @property
    def present_args(self) -> tuple[Var, ...]:
        """The arguments that are present."""
        return tuple(a for a in self.args if a is not None)

    def integer(self, name: str, default: int = 0) -> int:
        """Return an attribute that is one integer."""
        value = self.attrs.get(name)
        if value is None:
            return default
        return int(value) if isinstance(value, int) else self.fail(f"{name} must be an integer")

    def number(self, name: str, default: float) -> float:
        """Return an attribute that is one number; defaults are rounded to float32 as in ONNX."""
        value = self.attrs.get(name)
        if value is None:
            return single(default)
        if isinstance(value, (int, float)):
            return float(value)
        return self.fail(f"{name} must be a number")

    def text(self, name: str, default: str) -> str:
        """Return an attribute that is a string."""
        value = self.attrs.get(name)
        return value if isinstance(value, str) else default

    def dims(self, name: str) -> tuple[Dim, ...] | None:
        """Return an attribute that is a list of dims, or None if it is missing."""
        value: Any = self.attrs.get(name)
        if value is None:
            return None
        return tuple(value) if isinstance(value, tuple) else (value,)

    def integers(self, name: str, default: Sequence[int] | None = None) -> tuple[int, ...] | None:
        """Return an attribute that is a list of integers."""
        dims = self.dims(name)
        if dims is None:
            return None if default is None else tuple(default)
        if not all(isinstance(d, int) for d in dims):
            return self.fail(f"{name} must not depend on symbols, and is {dims}")
        return tuple(d for d in dims if isinstance(d, int))

    def axis(self, rank: int, default: int = 0, name: str = "axis", *, end: bool = False) -> int:
        """Return an attribute that counts dims, from the end if negative."""
        return self.in_rank(self.integer(name, default), rank + end)

    def axes(self, rank: int, name: str = "axes") -> tuple[int, ...] | None:
        """Return an attribute that names dims, in order, or None if it is missing."""
        integers = self.integers(name)
        return None if integers is None else tuple(self.in_rank(a, rank) for a in integers)

    def in_rank(self, axis: int, rank: int) -> int:
        """Return the dim of an axis, counted from the end if negative."""
        if not -rank <= axis < rank:
            self.fail(f"axis {axis} is not in a tensor of rank {rank}")
        return axis % rank if rank else 0

    def fail(
        self,
        problem: str,
        kind: type[IronworksError] = ShapeError,
        *,
        expected: object = "",
        actual: object = "",
        try_: object = "",
    ) -> NoReturn:
        """Raise an error that names this operator and its site."""
        raise kind(
            f"{self.op} at {self.where!r}: {problem}",
            where=self.where,
            expected=expected,
            actual=actual,
            try_=try_,
        )

    def unsupported(self, problem: str) -> NoReturn:
        """Raise UnsupportedOperator: this form of the operator has no kernel rule."""
        self.fail(problem, UnsupportedOperator)
