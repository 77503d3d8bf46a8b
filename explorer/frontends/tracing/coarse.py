"""Known dims of a result whose operand extents may or may not agree."""

from __future__ import annotations

from itertools import zip_longest

from explorer.ir.shapes.dims import Dim, Shape, ShapeEnv
from explorer.ops.site import Site

KnownDims = tuple[Dim | None, ...]


def coarse_dims(site: Site, family: str) -> KnownDims | None:
    """Return the result's dims, None for each known only at run time; None for an unknown rank."""
    match site.op:
        case "Reshape":
            target = site.dims("shape") or ()
            return None if -1 in target else target
        case "Expand":
            return _broadcast_dims((site.shape(), site.dims("shape") or ()), site.env)
        case "MatMul" if len(site.shape(0)) > 1 and len(site.shape(1)) > 1:
            a, b = site.shape(0), site.shape(1)
            return (*_broadcast_dims((a[:-2], b[:-2]), site.env), a[-2], b[-1])
        case "BatchNormalization":
            return site.shape()  # the other arguments only match its channels
        case _ if family == "elementwise":
            return _broadcast_dims([site.shape(i) for i in range(len(site.present_args))], site.env)
    return None


def _broadcast_dims(shapes: tuple[Shape, ...] | list[Shape], env: ShapeEnv) -> KnownDims:
    """Return broadcast dims: an extent that is proved not to be 1 is the result's."""
    columns = zip_longest(*(tuple(reversed(s)) for s in shapes), fillvalue=1)
    return tuple(reversed([_common_extent(set(column), env) for column in columns]))


def _common_extent(extents: set[Dim], env: ShapeEnv) -> Dim | None:
    others = extents - {1}
    if len(others) < 2:
        return next(iter(others), 1)
    proved = [n for n in others if env.bounds(n)[0] > 1]
    return min(proved, key=str) if proved else None
