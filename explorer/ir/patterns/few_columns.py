"""Contractions with too few columns for vectors, most of whose lanes would be empty."""

from __future__ import annotations

from explorer.ir.patterns.contraction import Contraction
from explorer.ir.shapes.dims import product

ENOUGH = 8  # columns that are worth a vector at any depth
LANES = 16  # of float32
HORIZONTAL = 10  # cycles of the sum across a vector after a loop


def few_columns(match: Contraction) -> bool:
    """Return True if loops along the depth are faster: its innermost axis is long.

    A register tile iterates over the depth once for all columns, two rows a cycle. A vector loop
    along the innermost axis runs for each column and each point of the other axes.
    """
    columns = match.column.extent
    if not isinstance(columns, int) or columns >= ENOUGH:
        return False
    length = match.depth[-1].extent
    points = product(tuple(a.extent for a in match.rows))
    if not isinstance(length, int) or (isinstance(points, int) and points < LANES):
        return True
    return length >= 2 * columns * (length / LANES + HORIZONTAL)
