"""Rules for values that only a run knows: the host's view of a call, reductions, broadcasting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from explorer.errors import ShapeError
from explorer.ir.calls import AttrValue, Var
from explorer.ir.dims import Dim, Shape, ShapeEnv
from explorer.ops.record import HostNumber, RunTime, Site

Attrs = Mapping[str, Any]

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


# Dims of a result.


def dim_names(count: int, high: int | None = None) -> tuple[HostNumber, ...]:
    """Return a number for each dim of a result."""
    return tuple(HostNumber(f"dim{d}", 0, high) for d in range(count))


def dim_values(dims: Sequence[int]) -> dict[str, int]:
    """Return the values of `dim_names`."""
    return {f"dim{d}": n for d, n in enumerate(dims)}


def dim_symbols(symbols: Mapping[str, Dim]) -> tuple[Dim, ...]:
    """Return the dims in the order of `dim_names`."""
    return tuple(d for n, d in symbols.items() if n.startswith("dim"))


# Reductions along axes that only a run knows. Each dim d of x is two axes, `kept` and `over`:
# (n, 1) if it is kept, (1, n) if it is reduced. y[i0, i1] = sum over r0, r1 of x[i0 + r0, i1 + r1]


def _reduction_names(site: Site) -> tuple[HostNumber, ...]:
    shape, numbers = site.shape(), list[HostNumber]()
    for d, n in enumerate(shape):
        if n != 1:
            numbers.append(HostNumber(f"kept{d}", 0, highest(site, (n, 1))))
            numbers.append(HostNumber(f"over{d}", 0, highest(site, (n, 1))))
    if site.integer("keepdims", 1):
        return tuple(numbers)
    return (*numbers, *dim_names(_reduced_rank(site), highest(site, (1, *shape))))


def _reduced_rank(site: Site) -> int:
    """Return the rank of the result without the reduced dims."""
    rank, count = len(site.shape()), length(site, 1)
    if count == 0:
        return rank if site.integer("noop_with_empty_axes") else 0
    return max(0, rank - count)


def _reduction_values(op: str) -> Any:
    def values(attrs: Attrs, args: Sequence[Any]) -> Mapping[str, int]:
        host = Host(op, attrs, args)
        shape, axes = host.required(0), host.required(1)
        reduced = host.axes(axes, len(shape))
        if not axes and not attrs.get("noop_with_empty_axes"):
            reduced = list(range(len(shape)))
        extents: dict[str, int] = {}
        for d, n in enumerate(shape):
            extents |= {f"kept{d}": 1 if d in reduced else n, f"over{d}": n if d in reduced else 1}
        return extents | dim_values([n for d, n in enumerate(shape) if d not in reduced])

    return values


def _as_two_axes(site: Site, symbols: Mapping[str, Dim]) -> Site:
    shape = site.shape()
    outer = tuple(symbols[f"kept{d}"] if n != 1 else 1 for d, n in enumerate(shape))
    over = tuple(symbols[f"over{d}"] if n != 1 else 1 for d, n in enumerate(shape))
    if site.integer("keepdims", 1):
        return symbolic(site, site.arg(0), kept=outer, over=over)
    return symbolic(site, site.arg(0), kept=outer, over=over, dims=dim_symbols(symbols))


def reduction_rule(op: str) -> RunTime:
    """Return the rule of a reduction."""
    return RunTime(frozenset({1}), _reduction_names, _reduction_values(op), _as_two_axes)


# Broadcasting that bounds do not decide. Each dim has an extent, and each argument a step of 0 or 1
# along it: y = Add(x: [5], b: [k]) -> y[i] = x[i] + b[step * i].


def _certain(dims: Sequence[Dim | None], env: ShapeEnv) -> Dim | None:
    """Return the extent of a result if a dim is certainly not 1, or all dims are equal."""
    for dim in dims:
        if dim is not None and env.bounds(dim)[0] > 1:
            return dim
    kinds = set(dims) - {1}
    return next(iter(kinds), 1) if len(kinds) < 2 and None not in kinds else None


def _columns(site: Site, shapes: Sequence[Shape], rank: int) -> list[list[Dim | None]]:
    """Return for each dim of the result the dims that meet there; None is known only in a run."""
    columns: list[list[Dim | None]] = [[] for _ in range(rank)]
    for shape in shapes:
        for d, n in enumerate(shape, rank - len(shape)):
            columns[d].append(n)
    if site.op == "Expand":
        for d in range(rank - length(site, 1), rank):
            columns[d].append(None)
    return columns


def _inner(op: str) -> int:
    """Return how many dims at the end of each shape do not broadcast."""
    return 2 if op == "MatMul" else 0


def _shapes(site: Site) -> list[Shape]:
    """Return the shapes of the broadcast arguments."""
    count = 1 if site.op == "Expand" else len(site.args)
    shapes = [site.shape(i) if site.has(i) else () for i in range(count)]
    return [shape[: max(0, len(shape) - _inner(site.op))] for shape in shapes]


def _broadcast_rank(site: Site, shapes: Sequence[Shape]) -> int:
    ranks = [len(s) for s in shapes]
    return max(ranks) if site.op != "Expand" else max(*ranks, length(site, 1))


def _extents(site: Site) -> list[Dim | None]:
    """Return the extents of the result; None for those that only a run knows."""
    shapes = _shapes(site)
    columns = _columns(site, shapes, _broadcast_rank(site, shapes))
    return [_certain(column, site.env) for column in columns]


def _step(dim: Dim, extent: Dim | None, env: ShapeEnv) -> int | None:
    """Return the step along a dim of an argument, or None if only a run knows it."""
    if dim == extent or env.bounds(dim)[0] > 1:
        return 1
    return 0 if dim == 1 else None


def _broadcast_names(site: Site) -> tuple[HostNumber, ...]:
    extents, expands = _extents(site), site.op == "Expand"  # its target is no argument of a kernel
    numbers = [
        HostNumber(f"extent{d}", value=n) for d, n in enumerate(extents) if n is None or expands
    ]
    for i, shape in enumerate(_shapes(site)):
        for d, n in enumerate(shape, len(extents) - len(shape)):
            if _step(n, extents[d], site.env) is None:
                numbers.append(HostNumber(f"step{i}_{d}", 0, 1))
    return tuple(numbers)


def _broadcast_values(op: str, read: frozenset[int]) -> Any:
    def values(attrs: Attrs, args: Sequence[Any]) -> Mapping[str, int]:
        host = Host(op, attrs, args)
        full_shapes = [host.integers(i) or [] for i in range(len(args))]
        shapes = [shape[: max(0, len(shape) - _inner(op))] for shape in full_shapes]
        rank = max(map(len, shapes), default=0)
        extents = [1] * rank
        for shape in shapes:
            for d, n in enumerate(shape, rank - len(shape)):
                if (n != 1 and extents[d] not in (1, n)) or n < 0:
                    host.fail(f"{' and '.join(map(str, shapes))} do not broadcast")
                extents[d] = extents[d] if n == 1 else n
        values_ = {f"extent{d}": n for d, n in enumerate(extents)}
        for i, shape in enumerate(shapes):
            if i not in read:
                lead = rank - len(shape)
                values_ |= {f"step{i}_{d}": int(n != 1) for d, n in enumerate(shape, lead)}
        return values_

    return values


def _with_steps(site: Site, symbols: Mapping[str, Dim]) -> Site:
    extents, steps = _extents(site), list[AttrValue]()
    for i, shape in enumerate(_shapes(site)):
        row: list[Dim] = []  # dims that do not broadcast have no step here
        for d, n in enumerate(shape, len(extents) - len(shape)):
            step = _step(n, extents[d], site.env)
            row.append(symbols[f"step{i}_{d}"] if step is None else step)
        steps.append(tuple(row))
    extents_ = tuple(symbols[f"extent{d}"] if n is None else n for d, n in enumerate(extents))
    args = site.args[:1] if site.op == "Expand" else site.args
    return symbolic(site, *args, extents=extents_, steps=tuple(steps))


def broadcast_rule(op: str, read: frozenset[int] = frozenset()) -> RunTime:
    """Return the rule of a broadcasting operator; `read` are target shapes, as values."""
    return RunTime(read, _broadcast_names, _broadcast_values(op, read), _with_steps, "extents")
