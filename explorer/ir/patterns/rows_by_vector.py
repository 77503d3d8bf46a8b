"""Products of matrix rows with one vector: each sum runs along a row that is dense in memory."""

from __future__ import annotations

from explorer.ir.affine import Affine
from explorer.ir.kernel import Compute, Kernel
from explorer.ir.patterns.contraction import Contraction


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
