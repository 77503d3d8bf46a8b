"""Patches: updates of a part of a tensor in place, while other elements keep their values.

y[i, j] = where(lands(p, i), u[j], x[i, j]),  y over x   is   x[p, j] = u[j]

Regions, borders and tiles see a map over all of y: an element that keeps its value is not written,
as it is in memory already. Only the loops use this match, and iterate over the part.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from explorer.ir.affine import var
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
from explorer.ir.patterns.scatter import conjuncts
from explorer.ir.shapes.dims import Dim


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
