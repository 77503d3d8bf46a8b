"""AffineGrid, and GridSample: an image is read at the positions of a grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import product as every
from typing import Any

import numpy as np

from explorer.ir.affine import Affine, var
from explorer.ir.dims import Dim, simplify
from explorer.ir.kernel import Axis, Const, Expr, IndexValue, Read
from explorer.ir.types import DType, Tensor
from explorer.ops.elementwise import call
from explorer.ops.images.sampling import inside, mixed
from explorer.ops.lowering import Lowering
from explorer.ops.record import HostNumber, OperatorRecord, RunTime, Site
from explorer.ops.run_time import Host, length
from explorer.ops.shape_rules import agree

CUBIC = -0.75


def _grid_types(site: Site) -> tuple[Tensor, ...]:
    x, grid = site.shape(0), site.shape(1)
    if len(x) < 3 or len(grid) != len(x) or not agree(grid[-1], len(x) - 2, site.env):
        site.fail(f"an input of rank {len(x)} and a grid of shape {grid} do not fit")
    if not agree(x[0], grid[0], site.env):
        site.fail(f"{x[0]} images and {grid[0]} grids do not fit")
    return (Tensor((*x[:2], *grid[1:-1]), site.dtype()),)


class _Grid:
    """Positions in an image from a grid, and the padding outside of the image."""

    def __init__(self, low: Lowering) -> None:
        """Read the attributes and add the image to a new kernel."""
        self.low, self.site, self.nest = low, low.site, low.nest("grid_sample")
        site = low.site
        self.spatial, self.dtype = site.shape(0)[2:], site.dtype()
        self.mode = {"bilinear": "linear", "bicubic": "cubic"}.get(
            site.text("mode", "linear"), site.text("mode", "linear")
        )
        self.padding, self.corners = (
            site.text("padding_mode", "zeros"),
            site.integer("align_corners"),
        )
        if not self.dtype.startswith("float") or self.mode not in ("linear", "nearest", "cubic"):
            site.unsupported(f"mode {self.mode!r} of {self.dtype} has no kernel rule")
        self.axes = [
            Axis("n", low.shape[0]),
            Axis("c", low.shape[1]),
            *(Axis(f"o{d}", n) for d, n in enumerate(low.shape[2:])),
        ]
        self.x = self.nest.tensor(site.arg(0), "x")

    def number(self, value: Dim | float) -> Const:
        return Const(value, self.dtype)

    def places(self) -> list[Expr]:
        """Compute where each result reads along each dim, as a tensor of the kernel."""
        at = [self.axes[0], *self.axes[2:]]
        shape = tuple(a.extent for a in at)
        positions: list[Expr] = []
        index = tuple(var(a.name) for a in at)
        for d, n in enumerate(self.spatial):
            grid = self.nest.load(
                self.site.arg(1), "grid", (*index, Affine((), len(self.spatial) - 1 - d))
            )
            if self.site.dtype(1) != self.dtype:
                grid = call(f"cast_{self.dtype}", grid)
            place = self.place(grid, n)
            if self.mode != "cubic":  # its elements are moved into the image one by one
                place = self.outside(place, n)
            self.nest.compute(f"at{d}", shape, self.dtype, at, place)
            positions.append(Read(f"at{d}", index))
        return positions

    def place(self, grid: Expr, n: Dim) -> Expr:
        """Return the position of a grid coordinate.

        -1 .. 1 spans the dim: to its outer elements' centres, or to their edges.
        """
        up = call("add", grid, self.number(1))
        if self.corners:
            position = call("mul", call("mul", up, self.number(0.5)), self.number(simplify(n - 1)))
        else:
            wide = call("sub", call("mul", up, self.number(n)), self.number(1))
            position = call("mul", wide, self.number(0.5))
        return call("round", position) if self.mode == "nearest" else position

    def outside(self, place: Expr, n: Dim) -> Expr:
        """Move a position into the image, by the padding mode."""
        if self.padding == "border":
            last = self.number(simplify(n - 1))
            return call("min", call("max", place, self.number(0)), last)
        return self.reflected(place, n) if self.padding == "reflection" else place

    def reflected(self, place: Expr, n: Dim) -> Expr:
        if self.corners and n == 1:
            return self.number(0)
        first = self.number(0 if self.corners else -0.5)
        width = self.number(simplify(n - 1) if self.corners else n)
        twice = call("mul", width, self.number(2))
        offset = call("mod", call("sub", place, first), twice)
        back = call("where", call("le", offset, width), offset, call("sub", twice, offset))
        back = call("add", back, first)
        if not self.corners or isinstance(n, int):
            return back
        alone = call("le", self.number(n), self.number(1))
        return call("where", alone, self.number(0), back)

    def pixel(self, at: Sequence[Expr]) -> Expr:
        """Load the element at an integral position; 0 outside if the padding is zeros."""
        if self.padding == "reflection" or self.mode == "cubic":
            at = [self.outside(p, n) for p, n in zip(at, self.spatial, strict=True)]
        index = tuple(call("cast_int64", p) for p in at)
        element = Read(self.x, (var("n"), var("c"), *index))
        if self.padding != "zeros":
            return element  # the element past the last one has weight 0 in "linear"
        return call("where", inside(at, self.spatial, self.dtype), element, self.number(0))

    def taps(self, place: Expr) -> list[tuple[Expr, Expr]]:
        """Return the elements around a position along one dim, with their weights."""
        low = call("floor", place)
        share = call("sub", place, low)
        if self.mode == "linear":
            complement = call("sub", self.number(1), share)
            return [(low, complement), (call("add", low, self.number(1)), share)]
        weights = cubic_weights(share, CUBIC, self.dtype)
        return [(call("add", low, self.number(i - 1)), w) for i, w in enumerate(weights)]


def cubic_weights(share: Expr, a: float, dtype: DType) -> list[Expr]:
    """Return the weights of the four elements around a position (Keys 1981).

    `share` is the distance from the second element.
    """

    def f(op: str, x: Expr, y: Expr | float) -> Expr:
        return call(op, x, y, dtype=dtype)

    def near(x: Expr) -> Expr:
        inner = f("sub", f("mul", x, a + 2), a + 3)
        return f("add", f("mul", f("mul", inner, x), x), 1.0)

    def far(x: Expr) -> Expr:
        inner = f("add", f("mul", f("sub", f("mul", x, a), 5 * a), x), 8 * a)
        return f("sub", f("mul", inner, x), 4 * a)

    complement = call("sub", Const(1.0, dtype), share)
    return [
        far(f("add", share, 1.0)),
        near(share),
        near(complement),
        far(f("add", complement, 1.0)),
    ]


def _lower_grid(low: Lowering) -> None:
    grid = _Grid(low)
    places = grid.places()
    if grid.mode == "nearest":
        y = grid.pixel(places)
    else:
        y = mixed([grid.taps(p) for p in places], grid.pixel)
    grid.nest.compute("y", low.shape, grid.dtype, grid.axes, y)
    grid.nest.into(low.result)


def _grid_reference(attrs: Mapping[str, Any], args: Any) -> Any:
    x, grid = args
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(attrs.get("mode", "linear"))
    mode = mode or attrs.get("mode", "linear")
    padding, corners = attrs.get("padding_mode", "zeros"), attrs.get("align_corners", 0)
    taps = []
    for d, n in enumerate(x.shape[2:]):
        up = grid[..., grid.shape[-1] - 1 - d].astype(x.dtype) + 1
        place = up * (n - 1) / 2 if corners else (up * n - 1) / 2
        place = np.rint(place) if mode == "nearest" else place
        if padding == "reflection" and mode != "cubic":
            place = _reflected(place, n, corners)
        low = np.floor(place)
        share = (place - low).astype(x.dtype)
        around = {"nearest": [(0, 1)], "linear": [(0, 1 - share), (1, share)]}.get(mode)
        if around is None:
            around = [(i - 1, w) for i, w in enumerate(_cubic(share))]
        taps.append([(low + shift, weight) for shift, weight in around])
    y = np.zeros((*x.shape[:2], *grid.shape[1:-1]), x.dtype)
    rows = np.arange(len(x)).reshape(-1, *(1,) * (grid.ndim - 2))
    for corner in every(*taps):
        places, hit = [], True
        for (place, _), n in zip(corner, x.shape[2:], strict=True):
            at = _reflected(place, n, corners) if padding == "reflection" else place
            hit = hit & (at >= 0) & (at < n)
            places.append(np.clip(at, 0, n - 1).astype(np.int64))
        weight: Any = reduce(np.multiply, [w for _, w in corner])
        weight = weight * (hit if padding == "zeros" else 1)
        element = np.moveaxis(x, 1, -1)[(rows, *places)]
        weight = np.broadcast_to(weight, grid.shape[:-1]).astype(x.dtype)
        y += np.moveaxis(element, -1, 1) * np.expand_dims(weight, 1)
    return y


def _reflected(place: Any, n: int, corners: int) -> Any:
    first, width = (0.0, n - 1.0) if corners else (-0.5, float(n))
    if width == 0:
        return np.zeros_like(place)
    offset = np.mod(place - first, 2 * width)
    return np.where(offset <= width, offset, 2 * width - offset) + first


def _cubic(share: Any, a: float = CUBIC) -> list[Any]:
    near = [((a + 2) * s - (a + 3)) * s * s + 1 for s in (share, 1 - share)]
    far = [((a * s - 5 * a) * s + 8 * a) * s - 4 * a for s in (share + 1, 2 - share)]
    return [far[0], near[0], near[1], far[1]]


# AffineGrid: an affine map of the elements of an image, -1 .. 1 along each dim.
# y[n, h, w, c] = theta[n, c, 0] * x(w) + theta[n, c, 1] * y(h) + theta[n, c, 2]


def _affine_types(site: Site) -> tuple[Tensor, ...]:
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


def _lower_affine(low: Lowering) -> None:
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


def _affine_reference(attrs: Mapping[str, Any], args: Any) -> Any:
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


def _affine_names(site: Site) -> tuple[HostNumber, ...]:
    count = length(site, 1)
    if not isinstance(count, int):
        return site.unsupported("a size of unknown rank")
    return tuple(HostNumber(f"size{d}") for d in range(1, count))


def _affine_values(attrs: Mapping[str, Any], args: Sequence[Any]) -> Mapping[str, int]:
    host = Host("AffineGrid", attrs, args)
    theta, size = host.required(0), host.required(1)
    if theta[0] != size[0]:
        host.fail(f"there are {theta[0]} maps, and {size[0]} grids are to be made")
    return {f"size{d}": n for d, n in enumerate(size) if d}


def _with_size(site: Site, symbols: Mapping[str, Dim]) -> Site:
    spatial = (symbols[f"size{d}"] for d in range(1, int(length(site, 1))))
    size = (site.shape()[0], *spatial)
    attrs = {**site.attrs, "size": size}
    return Site(site.op, site.where, site.args[:1], attrs, site.env, (), site.results)


RECORDS = (
    OperatorRecord("GridSample", "layout", _grid_types, _grid_reference, _lower_grid, first=16),
    OperatorRecord(
        "AffineGrid",
        "layout",
        _affine_types,
        _affine_reference,
        _lower_affine,
        None,
        {1: "size"},
        first=20,
        run_time=RunTime(frozenset({1}), _affine_names, _affine_values, _with_size),
    ),
)
