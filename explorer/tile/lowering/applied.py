"""A scalar function of tile expressions, in those that code has forms of."""

from __future__ import annotations

from explorer.ir.kernel import Const
from explorer.ir.scalar_functions import SCALAR_FUNCTIONS
from explorer.ir.tile_programs.elements import Do, TileExpr, dtype_of_tile


def applied(op: str, args: tuple[TileExpr, ...]) -> TileExpr:
    """The function by its name, or what it is made of.

    `isinf(x)` becomes `eq(abs(x), inf)`.
    """
    record = SCALAR_FUNCTIONS.get(op)  # conversions have none
    if record is None or record.made_of is None:
        return Do(op, args)
    dtype = dtype_of_tile(args[-1])

    def f(name: str, *given: TileExpr | float) -> TileExpr:
        return applied(
            name, tuple(Const(a, dtype) if isinstance(a, (int, float)) else a for a in given)
        )

    found: TileExpr = record.made_of(f, *args)
    return found
