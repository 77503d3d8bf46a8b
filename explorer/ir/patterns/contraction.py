"""Contractions, found by structure: the sum of a product of two loads.

No operator is recognised by name.
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.ir.affine import Affine
from explorer.ir.by_identity import by_identity
from explorer.ir.kernel import Apply, Axis, Compute, Expr, Read


@dataclass(frozen=True, slots=True)
class Contraction:
    """A contraction, found in a compute.

    `out[batch, rows, column] = sum over depth of a[batch, rows, depth] * b[batch, depth, column]`,
    with affine indices. `a` may lack some of the batch axes: it is then the same along them.
    """

    a: Read
    b: Read
    batch: tuple[Axis, ...]
    rows: tuple[Axis, ...]
    column: Axis
    depth: tuple[Axis, ...]


def _variables(read: Read) -> frozenset[str] | None:
    if not all(isinstance(i, Affine) for i in read.index):
        return None
    return frozenset[str]().union(*(i.variables for i in read.index if isinstance(i, Affine)))


@by_identity
def contraction(c: Compute) -> Contraction | None:
    """Return the compute as a contraction, or None.

    One load must not depend on the last output axis, and the other on none of the row axes.
    """
    pair = product_of(c.expr)
    if pair is None or c.combiner != "sum" or not c.axes or not c.reduce:
        return None
    return _split(c, *pair)


def product_of(expr: Expr) -> tuple[Read, Read] | None:
    """Return the two loads of a product; each may first be converted to the product's type."""
    match expr:
        case Apply("mul", (Read() as a, Read() as b)):
            return a, b
        case Apply("mul", (x, y)):
            (left, to_left), (right, to_right) = _converted(x), _converted(y)
            same = "" in (to_left, to_right) or to_left == to_right
            if isinstance(left, Read) and isinstance(right, Read) and same:
                return left, right
    return None


def _converted(expr: Expr) -> tuple[Expr, str]:
    """Return the operand of a conversion and its target type, or the expression itself and ""."""
    match expr:
        case Apply(op, (inner,)) if op.startswith("cast_"):
            return inner, op.removeprefix("cast_")
    return expr, ""


def _split(c: Compute, a: Read, b: Read) -> Contraction | None:
    in_a, in_b = _variables(a), _variables(b)
    if in_a is None or in_b is None:
        return None
    column = c.axes[-1]
    if column.name in in_a:
        a, b, in_a, in_b = b, a, in_b, in_a
    shared = in_a & in_b
    if column.name in in_a or column.name not in in_b or b.fill is not None:
        return None
    if any(x.name not in shared for x in c.reduce):
        return None
    batch = tuple(x for x in c.axes[:-1] if x.name in in_b)
    rows = tuple(x for x in c.axes if x.name in in_a - in_b)
    if len(batch) + len(rows) + 1 != len(c.axes):
        return None
    return Contraction(a, b, batch, rows, column, c.reduce)
