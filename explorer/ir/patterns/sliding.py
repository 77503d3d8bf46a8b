"""Reductions over sliding windows."""

from __future__ import annotations

from explorer.ir.affine import Affine
from explorer.ir.kernel import Compute, Kernel, Read, reads


def slides(c: Compute, data: Read) -> bool:
    """Return True if the data is reduced over a window that moves with an output axis."""
    summed = {a.name for a in c.reduce}
    return any(
        i.variables & summed and i.variables - summed for i in data.index if isinstance(i, Affine)
    )


def has_window(kernel: Kernel) -> bool:
    """Return True if some compute of a kernel reduces over a sliding window."""
    return any(c.reduce and any(slides(c, r) for r in reads(c.expr)) for c in kernel.computes)
