"""Where an operator stands: its attributes, and what is known of its arguments."""

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
    """A number as ONNX's attributes hold it, of float32: 0.01 is 0.009999999776."""
    return float(np.float32(value))


@dataclass(frozen=True, slots=True)
class Site:
    """An operator where it stands: attributes, and what is known of its arguments.

    `values` are the elements of small integer arguments, as dims, where deduction knows them.
    """

    op: str
    where: str
    args: tuple[Var | None, ...]
    attrs: Mapping[str, AttrValue]
    env: ShapeEnv = ShapeEnv()
    values: tuple[Values | None, ...] = ()
    results: int = 1

    def has(self, i: int) -> bool:
        """Whether the argument is given."""
        return i < len(self.args) and self.args[i] is not None

    def arg(self, i: int) -> Var:
        """An argument that must be given."""
        found = self.args[i] if i < len(self.args) else None
        return found if found is not None else self.fail(f"needs an argument at position {i}")

    def tensor(self, i: int) -> Tensor:
        """The annotation of an argument."""
        return self.arg(i).tensor

    def shape(self, i: int = 0) -> Shape:
        """The shape of an argument."""
        return self.tensor(i).dims

    def dtype(self, i: int = 0) -> DType:
        """The dtype of an argument."""
        return self.tensor(i).element

    @property
    def given(self) -> tuple[Var, ...]:
        """The arguments that are given."""
        return tuple(a for a in self.args if a is not None)

    def integer(self, name: str, default: int = 0) -> int:
        """An attribute that is one integer."""
        value = self.attrs.get(name)
        if value is None:
            return default
        return int(value) if isinstance(value, int) else self.fail(f"{name} must be an integer")

    def number(self, name: str, default: float) -> float:
        """An attribute that is one number; ONNX's defaults are of float32, as attributes are."""
        value = self.attrs.get(name)
        if value is None:
            return single(default)
        if isinstance(value, (int, float)):
            return float(value)
        return self.fail(f"{name} must be a number")

    def text(self, name: str, default: str) -> str:
        """An attribute that is a string."""
        value = self.attrs.get(name)
        return value if isinstance(value, str) else default

    def dims(self, name: str) -> tuple[Dim, ...] | None:
        """An attribute that is a list of dims; None where it is not given."""
        value: Any = self.attrs.get(name)
        if value is None:
            return None
        return tuple(value) if isinstance(value, tuple) else (value,)

    def integers(self, name: str, default: Sequence[int] | None = None) -> tuple[int, ...] | None:
        """An attribute that is a list of integers."""
        found = self.dims(name)
        if found is None:
            return None if default is None else tuple(default)
        if not all(isinstance(d, int) for d in found):
            return self.fail(f"{name} must not depend on symbols, and is {found}")
        return tuple(d for d in found if isinstance(d, int))

    def axis(self, rank: int, default: int = 0, name: str = "axis", *, end: bool = False) -> int:
        """An attribute that counts dims, from the end if negative."""
        return self.in_rank(self.integer(name, default), rank + end)

    def axes(self, rank: int, name: str = "axes") -> tuple[int, ...] | None:
        """An attribute that names dims, in order; None where it is not given."""
        found = self.integers(name)
        return None if found is None else tuple(self.in_rank(a, rank) for a in found)

    def in_rank(self, axis: int, rank: int) -> int:
        """The dim that `axis` means, counted from the end if negative."""
        if not -rank <= axis < rank:
            self.fail(f"axis {axis} is not in a tensor of rank {rank}")
        return axis % rank if rank else 0

    def fail(
        self,
        problem: str,
        kind: type[IronworksError] = ShapeError,
        *,
        expected: object = "",
        found: object = "",
        try_: object = "",
    ) -> NoReturn:
        """Say what is wrong with this operator, and where it stands."""
        raise kind(
            f"{self.op} at {self.where!r}: {problem}",
            where=self.where,
            expected=expected,
            found=found,
            try_=try_,
        )

    def unsupported(self, problem: str) -> NoReturn:
        """Say that this form of the operator has no kernel rule."""
        self.fail(problem, UnsupportedOperator)
