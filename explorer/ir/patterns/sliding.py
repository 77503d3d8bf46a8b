"""Sums, and other reductions, over windows that slide."""

from __future__ import annotations

from explorer.ir.affine import Affine
from explorer.ir.kernel import Compute, Kernel, Read, reads


def slides(c: Compute, data: Read) -> bool:
    """Whether a window of the data is summed at each place."""
    summed = {a.name for a in c.reduce}
    return any(
        i.variables & summed and i.variables - summed for i in data.index if isinstance(i, Affine)
    )


def has_window(kernel: Kernel) -> bool:
    """Whether some compute of a kernel sums, or reduces otherwise, over a sliding window."""
    return any(c.reduce and any(slides(c, r) for r in reads(c.expr)) for c in kernel.computes)
