"""What is known of a result's dims where its extents may or may not agree."""

from __future__ import annotations

from itertools import zip_longest

from explorer.ir.shapes.dims import Dim, Shape, ShapeEnv
from explorer.ops.site import Site

Known = tuple[Dim | None, ...]


def coarse_dims(site: Site, family: str) -> Known | None:
    """The dims of the result, None for each that only a run knows; None if there is no saying."""
    match site.op:
        case "Reshape":
            wanted = site.dims("shape") or ()
            return None if -1 in wanted else wanted
        case "Expand":
            return _together((site.shape(), site.dims("shape") or ()), site.env)
        case "MatMul" if len(site.shape(0)) > 1 and len(site.shape(1)) > 1:
            a, b = site.shape(0), site.shape(1)
            return (*_together((a[:-2], b[:-2]), site.env), a[-2], b[-1])
        case "BatchNormalization":
            return site.shape()  # the others have its channels alone
        case _ if family == "elementwise":
            return _together([site.shape(i) for i in range(len(site.given))], site.env)
    return None


def _together(shapes: tuple[Shape, ...] | list[Shape], env: ShapeEnv) -> Known:
    """Broadcast dims: an extent that is known not to be 1 is the result's."""
    columns = zip_longest(*(tuple(reversed(s)) for s in shapes), fillvalue=1)
    return tuple(reversed([_one_of(set(column), env) for column in columns]))


def _one_of(extents: set[Dim], env: ShapeEnv) -> Dim | None:
    rest = extents - {1}
    if len(rest) < 2:
        return next(iter(rest), 1)
    sure = [n for n in rest if env.bounds(n)[0] > 1]
    return min(sure, key=str) if sure else None
