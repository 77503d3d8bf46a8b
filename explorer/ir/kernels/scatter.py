"""Scatters, patches and row copies, found by structure: elements whose indices are data.

Scatter: a store with a combiner, where each result reduces the elements that land on it.

    y[i, j] = sum[r] where(lands(index[r], i), x[r, j], 0)   is, for each r in order,
    y[index[r], j] += x[r, j]

Patch: an update of a part of a tensor in place, while other elements keep their values.

    y[i, j] = where(lands(p, i), u[j], x[i, j]),  y over x   is   x[p, j] = u[j]

Row copy: a kernel that only copies one row, `y[i, ...] = x[at, i, ...]`.

Regions, borders and tiles see a reduction or a map over all of y. Only the loops use these matches:
they pass over the elements of a scatter once instead of once a result, and iterate over a patch
only, as other elements are in memory already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from explorer.ir.affine import Affine, var
from explorer.ir.combiners import COMBINERS
from explorer.ir.dims import Dim
from explorer.ir.dtypes import DType, is_stored_otherwise
from explorer.ir.kernel import (
    Apply,
    Axis,
    Compute,
    Const,
    Expr,
    IndexValue,
    Kernel,
    Read,
    variables,
)


@dataclass(frozen=True, slots=True)
class Scatter:
    """`y[.., place, ..] = combiner(y[.., place, ..], update)` for every point of `over`, in order.

    `places` has, for each axis of results that data selects, the int64 index of the element along
    it. An element whose index is out of bounds is dropped. `apart` are the other axes that a place
    depends on, `rows` those that it does not: an element is a row over these.
    """

    places: tuple[tuple[Axis, Expr], ...]
    update: Expr
    over: tuple[Axis, ...]
    apart: tuple[Axis, ...]
    rows: tuple[Axis, ...]

    @property
    def points(self) -> tuple[Axis, ...]:
        """The axes along which places are evaluated, outermost first.

        The last axis of the results is innermost, if it is one of them, as it is dense in memory.
        """
        if self.apart and not self.rows:
            return (*self.apart[:-1], *self.over, self.apart[-1])
        return (*self.apart, *self.over)


def scattered(
    update: Expr, places: Sequence[tuple[Axis, Expr]], combiner: str, dtype: DType
) -> Expr:
    """Return the expression that a scatter reduces: the update where all places match.

    Elsewhere it is the combiner's identity. The places are int64.
    """
    hits = [Apply("lands", (place, IndexValue(var(axis.name)))) for axis, place in places]
    nothing = Const(COMBINERS[combiner].identity(dtype), dtype)
    return Apply("where", (reduce(lambda a, b: Apply("and", (a, b)), hits), update, nothing))


def scatter(kernel: Kernel, c: Compute) -> Scatter | None:
    """Return the compute as a scatter, or None.

    There is no match if partial sums would be rounded each time that they are stored.
    """
    match c.expr:
        case Apply("where", (condition, update, Const() as other)) if c.reduce:
            pass
        case _:
            return None
    dtype, combiner = kernel.dtype(c.out), c.combiner or "sum"
    nothing = Const(COMBINERS[combiner].identity(dtype), other.dtype)
    if other != nothing or dtype == "bool" or is_stored_otherwise(dtype):
        return None
    free = {a.name: a for a in c.axes}
    places: list[tuple[Axis, Expr]] = []
    guards: list[Expr] = []
    for hit in conjuncts(condition):
        match = _place(hit, free)
        if match is None:
            guards.append(hit)
        else:
            places.append(match)
            del free[match[0].name]
    used = frozenset[str]().union(*(variables(e) for _, e in places))
    if not used & {a.name for a in c.reduce} or used & {a.name for a, _ in places}:
        return None
    if guards:
        update = Apply("where", (reduce(lambda a, b: Apply("and", (a, b)), guards), update, other))
    apart = tuple(a for a in free.values() if a.name in used)
    rows = tuple(a for a in free.values() if a.name not in used)
    return Scatter(tuple(places), update, c.reduce, apart, rows)


def conjuncts(condition: Expr) -> tuple[Expr, ...]:
    """Return the conjuncts of a condition, in order."""
    match condition:
        case Apply("and", (a, b)):
            return (*conjuncts(a), *conjuncts(b))
    return (condition,)


def _place(hit: Expr, free: dict[str, Axis]) -> tuple[Axis, Expr] | None:
    """Return the axis of results that a condition selects along, and the index."""
    match hit:
        case Apply("lands", (place, IndexValue(index))) if index.bare in free:
            return free[index.bare], place
    return None


@dataclass(frozen=True, slots=True)
class PatchSlice:
    """`size` elements along an axis, from the index `start` on, an int64."""

    axis: Axis
    start: Expr
    size: Dim


@dataclass(frozen=True, slots=True)
class Patch:
    """`x[.., start : start + size, ..] = update`, where x is the tensor `base`.

    `apart` are the axes that a start depends on, `rows` the other common axes: a part is rows over
    these.
    """

    base: str
    parts: tuple[PatchSlice, ...]
    update: Expr
    apart: tuple[Axis, ...]
    rows: tuple[Axis, ...]


def patch(kernel: Kernel, c: Compute) -> Patch | None:
    """Return the compute as a patch of the tensor whose memory its result overwrites."""
    taken = kernel.updated(c.out) if c.out in kernel.outputs else None
    match = None if taken is None else patched(kernel, c)
    return match if match is not None and match.base == taken else None


def patched(kernel: Kernel, c: Compute) -> Patch | None:
    """Return the compute as a patch, assuming that its result overwrites the tensor `base`."""
    match c.expr:
        case Apply("where", (condition, update, Read(base, index, None))) if not c.reduce:
            pass
        case _:
            return None
    if base not in kernel.inputs or index != c.target or not _is_whole(kernel, c, base):
        return None
    free = {a.name: a for a in c.axes}
    parts: list[PatchSlice] = []
    guards: list[Expr] = []
    for part in _bounds(condition):
        match = _part(part, free)
        if match is None:
            guards += part
        else:
            parts.append(match)
            del free[match.axis.name]
    used = frozenset[str]().union(*(variables(p.start) for p in parts))
    if not parts or used & {p.axis.name for p in parts}:
        return None
    if guards:
        both = reduce(lambda a, b: Apply("and", (a, b)), guards)
        update = Apply("where", (both, update, Read(base, index)))
    apart = tuple(a for a in free.values() if a.name in used)
    rows = tuple(a for a in free.values() if a.name not in used)
    return Patch(base, tuple(parts), update, apart, rows)


def _is_whole(kernel: Kernel, c: Compute, base: str) -> bool:
    """Return True if a compute writes each element at the index of the same element of a tensor.

    Dims of extent 1 may have no axis.
    """
    if kernel.shape(c.out) != kernel.shape(base):
        return False
    dims = [(i, n) for i, n in zip(c.target, kernel.shape(c.out), strict=True) if n != 1 or i.terms]
    own = [(var(a.name), a.extent) for a in c.axes]
    return dims == own


def _bounds(condition: Expr) -> list[tuple[Expr, ...]]:
    """Return the conjuncts of a condition, with the two bounds of one index together."""
    flat = list(conjuncts(condition))
    groups: list[tuple[Expr, ...]] = []
    while flat:
        first = flat.pop(0)
        match first:
            case Apply("ge", (place, Const(0))):
                above = [e for e in flat if isinstance(e, Apply) and e.op == "lt"]
                pair = next((e for e in above if e.args[0] == place), None)
                if pair is not None:
                    flat.remove(pair)
                    groups.append((first, pair))
                    continue
        groups.append((first,))
    return groups


def _part(conditions: tuple[Expr, ...], free: dict[str, Axis]) -> PatchSlice | None:
    match conditions:
        case (Apply("lands", (start, IndexValue(index))),) if index.bare in free:
            return PatchSlice(free[index.bare], start, 1)
        case (Apply("ge", (Apply("sub", (IndexValue(index), start)), _)), Apply("lt", (_, size))):
            if index.bare in free and isinstance(size, Const) and not isinstance(size.value, float):
                return PatchSlice(free[index.bare], start, size.value)
    return None


@dataclass(frozen=True, slots=True)
class RowCopy:
    """The tensor of a kernel that it copies a row of, and the row's index."""

    tensor: str
    at: Affine | Expr


def row_copy(kernel: Kernel) -> RowCopy | None:
    """Return the row that a kernel copies; None if it does anything else."""
    if len(kernel.computes) != 1 or kernel.updates:
        return None
    (compute,) = kernel.computes
    read = compute.expr
    if not isinstance(read, Read) or read.tensor not in kernel.inputs or read.fill is not None:
        return None
    there, here = kernel.spec(read.tensor).shape, kernel.spec(kernel.output).shape
    same = kernel.dtype(read.tensor) == kernel.dtype(kernel.output)
    if compute.reduce or not there or there[1:] != here or not same:
        return None
    return RowCopy(read.tensor, read.index[0]) if read.index[1:] == compute.target else None
