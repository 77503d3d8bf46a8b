"""Computes without elements, and sums of nothing, once extents are numbers."""

from __future__ import annotations

from dataclasses import replace

from explorer.ir.combiners import COMBINERS
from explorer.ir.kernel import Compute, Const, Expr, Kernel, Read, reads, rewrite


def without_empty(kernel: Kernel) -> Kernel:
    """The kernel without computes that make nothing, outputs that have no elements, and what was
    made for these alone.

    y[i] = sum[k < 0] x[i, k]          ->  y[i] = 0
    y[i] = x[i] or 1 past its border   ->  y[i] = 1   where x has no elements
    """
    if not any(_is_empty(c, kernel) for c in kernel.computes):
        return kernel
    computes = tuple(
        _full(c, kernel) for c in kernel.computes if all(a.extent != 0 for a in c.axes)
    )
    outputs = tuple(t for t in kernel.outputs if all(n != 0 for n in kernel.shape(t)))
    computes = _needed(computes, outputs)
    updates = tuple((out, taken) for out, taken in kernel.updates if out in outputs)
    named = {*kernel.inputs, *outputs, *(c.out for c in computes)}
    tensors = tuple(t for t in kernel.tensors if t.name in named)
    return replace(kernel, tensors=tensors, computes=computes, outputs=outputs, updates=updates)


def _needed(computes: tuple[Compute, ...], outputs: tuple[str, ...]) -> tuple[Compute, ...]:
    """The computes that outputs are made of."""
    found: list[Compute] = []
    named = set(outputs)
    for c in reversed(computes):
        if c.out in named:
            named |= {r.tensor for r in reads(c.expr)}
            found.append(c)
    return tuple(reversed(found))


def _is_empty(c: Compute, kernel: Kernel) -> bool:
    return any(a.extent == 0 for a in (*c.axes, *c.reduce)) or _full(c, kernel) != c


def _full(c: Compute, kernel: Kernel) -> Compute:
    """A compute with elements, none of which is read from nothing."""

    def leaf(read: Read) -> Expr:
        nothing = read.fill is not None and any(n == 0 for n in kernel.shape(read.tensor))
        return Const(read.fill, kernel.dtype(read.tensor)) if nothing else read

    if any(a.extent == 0 for a in c.reduce):
        dtype = kernel.dtype(c.out)
        first = COMBINERS[c.combiner or "sum"].identity(dtype)
        return replace(c, expr=Const(first, dtype), reduce=(), combiner=None)
    return replace(c, expr=rewrite(c.expr, leaf))
