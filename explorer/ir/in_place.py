"""Whether outputs may lie on inputs: each element is read before it is written over."""

from __future__ import annotations

from explorer.ir.kernel import Kernel, reads
from explorer.ir.kernels.normal import stores


def read_after(kernel: Kernel, output: str, tensor: str) -> str:
    """Why an output must not lie on an input; "" where each element is read before it is written,
    by the task that writes it, and by no other.
    """
    parts = stores(kernel)
    mine = [c for c in parts if c.out == output]
    target, last = mine[0].target, kernel.computes.index(mine[-1])
    for n, c in enumerate(kernel.computes):
        for r in reads(c.expr):
            if r.tensor != tensor:
                continue
            if len(mine) > 1 or c not in parts or c.reduce or n > last:
                return "other elements are read after an element is written"
            if r.index != target or r.fill is not None:
                return "it is read at another index than is written"
    return ""


def wrong_update(kernel: Kernel) -> str:
    """Why what a kernel writes over cannot be; "" where it can. Of an input that is written over in
    part, what is read is taken to be another part.
    """
    for output, tensor in kernel.updates:
        extents = [tuple(a.extent for a in c.axes) for c in stores(kernel) if c.out == output]
        why = read_after(kernel, output, tensor) if extents == [kernel.shape(output)] else ""
        if why:
            return f"{output!r} is written over {tensor!r}: {why}"
    return ""
