"""Scatters: stores with a combiner, where each result reduces the elements that land on it.

y[i, j] = sum[r] where(lands(index[r], i), x[r, j], 0)   is, for each r in order,
y[index[r], j] += x[r, j]

Regions, borders and tiles see a reduction: each result is written once, by one task. Only the loops
use this match, and pass over the elements once instead of once a result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from explorer.ir.affine import var
from explorer.ir.combiners import COMBINERS
from explorer.ir.dtypes import DType, is_stored_otherwise
from explorer.ir.kernel import Apply, Axis, Compute, Const, Expr, IndexValue, Kernel, variables


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
