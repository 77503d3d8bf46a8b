"""Cuts that repeat no reduction: an axis that a reduction does not follow is not cut.

`m[n, p] = sum[c] x[n, c, p]; y[n, c, p] = x[n, c, p] - m[n, p]` is cut along n and p: each task
that is cut along c would sum all of c again. If the extent of c is a number that has a cost, which
is weighed. If it is a symbol without a bound, no cost is right for all of its values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from explorer.devices.model import Device
from explorer.ir.kernel import Kernel
from explorer.ir.patterns.regions import propagate, tile_variable
from explorer.ir.shapes.dims import ShapeEnv
from explorer.roller.tiles.cuts import Cut, CutShape, cuts, shape_of

MOST_TIMES_PRICED = 4  # tiles of any binding per tile under the hints, for a valid price


def unrepeated(kernel: Kernel, shape: CutShape, device: Device) -> Iterator[Cut]:
    """Yield cuts of only those axes of the output that every reduction follows.

    There are none if all axes are.
    """
    followed = tuple(a for a in shape.names if a not in _repeating(kernel, shape.names))
    if followed and followed != shape.names:
        yield from cuts(kernel, replace(shape, names=followed), device)


def repeated(kernel: Kernel, cut: Cut, env: ShapeEnv) -> str:
    """Return why a cut is refused whatever its cost, or "".

    Under some binding a reduction is repeated in many more tiles than under the hints.
    """
    shape = shape_of(kernel, env.hints)
    loose = {name: size for name, size in cut if _is_loose(shape, name, size, env)}
    repeating = sorted(_repeating(kernel, tuple(loose))) if loose else ()
    if not repeating:
        return ""
    name = repeating[0]
    most = env.at_most(shape.dims[name])
    bound = "no bound" if most is None else f"{most} at most"
    return (
        f"repeats: each of the tiles of {name}, whose extent has {bound}, would repeat the full sum"
    )


def _is_loose(shape: CutShape, name: str, size: int, env: ShapeEnv) -> bool:
    """Return True if an axis can have many more tiles than under the hints."""
    if name not in shape.symbolic:
        return False
    most = env.at_most(shape.dims[name])
    priced = max(1, -(-shape.extents[name] // size))
    return most is None or -(-most // size) > MOST_TIMES_PRICED * priced


def _repeating(kernel: Kernel, names: tuple[str, ...]) -> set[str]:
    """Return the axes whose every tile repeats some full reduction."""
    ranges = propagate(kernel, dict.fromkeys(names, 1))
    repeating: set[str] = set()
    for c, axes in zip(kernel.computes, ranges.axes, strict=True):
        if c.reduce:
            used = {v for r in axes.values() for v in r.lo.variables}
            repeating |= {a for a in names if tile_variable(a) not in used}
    return repeating
