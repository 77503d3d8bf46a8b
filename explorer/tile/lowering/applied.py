"""Scalar functions of tile expressions, composed of the functions that code generators have."""

from __future__ import annotations

from explorer.ir.kernel import Const
from explorer.ir.scalar_functions import SCALAR_FUNCTIONS
from explorer.ir.tile_programs.elements import Do, TileExpr, dtype_of_tile


def applied(op: str, args: tuple[TileExpr, ...]) -> TileExpr:
    """Return a scalar function, or the expression that it is composed of.

    `isinf(x)` becomes `eq(abs(x), inf)`.
    """
    record = SCALAR_FUNCTIONS.get(op)  # conversions have none
    if record is None or record.decompose is None:
        return Do(op, args)
    dtype = dtype_of_tile(args[-1])

    def f(name: str, *arguments: TileExpr | float) -> TileExpr:
        return applied(
            name, tuple(Const(a, dtype) if isinstance(a, (int, float)) else a for a in arguments)
        )

    expr: TileExpr = record.decompose(f, *args)
    return expr
