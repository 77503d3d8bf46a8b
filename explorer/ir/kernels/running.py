"""Reductions over moving ranges, found by structure: running ones and sliding windows.

Running: each result reduces the elements up to its own index.

y[i] = sum[r < n] x[i - r], nothing before the first   (CumSum; i + r: from the end)
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.ir.affine import Affine, var
from explorer.ir.combiners import COMBINERS
from explorer.ir.dims import simplify
from explorer.ir.kernel import Axis, Compute, Kernel, Read, reads


@dataclass(frozen=True, slots=True)
class Running:
    """`out[.., i, ..] = combiner over all x[.., j, ..] with j <= i`.

    `exclusive`: j < i. `backwards`: from the end. `element` is the element that is reduced at index
    i.
    """

    axis: Axis
    element: Read
    exclusive: bool
    backwards: bool


def running(kernel: Kernel, c: Compute) -> Running | None:
    """Return the compute as a running reduction, or None.

    Its only load must move against one axis as it is reduced, and nothing may follow the last
    element: a window that runs into more elements is no match.
    """
    if len(c.reduce) != 1 or not isinstance(c.expr, Read) or c.expr.fill is None:
        return None
    if c.expr.fill != COMBINERS[c.combiner or "sum"].identity(kernel.dtype(c.out)):
        return None
    (step,) = c.reduce
    moving = [d for d, i in enumerate(c.expr.index) if _moves(i, step.name)]
    if len(moving) != 1:
        return None
    index = c.expr.index[moving[0]]
    assert isinstance(index, Affine)
    back = index.factor(step.name)
    name = index.without({step.name}) - index.const
    axis = next((a for a in c.axes if name == var(a.name)), None)
    if axis is None or back not in (1, -1) or simplify(axis.extent - step.extent) != 0:
        return None
    if simplify(kernel.shape(c.expr.tensor)[moving[0]] - axis.extent) != 0:
        return None
    if index.const not in (0, back) or sum(_moves(i, axis.name) for i in c.expr.index) != 1:
        return None
    place = (var(axis.name) if d == moving[0] else i for d, i in enumerate(c.expr.index))
    return Running(axis, Read(c.expr.tensor, tuple(place)), index.const != 0, back == 1)


def _moves(index: object, name: str) -> bool:
    return not isinstance(index, Affine) or index.factor(name) != 0


def slides(c: Compute, data: Read) -> bool:
    """Return True if the data is reduced over a window that moves with an output axis."""
    summed = {a.name for a in c.reduce}
    return any(
        i.variables & summed and i.variables - summed for i in data.index if isinstance(i, Affine)
    )


def has_window(kernel: Kernel) -> bool:
    """Return True if some compute of a kernel reduces over a sliding window."""
    return any(c.reduce and any(slides(c, r) for r in reads(c.expr)) for c in kernel.computes)
