"""Contractions, found by structure: the sum of a product of two loads.

No operator is recognised by name. `few_columns` and `is_rows_by_vector` find contractions for which
loops along the depth are faster than register tiles.
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.ir.affine import Affine
from explorer.ir.by_identity import by_identity
from explorer.ir.dims import product
from explorer.ir.kernel import Apply, Axis, Compute, Expr, Kernel, Read

ENOUGH_COLUMNS = 8  # that are worth a vector at any depth
LANES = 16  # of float32
HORIZONTAL_SUM_CYCLES = 10  # of the sum across a vector after a loop


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

    @property
    def operands(self) -> tuple[Read, Read]:
        """The left and the right operand."""
        return self.a, self.b


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


def few_columns(match: Contraction) -> bool:
    """Return True if loops along the depth are faster: its innermost axis is long.

    A register tile iterates over the depth once for all columns, two rows a cycle. A vector loop
    along the innermost axis runs for each column and each point of the other axes.
    """
    columns = match.column.extent
    if not isinstance(columns, int) or columns >= ENOUGH_COLUMNS:
        return False
    length = match.depth[-1].extent
    points = product(tuple(a.extent for a in match.rows))
    if not isinstance(length, int) or (isinstance(points, int) and points < LANES):
        return True
    return length >= 2 * columns * (length / LANES + HORIZONTAL_SUM_CYCLES)


def is_rows_by_vector(kernel: Kernel, c: Compute, match: Contraction) -> bool:
    """Return True if the left operand is one row, and the right one is dense along the depth.

    The right operand is only known at run time, such as the keys that one query is compared with. A
    register tile reads columns side by side: such a matrix would be packed into panels that are
    read once. A loop along the rows reads the matrix in place.
    """
    if match.b.tensor in kernel.constants or len(match.depth) != 1:
        return False
    *outer, dense = match.b.index
    depth = match.depth[0].name
    dtypes = {kernel.dtype(t) for t in (match.a.tensor, match.b.tensor, c.out)}
    return (
        all(a.extent == 1 for a in match.rows)
        and dtypes <= {"float32"}
        and isinstance(dense, Affine)
        and dense.factor(depth) == 1
        and all(isinstance(i, Affine) and not i.factor(depth) for i in outer)
    )
