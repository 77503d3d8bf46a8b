"""Whether the columns of a contraction are worth vectors, most of whose lanes would be empty."""

from __future__ import annotations

from explorer.ir.patterns.contraction import Contraction
from explorer.ir.shapes.dims import product

ENOUGH = 8  # columns that are worth a vector, whatever is summed
LANES = 16  # of float32
HORIZONTAL = 10  # cycles of the sum across a vector, of a loop that ends


def few_columns(found: Contraction) -> bool:
    """Whether loops along what is summed are faster: its innermost axis is long.

    A register tile iterates over the depth once for all columns, two rows a cycle; a loop along the
    innermost axis, in vectors, runs for each column and each point of the other axes.
    """
    columns = found.column.extent
    if not isinstance(columns, int) or columns >= ENOUGH:
        return False
    length = found.depth[-1].extent
    points = product(tuple(a.extent for a in found.rows))
    if not isinstance(length, int) or (isinstance(points, int) and points < LANES):
        return True
    return length >= 2 * columns * (length / LANES + HORIZONTAL)
