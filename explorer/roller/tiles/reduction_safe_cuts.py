"""Cuts that repeat no sum: an axis that a reduction does not follow is left whole.

`m[n, p] = sum[c] x[n, c, p]; y[n, c, p] = x[n, c, p] - m[n, p]` is cut along n and p: each task
that is cut along c would sum all of c again. Where the extent of c is a number that has a price,
which is weighed; where it is a symbol without a bound, no price is right for all of its values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from explorer.devices.model import Device
from explorer.ir.kernel import Kernel
from explorer.ir.patterns.regions import propagate, tile_variable
from explorer.ir.shapes.dims import ShapeEnv
from explorer.roller.tiles.cuts import Cut, Shape, cuts, shape_of

MOST_TIMES_PRICED = 4  # tiles of some binding, for each under the hints, by which all are priced


def unrepeated(kernel: Kernel, shape: Shape, device: Device) -> Iterator[Cut]:
    """Ways to cut only those axes of the output that every reduction follows; none where that is
    all of them.
    """
    followed = tuple(a for a in shape.names if a not in _repeating(kernel, shape.names))
    if followed and followed != shape.names:
        yield from cuts(kernel, replace(shape, names=followed), device)


def repeated(kernel: Kernel, cut: Cut, env: ShapeEnv) -> str:
    """Why a cut is not taken whatever its price: under some binding a sum is done again in many
    more tiles than under the hints; "" where none is.
    """
    shape = shape_of(kernel, env.hints)
    loose = {name: size for name, size in cut if _is_loose(shape, name, size, env)}
    again = sorted(_repeating(kernel, tuple(loose))) if loose else ()
    if not again:
        return ""
    name = again[0]
    most = env.at_most(shape.dims[name])
    bound = "no bound" if most is None else f"{most} at most"
    return f"repeats: each of the tiles of {name}, whose extent has {bound}, would sum all again"


def _is_loose(shape: Shape, name: str, size: int, env: ShapeEnv) -> bool:
    """Whether an axis can have many more tiles than under the hints."""
    if name not in shape.symbolic:
        return False
    most = env.at_most(shape.dims[name])
    priced = max(1, -(-shape.extents[name] // size))
    return most is None or -(-most // size) > MOST_TIMES_PRICED * priced


def _repeating(kernel: Kernel, names: tuple[str, ...]) -> set[str]:
    """The axes that some reduction is done for as a whole, whatever part of them a tile has."""
    ranges = propagate(kernel, dict.fromkeys(names, 1))
    found: set[str] = set()
    for c, axes in zip(kernel.computes, ranges.axes, strict=True):
        if c.reduce:
            used = {v for r in axes.values() for v in r.lo.variables}
            found |= {a for a in names if tile_variable(a) not in used}
    return found
