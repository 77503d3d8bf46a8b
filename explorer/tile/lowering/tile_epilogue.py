"""The epilogue that a contraction computes while its sums are in registers or the nearest cache."""

from __future__ import annotations

from explorer.ir.kernel import Apply, Compute, Expr, Kernel
from explorer.ir.kernels.normal import epilogue_of
from explorer.ir.scalar_functions import cycles_of

MOST_CYCLES = 4.0  # of a square root; on a Zen 3 functions of 8 and more were faster as an own pass


def tile_epilogue(kernel: Kernel, c: Compute) -> Compute | None:
    """Return the element-wise compute that each register tile of a contraction does, or None.

    None if it has elementary functions. They are computed over whole rows of a task, when all sums
    are there. GELU's derivative took 387 us alone and 680 us in the register tiles of a product,
    for 512 x 512 on a Zen 3; two vectors a row are few to hide the latency of a function's steps.
    """
    epilogue = epilogue_of(kernel, c)
    return None if epilogue is None or _is_expensive(epilogue.expr) else epilogue


def _is_expensive(e: Expr) -> bool:
    return isinstance(e, Apply) and (
        cycles_of(e.op) > MOST_CYCLES or any(map(_is_expensive, e.args))
    )
