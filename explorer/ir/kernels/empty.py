"""Removal of computes without elements, and of empty reductions, once extents are numbers."""

from __future__ import annotations

from dataclasses import replace

from explorer.ir.combiners import COMBINERS
from explorer.ir.kernel import Compute, Const, Expr, Kernel, Read, reads, rewrite


def without_empty(kernel: Kernel) -> Kernel:
    """Remove computes and outputs without elements, and computes that only these needed.

    Before and after:

        y[i] = sum[k < 0] x[i, k]          ->  y[i] = 0
        y[i] = x[i] or 1 past its border   ->  y[i] = 1   where x has no elements
    """
    if not any(_is_empty(c, kernel) for c in kernel.computes):
        return kernel
    computes = tuple(
        _without_empty_reads(c, kernel)
        for c in kernel.computes
        if all(a.extent != 0 for a in c.axes)
    )
    outputs = tuple(t for t in kernel.outputs if all(n != 0 for n in kernel.shape(t)))
    computes = _live_computes(computes, outputs)
    updates = tuple((out, taken) for out, taken in kernel.updates if out in outputs)
    named = {*kernel.inputs, *outputs, *(c.out for c in computes)}
    tensors = tuple(t for t in kernel.tensors if t.name in named)
    return replace(kernel, tensors=tensors, computes=computes, outputs=outputs, updates=updates)


def _live_computes(computes: tuple[Compute, ...], outputs: tuple[str, ...]) -> tuple[Compute, ...]:
    """Return the computes that the outputs depend on."""
    live: list[Compute] = []
    named = set(outputs)
    for c in reversed(computes):
        if c.out in named:
            named |= {r.tensor for r in reads(c.expr)}
            live.append(c)
    return tuple(reversed(live))


def _is_empty(c: Compute, kernel: Kernel) -> bool:
    return any(a.extent == 0 for a in (*c.axes, *c.reduce)) or _without_empty_reads(c, kernel) != c


def _without_empty_reads(c: Compute, kernel: Kernel) -> Compute:
    """Return a compute with empty reductions and loads of empty tensors replaced by constants."""

    def leaf(read: Read) -> Expr:
        nothing = read.fill is not None and any(n == 0 for n in kernel.shape(read.tensor))
        return Const(read.fill, kernel.dtype(read.tensor)) if nothing else read

    if any(a.extent == 0 for a in c.reduce):
        dtype = kernel.dtype(c.out)
        first = COMBINERS[c.combiner or "sum"].identity(dtype)
        return replace(c, expr=Const(first, dtype), reduce=(), combiner=None)
    return replace(c, expr=rewrite(c.expr, leaf))
