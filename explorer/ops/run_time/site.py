"""What the rules for values of the run share: the host's view of a call, and names of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from explorer.errors import ShapeError
from explorer.ir.calls import AttrValue, Var
from explorer.ir.shapes.dims import Dim
from explorer.ops.record import Number
from explorer.ops.site import Site

MOST_DIMS = 32  # of what has kernels; chosen


@dataclass(frozen=True, slots=True)
class Host:
    """A call as the host sees it: of some arguments the values, of the others the shapes."""

    op: str
    attrs: Mapping[str, Any]
    args: Sequence[Any]

    def integers(self, i: int) -> list[int] | None:
        """The elements of an argument, or its shape; None where it is not given."""
        found = self.args[i] if i < len(self.args) else None
        if found is None:
            return None
        row = np.reshape(found, -1)
        if row.dtype.kind == "f" and not np.isfinite(row).all():
            self.fail(f"argument {i} must be whole numbers and is {row}")
        return [int(v) for v in row]

    def given(self, i: int) -> list[int]:
        """The elements of an argument that must be given, or its shape."""
        found = self.integers(i)
        return self.fail(f"needs an argument at position {i}") if found is None else found

    def number(self, i: int) -> Any:
        """The only element of an argument, of its own dtype."""
        if len(self.args) <= i or self.args[i] is None or np.size(self.args[i]) != 1:
            self.fail(f"argument {i} must be one number")
        return np.reshape(self.args[i], -1)[0]

    def one(self, i: int) -> int:
        """The only element of an argument."""
        found = self.given(i)
        if len(found) != 1:
            self.fail(f"argument {i} must be one number and is {found}")
        return found[0]

    def axis(self, axis: int, rank: int) -> int:
        """The dim that `axis` means, counted from the end if negative."""
        if not -rank <= axis < rank:
            self.fail(f"axis {axis} is not in a tensor of rank {rank}")
        return axis % rank

    def axes(self, axes: Iterable[int], rank: int) -> list[int]:
        """The dims that several axes mean, in their order."""
        given = list(axes)
        found = [self.axis(a, rank) for a in given]
        if len(set(found)) < len(found):
            self.fail(f"axes {given} name a dim twice")
        return found

    def fail(self, problem: str) -> NoReturn:
        """Say what is wrong with the values of this run, and where."""
        where = str(self.attrs.get("where", self.op))
        raise ShapeError(f"{self.op} at {where!r}: {problem}", where=where)


def signed(name: str) -> tuple[Number, Number]:
    """A number that may be negative: `up` minus `down`."""
    return Number(f"{name}_up"), Number(f"{name}_down")


def parts(name: str, value: int) -> dict[str, int]:
    """The value of a number that may be negative."""
    return {f"{name}_up": max(value, 0), f"{name}_down": max(-value, 0)}


def difference(symbols: Mapping[str, Dim], name: str) -> Dim:
    """A number that may be negative, as a dim."""
    return symbols[f"{name}_up"] - symbols[f"{name}_down"]


def length(site: Site, i: int) -> int:
    """How many elements an argument has, which is what a rank depends on."""
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
            found=count,
        )
    return count


def highest(site: Site, dims: Iterable[Dim]) -> int | None:
    """The greatest value of several dims, None if one is unbounded."""
    found = [site.env.at_most(d) for d in dims]
    known = [f for f in found if f is not None]
    return max(known, default=0) if len(known) == len(found) else None


def symbolic(site: Site, *args: Var | None, op: str = "", **attrs: AttrValue) -> Site:
    """The site with only these arguments, and with attributes that say what values said."""
    kept = {n: v for n, v in site.attrs.items() if n not in attrs}
    values = tuple(site.values[i] if a is not None else None for i, a in enumerate(args))
    return replace(site, op=op or site.op, args=args, attrs={**kept, **attrs}, values=values)
