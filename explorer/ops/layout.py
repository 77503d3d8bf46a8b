"""Operators that move or repeat elements: affine copies, or views if nothing moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from explorer.ir.affine import var
from explorer.ir.dims import Dim, floor_div, product
from explorer.ir.kernel import Axis, Expr, Read
from explorer.ir.types import Tensor
from explorer.ops.lowering import Lowering, entry, letters
from explorer.ops.record import Array, OperatorRecord, RunTime, Site
from explorer.ops.reshaping import refold, view
from explorer.ops.run_time import Host, broadcast_rule, dim_names, dim_symbols, dim_values, symbolic
from explorer.ops.shape_rules import broadcast

# Transpose.


def _permutation(site: Site) -> tuple[int, ...]:
    rank = len(site.shape())
    order = site.integers("perm", range(rank)[::-1]) or ()
    if sorted(order) != list(range(rank)):
        site.fail(f"perm {order} is not a permutation of {rank} dims")
    return order


def _transpose_types(site: Site) -> tuple[Tensor, ...]:
    return (Tensor(tuple(site.shape()[d] for d in _permutation(site)), site.dtype()),)


def _lower_transpose(low: Lowering) -> None:
    order, shape = _permutation(low.site), low.site.shape()
    moved = [d for d in order if shape[d] != 1]
    if moved == sorted(moved):
        view(low)
        return
    nest = low.nest("transpose")

    def body(axes: tuple[Axis, ...]) -> Expr:
        index = [entry(axes[order.index(d)], n) for d, n in enumerate(shape)]
        return Read(nest.tensor(low.site.arg(0), "x"), tuple(index))

    nest.map("y", low.result, body)


# Expand and Tile.


def _expand_types(site: Site) -> tuple[Tensor, ...]:
    return (Tensor(broadcast(site, [site.shape(), site.dims("shape") or ()]), site.dtype()),)


def _lower_expand(low: Lowering) -> None:
    if low.site.shape() == low.shape or product(low.site.shape()) == product(low.shape):
        view(low)
        return
    nest, x = low.nest("expand"), low.site.arg(0)
    nest.map("y", low.result, lambda axes: nest.along(x, "x", axes))


def _expand(attrs: Mapping[str, Any], args: Any) -> Any:
    x = args[0]
    if "extents" in attrs:
        return np.broadcast_to(x, tuple(attrs["extents"]))
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(attrs["shape"])))


def _tile_types(site: Site) -> tuple[Tensor, ...]:
    shape, repeats = site.shape(), site.dims("repeats") or ()
    if len(repeats) != len(shape):
        site.fail(f"{len(repeats)} repeats for {len(shape)} dims")
    return (Tensor(tuple(product(p) for p in zip(shape, repeats, strict=True)), site.dtype()),)


def _lower_tile(low: Lowering) -> None:
    """Store each element at all its copies: y[r * n + i] = x[i]."""
    shape, repeats = low.site.shape(), low.site.dims("repeats") or ()
    nest, axes, store = low.nest("tile"), [], []
    for inner, n, r in zip(letters(shape), shape, repeats, strict=True):
        outer = Axis(f"{inner.name}r", r)
        axes += [a for a in (outer, inner) if a.extent != 1]
        store.append(entry(outer, r) * n + entry(inner, n))
    read = Read(
        nest.tensor(low.site.arg(0), "x"), tuple(entry(a, a.extent) for a in letters(shape))
    )
    nest.compute("y", low.shape, low.site.dtype(), axes, read, store=store)
    nest.into(low.result)


def _tile(attrs: Mapping[str, Any], args: Any) -> Any:
    return np.tile(args[0], np.atleast_1d(attrs["repeats"]))


# Depth and space.


def _block(site: Site) -> int:
    """Return the number of rows, and columns, of space that become channels."""
    b, mode = site.integer("blocksize", 1), site.text("mode", "DCR")
    if b < 1:
        site.fail(f"blocksize must be positive, and is {b}", expected="a positive blocksize")
    if mode not in ("DCR", "CRD"):
        site.fail(f"mode must be DCR or CRD, and is {mode!r}", expected="DCR or CRD")
    return b


def _whole_blocks(site: Site, extent: Dim, by: int) -> Dim:
    if isinstance(extent, int) and extent % by:
        site.fail(f"an extent of {extent} does not divide by {by}", expected=f"a multiple of {by}")
    return floor_div(extent, by)


def _depth_types(site: Site) -> tuple[Tensor, ...]:
    (n, c, h, w), b = site.shape(), _block(site)
    return (Tensor((n, _whole_blocks(site, c, b * b), h * b, w * b), site.dtype()),)


def _space_types(site: Site) -> tuple[Tensor, ...]:
    (n, c, h, w), b = site.shape(), _block(site)
    spatial = (_whole_blocks(site, extent, b) for extent in (h, w))
    return (Tensor((n, c * b * b, *spatial), site.dtype()),)


def _lower_depth(low: Lowering) -> None:
    """Move channels to space.

    y[n, c, h*b + p, w*b + q] = x[n, (p*b + q)*C + c, h, w], or channel c*b*b + p*b + q.
    """
    site, b = low.site, low.site.integer("blocksize", 1)
    n, c, h, w = low.shape[0], low.shape[1], site.shape()[2], site.shape()[3]
    place = var("p") * b + var("q")
    channel = var("c") * (b * b) + place
    if site.text("mode", "DCR") == "DCR":
        channel = place * c + var("c")
    nest = low.nest("depth_to_space")
    read = Read(nest.tensor(site.arg(0), "x"), (var("n"), channel, var("h"), var("w")))
    axes = [Axis("n", n), Axis("c", c), Axis("h", h), Axis("p", b), Axis("w", w), Axis("q", b)]
    store = (var("n"), var("c"), var("h") * b + var("p"), var("w") * b + var("q"))
    nest.compute("y", low.shape, site.dtype(), axes, read, store=store)
    nest.into(low.result)


def _lower_space(low: Lowering) -> None:
    """Move space to channels.

    y[n, (p*b + q)*C + c, h, w] = x[n, c, h*b + p, w*b + q], or channel c*b*b + p*b + q.
    """
    site, b = low.site, low.site.integer("blocksize", 1)
    nest, c = low.nest("space_to_depth"), site.shape()[1]
    index = (var("n"), var("c"), var("h") * b + var("p"), var("w") * b + var("q"))
    read = Read(nest.tensor(site.arg(0), "x"), index)
    axes = [
        Axis("n", low.shape[0]),
        Axis("p", b),
        Axis("q", b),
        Axis("c", c),
        Axis("h", low.shape[2]),
        Axis("w", low.shape[3]),
    ]
    place = var("p") * b + var("q")
    channel = place * c + var("c")
    if site.text("mode", "DCR") != "DCR":
        channel = var("c") * (b * b) + place
    store = (var("n"), channel, var("h"), var("w"))
    nest.compute("y", low.shape, site.dtype(), axes, read, store=store)
    nest.into(low.result)


def _depth(attrs: Mapping[str, Any], args: Any) -> Any:
    (n, c, h, w), b = args[0].shape, attrs["blocksize"]
    if attrs.get("mode", "DCR") == "DCR":
        y = args[0].reshape(n, b, b, c // (b * b), h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        y = args[0].reshape(n, c // (b * b), b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    return y.reshape(n, c // (b * b), h * b, w * b)


def _space(attrs: Mapping[str, Any], args: Any) -> Any:
    (n, c, h, w), b = args[0].shape, attrs["blocksize"]
    order = (0, 3, 5, 1, 2, 4) if attrs.get("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    y: Array = args[0].reshape(n, c, h // b, b, w // b, b).transpose(order)
    return y.reshape(n, c * b * b, h // b, w // b)


def _transpose(attrs: Mapping[str, Any], args: Any) -> Any:
    return np.transpose(args[0], attrs.get("perm"))


# Tile with repeats that only a run knows.


def _tile_values(attrs: Mapping[str, Any], args: Sequence[Any]) -> Mapping[str, int]:
    host = Host("Tile", attrs, args)
    shape, repeats = host.required(0), host.required(1)
    if len(repeats) != len(shape) or any(r < 0 for r in repeats):
        host.fail(f"repeats {repeats} for {len(shape)} dims")
    return dim_values(repeats)


TILE = RunTime(
    frozenset({1}),
    lambda site: dim_names(len(site.shape())),
    _tile_values,
    lambda site, symbols: symbolic(site, site.arg(0), repeats=dim_symbols(symbols)),
)


RECORDS = (
    OperatorRecord(
        "Transpose", "layout", _transpose_types, _transpose, _lower_transpose, refold(_transpose)
    ),
    OperatorRecord(
        "Expand",
        "layout",
        _expand_types,
        _expand,
        _lower_expand,
        refold(_expand),
        {1: "shape"},
        run_time=broadcast_rule("Expand", frozenset({1})),
    ),
    OperatorRecord(
        "Tile",
        "layout",
        _tile_types,
        _tile,
        _lower_tile,
        refold(_tile),
        {1: "repeats"},
        run_time=TILE,
    ),
    OperatorRecord("DepthToSpace", "layout", _depth_types, _depth, _lower_depth, ranks={0: (4, 4)}),
    OperatorRecord("SpaceToDepth", "layout", _space_types, _space, _lower_space, ranks={0: (4, 4)}),
)
