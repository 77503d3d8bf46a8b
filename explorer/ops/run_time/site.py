"""Shared parts of the run-time rules: the host's view of a call, and names of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from explorer.errors import ShapeError
from explorer.ir.calls import AttrValue, Var
from explorer.ir.shapes.dims import Dim
from explorer.ops.record import HostNumber
from explorer.ops.site import Site

MOST_DIMS = 32  # the highest rank with kernels; chosen


@dataclass(frozen=True, slots=True)
class Host:
    """A call on the host: the values of some arguments, the shapes of the others."""

    op: str
    attrs: Mapping[str, Any]
    args: Sequence[Any]

    def integers(self, i: int) -> list[int] | None:
        """Return the elements of an argument, or its shape; None if it is missing."""
        arg = self.args[i] if i < len(self.args) else None
        if arg is None:
            return None
        row = np.reshape(arg, -1)
        if row.dtype.kind == "f" and not np.isfinite(row).all():
            self.fail(f"argument {i} must be whole numbers and is {row}")
        return [int(v) for v in row]

    def required(self, i: int) -> list[int]:
        """Return the elements of a required argument, or its shape."""
        elements = self.integers(i)
        return self.fail(f"needs an argument at position {i}") if elements is None else elements

    def number(self, i: int) -> Any:
        """Return the only element of an argument, in its own dtype."""
        if len(self.args) <= i or self.args[i] is None or np.size(self.args[i]) != 1:
            self.fail(f"argument {i} must be one number")
        return np.reshape(self.args[i], -1)[0]

    def single(self, i: int) -> int:
        """Return the only element of an argument, as an int."""
        elements = self.required(i)
        if len(elements) != 1:
            self.fail(f"argument {i} must be one number and is {elements}")
        return elements[0]

    def axis(self, axis: int, rank: int) -> int:
        """Return the dim of an axis, counted from the end if negative."""
        if not -rank <= axis < rank:
            self.fail(f"axis {axis} is not in a tensor of rank {rank}")
        return axis % rank

    def axes(self, axes: Iterable[int], rank: int) -> list[int]:
        """Return the dims of several axes, in their order."""
        requested = list(axes)
        dims = [self.axis(a, rank) for a in requested]
        if len(set(dims)) < len(dims):
            self.fail(f"axes {requested} name a dim twice")
        return dims

    def fail(self, problem: str) -> NoReturn:
        """Raise ShapeError with the operator and its site."""
        where = str(self.attrs.get("where", self.op))
        raise ShapeError(f"{self.op} at {where!r}: {problem}", where=where)


def signed(name: str) -> tuple[HostNumber, HostNumber]:
    """Return the two parts of a number that may be negative: `up` minus `down`."""
    return HostNumber(f"{name}_up"), HostNumber(f"{name}_down")


def parts(name: str, value: int) -> dict[str, int]:
    """Return the values of the two parts of a number that may be negative."""
    return {f"{name}_up": max(value, 0), f"{name}_down": max(-value, 0)}


def difference(symbols: Mapping[str, Dim], name: str) -> Dim:
    """Return a number that may be negative, as a dim."""
    return symbols[f"{name}_up"] - symbols[f"{name}_down"]


def length(site: Site, i: int) -> int:
    """Return the number of elements of an argument, on which a rank depends."""
    if not site.has(i):
        site.unsupported(f"there is no argument at position {i}")
    shape = site.shape(i)
    count = shape[0] if shape else 1
    if not isinstance(count, int):
        site.unsupported(f"the rank of its result is the length {count} of argument {i}")
    if count > MOST_DIMS:
        site.fail(
            f"argument {i} says {count} extents; tensors of at most {MOST_DIMS} dims have kernels",
            expected=f"at most {MOST_DIMS} elements",
            actual=count,
        )
    return count


def highest(site: Site, dims: Iterable[Dim]) -> int | None:
    """Return the greatest value of several dims, None if one is unbounded."""
    bounds = [site.env.at_most(d) for d in dims]
    finite = [f for f in bounds if f is not None]
    return max(finite, default=0) if len(finite) == len(bounds) else None


def symbolic(site: Site, *args: Var | None, op: str = "", **attrs: AttrValue) -> Site:
    """Return the site with these arguments only, and attributes in place of values."""
    other_attrs = {n: v for n, v in site.attrs.items() if n not in attrs}
    values = tuple(site.values[i] if a is not None else None for i, a in enumerate(args))
    return replace(site, op=op or site.op, args=args, attrs={**other_attrs, **attrs}, values=values)
