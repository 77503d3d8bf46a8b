"""Which epilogue a contraction does while its sums are in registers or in the nearest cache."""

from __future__ import annotations

from explorer.ir.by_identity import by_identity
from explorer.ir.kernel import Apply, Compute, Expr, Kernel
from explorer.ir.kernels.normal import epilogue_of
from explorer.ir.scalar_functions import cycles_of

MOST_CYCLES = 4.0  # a square root's; measured on a Zen 3: those of 8 and more are faster apart


def tile_epilogue(kernel: Kernel, c: Compute) -> Compute | None:
    """The element-wise compute that each register tile of a contraction does when it has its sums;
    None where elementary functions are in it.

    A function takes some ten registers of coefficients, and two vectors a row are too few to hide
    what its steps wait for: over whole rows of a task, all sums being done, GELU's derivative takes
    40 cycles a vector instead of 70.
    """
    found = epilogue_of(kernel, c)
    return None if found is None or _has_functions(found) else found


@by_identity
def _has_functions(c: Compute) -> bool:
    return _is_dear(c.expr)


def _is_dear(e: Expr) -> bool:
    return isinstance(e, Apply) and (cycles_of(e.op) > MOST_CYCLES or any(map(_is_dear, e.args)))
