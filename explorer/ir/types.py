"""Annotations: static types and shapes of values (structural information, Relax, section 3.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from explorer.ir.dims import Dim, Shape, product
from explorer.ir.dtypes import ITEM_BYTES, DType, dtype_of, numpy_dtype

__all__ = [
    "ITEM_BYTES",
    "Annotation",
    "Callable",
    "DType",
    "Object",
    "ShapeType",
    "Tensor",
    "TupleType",
    "dtype_of",
    "numpy_dtype",
]


@dataclass(frozen=True, slots=True)
class Object:
    """Anything: the top of the lattice."""


@dataclass(frozen=True, slots=True)
class ShapeType:
    """A shape as a value.

    `dims` is None if only the rank is known; both are None if nothing is known.
    """

    dims: Shape | None = None
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class Tensor:
    """An array; each part may be unknown. `shape` implies `rank`."""

    shape: Shape | None = None
    dtype: DType | None = None
    ndim: int | None = None

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def __str__(self) -> str:
        """Return a text such as `int64[batch, seq]`, with a question mark for unknown parts."""
        dims = "?" if self.shape is None else ", ".join(map(str, self.shape))
        return f"{self.dtype or '?'}[{dims}]"

    @property
    def rank(self) -> int | None:
        """The number of dims, None if it is not known."""
        return self.ndim if self.shape is None else len(self.shape)

    @property
    def dims(self) -> Shape:
        """The shape of a tensor whose shape is known."""
        assert self.shape is not None, "the shape of this tensor is not known"
        return self.shape

    @property
    def element(self) -> DType:
        """The dtype of a tensor whose dtype is known."""
        assert self.dtype is not None, "the dtype of this tensor is not known"
        return self.dtype

    @property
    def is_known(self) -> bool:
        """Return True if shape and dtype are both known, also with symbolic dims."""
        return self.shape is not None and self.dtype is not None

    @property
    def elements(self) -> Dim:
        """The number of elements."""
        return product(self.dims)

    @property
    def bytes(self) -> Dim:
        """The size of the elements in bytes."""
        return product((*self.dims, ITEM_BYTES[self.element]))


@dataclass(frozen=True, slots=True)
class TupleType:
    """Several values."""

    items: tuple[Annotation, ...]


@dataclass(frozen=True, slots=True)
class Callable:
    """A function; `params` is None where any arguments are taken."""

    params: tuple[Annotation, ...] | None
    result: Annotation


Annotation: TypeAlias = Object | ShapeType | Tensor | TupleType | Callable
