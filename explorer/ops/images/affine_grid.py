"""AffineGrid: an affine map of the elements of an image, -1 .. 1 along each dim.

y[n, h, w, c] = theta[n, c, 0] * x(w) + theta[n, c, 1] * y(h) + theta[n, c, 2]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from explorer.ir.affine import Affine, var
from explorer.ir.kernel import Axis, Const, Expr, IndexValue, Read
from explorer.ir.shapes.dims import Dim, simplify
from explorer.ir.types import DType, Tensor
from explorer.ops.arithmetic.broadcast import agree
from explorer.ops.arithmetic.elementwise import call
from explorer.ops.lowering import Lowering
from explorer.ops.record import HostNumber, OperatorRecord, RunTime
from explorer.ops.run_time.site import Host, length
from explorer.ops.site import Site


def _types(site: Site) -> tuple[Tensor, ...]:
    theta, size = site.shape(), site.dims("size")
    if size is None:
        site.unsupported("a size that only a run knows has no kernel rule")
    rank = len(size) - 2
    if rank < 1 or len(theta) != 3:
        site.fail(f"maps of shape {theta} do not fit a size of {len(size)} dims")
    if not all(agree(a, b, site.env) for a, b in zip(theta, (size[0], rank, rank + 1))):
        site.fail(f"maps have the shape {theta}, and {(size[0], rank, rank + 1)} is needed")
    return (Tensor((size[0], *size[2:], rank), site.dtype()),)


def _coordinate(axis: Axis, corners: int, dtype: DType) -> Expr:
    """Return an element's coordinate: -1 and 1 are the outer elements' centres, or their edges."""
    n, number = axis.extent, call(f"cast_{dtype}", IndexValue(var(axis.name)))
    if corners:
        steps: Dim = simplify(n - 1)
        share = call("div", call("mul", number, 2.0, dtype=dtype), Const(steps, dtype))
        coordinate = call("sub", share, 1.0, dtype=dtype)
        alone = call("le", Const(n, dtype), Const(1, dtype))
        return call("where", alone, Const(0, dtype), coordinate)
    twice = call("add", call("mul", number, 2.0, dtype=dtype), 1.0, dtype=dtype)
    return call("sub", call("div", twice, Const(n, dtype)), 1.0, dtype=dtype)


def _lower(low: Lowering) -> None:
    site, nest = low.site, low.nest("affine_grid")
    *spatial, rank = low.shape[1:]
    assert isinstance(rank, int)
    axes = [Axis(f"i{d}", n) for d, n in enumerate(spatial)]
    corners, theta = site.integer("align_corners"), nest.tensor(site.arg(0), "theta")
    element = [Read(theta, (var("n"), var("c"), Affine((), k))) for k in range(rank + 1)]
    y: Expr = element[rank]
    for k, axis in enumerate(reversed(axes)):
        y = call("add", y, call("mul", element[k], _coordinate(axis, corners, site.dtype())))
    result_axes = [Axis("n", low.shape[0]), *axes, Axis("c", rank)]
    nest.compute("y", low.shape, site.dtype(), result_axes, y)
    nest.into(low.result)


def _reference(attrs: Mapping[str, Any], args: Any) -> Any:
    theta = args[0]
    spatial = attrs["size"][2:]
    places = []
    for n in spatial:
        row = np.arange(n, dtype=np.float64)
        if attrs.get("align_corners", 0):
            places.append(2 * row / (n - 1) - 1 if n > 1 else np.zeros(n))
        else:
            places.append((2 * row + 1) / n - 1 if n else row)
    grids = np.meshgrid(*places, indexing="ij")
    base = np.stack([*reversed(grids), np.ones(spatial)], -1).astype(theta.dtype)
    return np.moveaxis(np.tensordot(theta, base, (2, base.ndim - 1)), 1, -1)


def _names(site: Site) -> tuple[HostNumber, ...]:
    count = length(site, 1)
    if not isinstance(count, int):
        return site.unsupported("a size of unknown rank")
    return tuple(HostNumber(f"size{d}") for d in range(1, count))


def _values(attrs: Mapping[str, Any], args: Sequence[Any]) -> Mapping[str, int]:
    host = Host("AffineGrid", attrs, args)
    theta, size = host.required(0), host.required(1)
    if theta[0] != size[0]:
        host.fail(f"there are {theta[0]} maps, and {size[0]} grids are to be made")
    return {f"size{d}": n for d, n in enumerate(size) if d}


def _symbolic(site: Site, symbols: Mapping[str, Dim]) -> Site:
    spatial = (symbols[f"size{d}"] for d in range(1, int(length(site, 1))))
    size = (site.shape()[0], *spatial)
    attrs = {**site.attrs, "size": size}
    return Site(site.op, site.where, site.args[:1], attrs, site.env, (), site.results)


RECORDS = (
    OperatorRecord(
        "AffineGrid",
        "layout",
        _types,
        _reference,
        _lower,
        None,
        {1: "size"},
        first=20,
        run_time=RunTime(frozenset({1}), _names, _values, _symbolic),
    ),
)
