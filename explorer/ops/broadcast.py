"""NumPy's broadcasting, on symbolic shapes."""

from __future__ import annotations

from collections.abc import Iterable

from explorer.ir.dims import Dim, Shape, ShapeEnv
from explorer.ops.record import Site


class Unprovable(Exception):
    """Two extents may or may not agree: the annotation becomes coarser."""


def broadcast(site: Site, shapes: Iterable[Shape]) -> Shape:
    """The shape that all shapes broadcast to; ShapeError names the two extents that cannot."""
    result: Shape = ()
    for shape in shapes:
        if shape == result:
            continue
        longer, shorter = (shape, result) if len(shape) >= len(result) else (result, shape)
        lead = len(longer) - len(shorter)
        pairs = zip(longer[lead:], shorter, strict=True)
        result = (*longer[:lead], *(_together(site, a, b) for a, b in pairs))
    return result


def _together(site: Site, a: Dim, b: Dim) -> Dim:
    if a == b or (isinstance(b, int) and b == 1):
        return a
    if isinstance(a, int) and a == 1:
        return b
    if agree(a, b, site.env):
        return a
    shapes = " and ".join(f"[{', '.join(map(str, site.shape(i)))}]" for i in range(len(site.given)))
    return site.fail(f"extents {a} and {b} do not broadcast; the shapes are {shapes}")


def agree(a: Dim, b: Dim, env: ShapeEnv) -> bool:
    """Whether two extents are equal: False if they differ for every binding, Unprovable otherwise."""
    equal = env.equal(a, b)
    if equal is None:
        raise Unprovable(f"{a} and {b}")
    return equal
