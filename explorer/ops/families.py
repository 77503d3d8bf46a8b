"""Which family a kernel belongs to, by what it does: the colours of every picture."""

from __future__ import annotations

from explorer.ir.kernel import Affine, Apply, Compute, Kernel, Read, reads

FAMILIES = (
    "conv",
    "matmul",
    "elementwise",
    "reduction",
    "layout",
    "control flow",
    "library call",
)


def kernel_family(kernel: Kernel) -> str:
    """One of `FAMILIES`."""
    found = {_compute(c) for c in kernel.computes}
    return next(f for f in (*FAMILIES[:2], "reduction", "elementwise", "layout") if f in found)


def _compute(c: Compute) -> str:
    """A sum of products is a conv where an index adds a summed variable to another."""
    if c.combiner is not None:
        product = isinstance(c.expr, Apply) and c.expr.op == "mul" and c.combiner == "sum"
        if not product or len({r.tensor for r in reads(c.expr)}) < 2:
            return "reduction"
        return "conv" if any(_slides(r, c) for r in reads(c.expr)) else "matmul"
    return "layout" if isinstance(c.expr, Read) or not list(reads(c.expr)) else "elementwise"


def _slides(read: Read, c: Compute) -> bool:
    summed = {a.name for a in c.reduce}
    return any(
        isinstance(i, Affine) and i.variables & summed and i.variables - summed for i in read.index
    )
