"""Rows of a matrix, each by the same vector: as many sums, each along a row that lies in memory."""

from __future__ import annotations

from explorer.ir.affine import Affine
from explorer.ir.kernel import Compute, Kernel
from explorer.ir.patterns.contraction import Contraction


def is_rows_by_vector(kernel: Kernel, c: Compute, found: Contraction) -> bool:
    """Whether the left operand is one row, and the right one, which only the run knows, is dense
    along the depth, such as the keys that one query is compared with.

    A register tile reads columns side by side: such a matrix would be turned into panels for it,
    which are read once. A loop along the rows reads the matrix as it lies.
    """
    if found.b.tensor in kernel.constants or len(found.depth) != 1:
        return False
    *outer, dense = found.b.index
    depth = found.depth[0].name
    dtypes = {kernel.dtype(t) for t in (found.a.tensor, found.b.tensor, c.out)}
    return (
        all(a.extent == 1 for a in found.rows)
        and dtypes <= {"float32"}
        and isinstance(dense, Affine)
        and dense.factor(depth) == 1
        and all(isinstance(i, Affine) and not i.factor(depth) for i in outer)
    )
