"""Cuts that repeat no sum: an axis that a reduction does not follow is left whole.

`m[n, p] = sum[c] x[n, c, p]; y[n, c, p] = x[n, c, p] - m[n, p]` is cut along n and p: each task
that is cut along c would sum all of c again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from explorer.devices.model import Device
from explorer.ir.kernel import Kernel
from explorer.ir.patterns.regions import propagate, tile_variable
from explorer.roller.tiles.cuts import Cut, Shape, cuts


def unrepeated(kernel: Kernel, shape: Shape, device: Device) -> Iterator[Cut]:
    """Ways to cut only those axes of the output that every reduction follows; none where that is
    all of them.
    """
    followed = tuple(a for a in shape.names if a not in _repeating(kernel, shape))
    if followed and followed != shape.names:
        yield from cuts(kernel, replace(shape, names=followed), device)


def _repeating(kernel: Kernel, shape: Shape) -> set[str]:
    """The axes that some reduction is done for as a whole, whatever part of them a tile has."""
    ranges = propagate(kernel, dict.fromkeys(shape.names, 1))
    found: set[str] = set()
    for c, axes in zip(kernel.computes, ranges.axes, strict=True):
        if c.reduce:
            used = {v for r in axes.values() for v in r.lo.variables}
            found |= {a for a in shape.names if tile_variable(a) not in used}
    return found
