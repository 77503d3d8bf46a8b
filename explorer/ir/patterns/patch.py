"""A tensor of which a part gets other values, and that keeps the rest where it lies.

y[i, j] = where(lands(p, i), u[j], x[i, j]),  y over x   is   x[p, j] = u[j]

It is a map over all of y for whatever looks at regions, borders and tiles: an element that keeps
its value is written nowhere, for it is there. Only what iterates asks here, and passes over the
part.
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
class Part:
    """`size` elements along an axis, from the place `start` on, an int64."""

    axis: Axis
    start: Expr
    size: Dim


@dataclass(frozen=True, slots=True)
class Patch:
    """`x[.., start : start + size, ..] = update`. `apart` are the axes that a start depends on,
    `rows` the others that all elements have: a part is rows over these.
    """

    kept: str
    parts: tuple[Part, ...]
    update: Expr
    apart: tuple[Axis, ...]
    rows: tuple[Axis, ...]


def patch(kernel: Kernel, c: Compute) -> Patch | None:
    """The compute as a patch of a tensor whose memory its result takes over."""
    taken = kernel.updated(c.out) if c.out in kernel.outputs else None
    found = None if taken is None else patched(kernel, c)
    return found if found is not None and found.kept == taken else None


def patched(kernel: Kernel, c: Compute) -> Patch | None:
    """The compute as a patch, if its result took over the memory of the tensor that it keeps."""
    match c.expr:
        case Apply("where", (condition, update, Read(kept, index, None))) if not c.reduce:
            pass
        case _:
            return None
    if kept not in kernel.inputs or index != c.target or not _is_whole(kernel, c, kept):
        return None
    free = {a.name: a for a in c.axes}
    parts: list[Part] = []
    guards: list[Expr] = []
    for part in _bounds(condition):
        found = _part(part, free)
        if found is None:
            guards += part
        else:
            parts.append(found)
            del free[found.axis.name]
    used = frozenset[str]().union(*(variables(p.start) for p in parts))
    if not parts or used & {p.axis.name for p in parts}:
        return None
    if guards:
        both = reduce(lambda a, b: Apply("and", (a, b)), guards)
        update = Apply("where", (both, update, Read(kept, index)))
    apart = tuple(a for a in free.values() if a.name in used)
    rows = tuple(a for a in free.values() if a.name not in used)
    return Patch(kept, tuple(parts), update, apart, rows)


def _is_whole(kernel: Kernel, c: Compute, kept: str) -> bool:
    """Whether a compute makes each element of its result where that of another tensor lies; dims of
    extent 1 may have no axis.
    """
    if kernel.shape(c.out) != kernel.shape(kept):
        return False
    dims = [(i, n) for i, n in zip(c.target, kernel.shape(c.out), strict=True) if n != 1 or i.terms]
    own = [(var(a.name), a.extent) for a in c.axes]
    return dims == own


def _bounds(condition: Expr) -> list[tuple[Expr, ...]]:
    """What must all hold; the two bounds of one place together."""
    flat = list(conjuncts(condition))
    found: list[tuple[Expr, ...]] = []
    while flat:
        first = flat.pop(0)
        match first:
            case Apply("ge", (place, Const(0))):
                above = [e for e in flat if isinstance(e, Apply) and e.op == "lt"]
                pair = next((e for e in above if e.args[0] == place), None)
                if pair is not None:
                    flat.remove(pair)
                    found.append((first, pair))
                    continue
        found.append((first,))
    return found


def _part(conditions: tuple[Expr, ...], free: dict[str, Axis]) -> Part | None:
    match conditions:
        case (Apply("lands", (start, IndexValue(index))),) if index.bare in free:
            return Part(free[index.bare], start, 1)
        case (Apply("ge", (Apply("sub", (IndexValue(index), start)), _)), Apply("lt", (_, size))):
            if index.bare in free and isinstance(size, Const) and not isinstance(size.value, float):
                return Part(free[index.bare], start, size.value)
    return None
