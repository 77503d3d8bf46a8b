"""Operators that move elements or rename dims: views where nothing moves, else affine copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from explorer.ir.dims import Dim, Shape, floor_div, product, simplify
from explorer.ir.kernel import Affine, Axis, Expr, Read, var
from explorer.ir.types import Tensor
from explorer.ops.broadcast import agree, broadcast
from explorer.ops.lowering import Lowering, entry, letters
from explorer.ops.record import Array, Fold, OperatorRecord, Site, Values


def _view(low: Lowering) -> None:
    low.view(low.result, low.site.arg(0))


def _refold(reference: Any) -> Fold:
    """The reference, on dims."""

    def fold(site: Site) -> tuple[Values | None, ...]:
        known = site.values[0]
        whole = all(isinstance(d, int) for name in site.attrs for d in site.dims(name) or ())
        return (reference(dict(site.attrs), [known]) if known is not None and whole else None,)

    return fold


# Reshape: 0 keeps a dim, -1 is what remains.


def _reshape_types(site: Site) -> tuple[Tensor, ...]:
    shape, wanted = site.shape(), list(site.dims("shape") or ())
    if not site.integer("allowzero"):
        wanted = [_kept(site, shape, d) if n == 0 else n for d, n in enumerate(wanted)]
    open_at = [d for d, n in enumerate(wanted) if n == -1]
    if len(open_at) > 1:
        site.fail(f"the shape {tuple(wanted)} has several dims of -1")
    total, rest = product(shape), product(n for n in wanted if n != -1)
    if open_at:
        wanted[open_at[0]] = _remaining(site, total, rest)
    elif total != rest and not agree(total, rest, site.env):
        site.fail(f"{_text(shape)} has {total} elements and {_text(wanted)} has {rest}")
    return (Tensor(tuple(wanted), site.dtype()),)


def _kept(site: Site, shape: Shape, d: int) -> Dim:
    return shape[d] if d < len(shape) else site.fail(f"dim {d} is to be kept, of {len(shape)}")


def _remaining(site: Site, total: Dim, rest: Dim) -> Dim:
    if rest == 0:
        return 0
    if isinstance(total, int) and isinstance(rest, int) and total % rest:
        site.fail(f"{total} elements do not divide into rows of {rest}")
    return floor_div(total, rest)


def _text(shape: Sequence[Dim]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def _reshape(attrs: Mapping[str, Any], args: Any) -> Any:
    x, shape = args[0], list(attrs["shape"])
    if not attrs.get("allowzero"):
        shape = [x.shape[d] if n == 0 else n for d, n in enumerate(shape)]
    return x.reshape(shape)


def _flatten_types(site: Site) -> tuple[Tensor, ...]:
    shape = site.shape()
    axis = site.integer("axis", 1)
    axis = len(shape) if axis == len(shape) else site.in_rank(axis, len(shape))
    return (Tensor((product(shape[:axis]), product(shape[axis:])), site.dtype()),)


def _flatten(attrs: Mapping[str, Any], args: Any) -> Any:
    x, axis = args[0], attrs.get("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    return (
        x.reshape(int(np.prod(x.shape[:axis])), -1)
        if x.size
        else x.reshape(int(np.prod(x.shape[:axis])), int(np.prod(x.shape[axis:])))
    )


def _squeeze_types(site: Site) -> tuple[Tensor, ...]:
    shape = site.shape()
    axes = site.axes(len(shape))
    gone = tuple(d for d, n in enumerate(shape) if n == 1) if axes is None else axes
    for d in gone:
        if shape[d] != 1 and not agree(shape[d], 1, site.env):
            site.fail(f"dim {d} of {_text(shape)} is not 1")
    return (Tensor(tuple(n for d, n in enumerate(shape) if d not in gone), site.dtype()),)


def _squeeze(attrs: Mapping[str, Any], args: Any) -> Any:
    return np.squeeze(args[0], attrs.get("axes"))


def _unsqueeze_types(site: Site) -> tuple[Tensor, ...]:
    shape, axes = site.shape(), site.integers("axes") or ()
    rank = len(shape) + len(axes)
    new, rest = {site.in_rank(a, rank) for a in axes}, iter(shape)
    if len(new) < len(axes):
        site.fail(f"axes {axes} name a dim twice")
    return (Tensor(tuple(1 if d in new else next(rest) for d in range(rank)), site.dtype()),)


def _unsqueeze(attrs: Mapping[str, Any], args: Any) -> Any:
    return np.expand_dims(args[0], tuple(attrs["axes"]))


# Transpose.


def _permutation(site: Site) -> tuple[int, ...]:
    rank = len(site.shape())
    order = site.integers("perm", range(rank)[::-1]) or ()
    if sorted(order) != list(range(rank)):
        site.fail(f"perm {order} is no permutation of {rank} dims")
    return order


def _transpose_types(site: Site) -> tuple[Tensor, ...]:
    return (Tensor(tuple(site.shape()[d] for d in _permutation(site)), site.dtype()),)


def _lower_transpose(low: Lowering) -> None:
    order, shape = _permutation(low.site), low.site.shape()
    moved = [d for d in order if shape[d] != 1]
    if moved == sorted(moved):
        _view(low)
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
        _view(low)
        return
    nest, x = low.nest("expand"), low.site.arg(0)
    nest.map("y", low.result, lambda axes: nest.along(x, "x", axes))


def _expand(attrs: Mapping[str, Any], args: Any) -> Any:
    x = args[0]
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(attrs["shape"])))


def _tile_types(site: Site) -> tuple[Tensor, ...]:
    shape, repeats = site.shape(), site.dims("repeats") or ()
    if len(repeats) != len(shape):
        site.fail(f"{len(repeats)} repeats for {len(shape)} dims")
    return (Tensor(tuple(product(p) for p in zip(shape, repeats, strict=True)), site.dtype()),)


def _lower_tile(low: Lowering) -> None:
    """y[r * n + i] = x[i]."""
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
    return np.tile(args[0], tuple(attrs["repeats"]))


# Concat and Split.


def _concat_types(site: Site) -> tuple[Tensor, ...]:
    first = list(site.shape())
    axis = site.axis(len(first), 0)
    for i in range(1, len(site.args)):
        other = site.shape(i)
        if len(other) != len(first) or site.dtype(i) != site.dtype():
            site.fail(
                f"argument {i} is {site.dtype(i)}{_text(other)} beside {site.dtype()}{_text(first)}"
            )
        for d, (a, b) in enumerate(zip(first, other, strict=True)):
            if d != axis and a != b and not agree(a, b, site.env):
                site.fail(f"argument {i} has extent {b} in dim {d}, where others have {a}")
    first[axis] = simplify(
        sum((site.shape(i)[axis] for i in range(1, len(site.args))), first[axis])
    )
    return (Tensor(tuple(first), site.dtype()),)


def _lower_concat(low: Lowering) -> None:
    site, nest = low.site, low.nest("concat")
    axis, at = site.axis(len(low.shape), 0), Affine()
    axes = list(letters(low.shape))
    for i, part in enumerate(site.given):
        extent = site.shape(i)[axis]
        along = Axis(f"{letters(low.shape)[axis].name}{i}", extent)
        axes[axis] = along
        if extent != 0:
            store = [var(a.name) for a in axes]
            store[axis] = store[axis] + at
            read = Read(nest.tensor(part, f"x{i}"), tuple(var(a.name) for a in axes))
            nest.compute("y", low.shape, site.dtype(), axes, read, store=store)
        at = at + extent
    nest.into(low.result)


def _concat(attrs: Mapping[str, Any], args: Any) -> Any:
    return np.concatenate(args, axis=attrs.get("axis", 0))


def _fold_concat(site: Site) -> tuple[Values | None, ...]:
    known = [v for v in site.values if v is not None]
    return (np.concatenate(known) if len(known) == len(site.args) and known[0].ndim else None,)


def _split_sizes(site: Site) -> tuple[int, tuple[Dim, ...]]:
    axis, given = site.axis(len(site.shape()), 0), site.dims("split")
    extent = site.shape()[axis]
    if given is None:
        parts = site.integer("num_outputs", site.results)
        if parts != site.results:
            site.fail(f"{parts} parts, and {site.results} of them are used")
        each = -(-extent // parts) if isinstance(extent, int) else floor_div(extent, parts)
        given = (*(each,) * (parts - 1), simplify(extent - each * (parts - 1)))
    total = simplify(sum(given[1:], given[0]))
    if total != extent and not agree(total, extent, site.env):
        site.fail(f"parts {given} do not add up to {extent}")
    return axis, given


def _split_types(site: Site) -> tuple[Tensor, ...]:
    axis, sizes = _split_sizes(site)
    shape = site.shape()
    return tuple(Tensor((*shape[:axis], n, *shape[axis + 1 :]), site.dtype()) for n in sizes)


def _lower_split(low: Lowering) -> None:
    axis, sizes = _split_sizes(low.site)
    at: Dim = 0
    for result, size in zip(low.results, sizes, strict=True):
        if low.is_read(result.name):
            start: list[Dim] = [0] * len(low.site.shape())
            start[axis] = at
            lower_slice(low, result, start, (1,) * len(start))
        at = simplify(at + size)


def _split(attrs: Mapping[str, Any], args: Any) -> Any:
    x, axis, sizes = args[0], attrs.get("axis", 0), attrs.get("split")
    if sizes is None:
        parts = attrs["num_outputs"]
        each = -(-x.shape[axis] // parts)
        sizes = [each] * (parts - 1)
        return tuple(np.split(x, np.cumsum(sizes), axis))
    return tuple(np.split(x, np.cumsum(sizes)[:-1], axis))


def lower_slice(low: Lowering, result: Any, start: Sequence[Dim], steps: Sequence[int]) -> None:
    """Bind `x[start :: step]`; a view where only the outermost dim longer than 1 is cut."""
    shape, kept = low.site.shape(), result.type.dims
    cut = [d for d, n in enumerate(shape) if n != kept[d]]
    outer = next((d for d, n in enumerate(shape) if n != 1), 0)
    if all(s == 1 for s in steps) and all(d <= outer for d in cut):
        offset = product((start[outer], *shape[outer + 1 :])) if cut else 0
        low.view(result, low.site.arg(0), offset)
        return
    nest = low.nest("slice")

    def body(axes: tuple[Axis, ...]) -> Expr:
        index = (entry(a, n) * s + b for a, n, s, b in zip(axes, kept, steps, start, strict=True))
        return Read(nest.tensor(low.site.arg(0), "x"), tuple(index))

    nest.map("y", result, body)


# Depth and space.


def _depth_types(site: Site) -> tuple[Tensor, ...]:
    (n, c, h, w), b = site.shape(), site.integer("blocksize", 1)
    return (Tensor((n, floor_div(c, b * b), h * b, w * b), site.dtype()),)


def _space_types(site: Site) -> tuple[Tensor, ...]:
    (n, c, h, w), b = site.shape(), site.integer("blocksize", 1)
    return (Tensor((n, c * b * b, floor_div(h, b), floor_div(w, b)), site.dtype()),)


def _lower_depth(low: Lowering) -> None:
    """y[n, c, h*b + p, w*b + q] = x[n, (p*b + q)*C + c, h, w], or channel c*b*b + p*b + q."""
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
    """y[n, (p*b + q)*C + c, h, w] = x[n, c, h*b + p, w*b + q]."""
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
    store = (var("n"), (var("p") * b + var("q")) * c + var("c"), var("h"), var("w"))
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
    y: Array = args[0].reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4)
    return y.reshape(n, c * b * b, h // b, w // b)


def _transpose(attrs: Mapping[str, Any], args: Any) -> Any:
    return np.transpose(args[0], attrs.get("perm"))


RECORDS = (
    OperatorRecord(
        "Reshape", "layout", _reshape_types, _reshape, _view, _refold(_reshape), {1: "shape"}
    ),
    OperatorRecord("Flatten", "layout", _flatten_types, _flatten, _view),
    OperatorRecord(
        "Squeeze", "layout", _squeeze_types, _squeeze, _view, _refold(_squeeze), {1: "axes"}
    ),
    OperatorRecord(
        "Unsqueeze", "layout", _unsqueeze_types, _unsqueeze, _view, _refold(_unsqueeze), {1: "axes"}
    ),
    OperatorRecord(
        "Transpose", "layout", _transpose_types, _transpose, _lower_transpose, _refold(_transpose)
    ),
    OperatorRecord(
        "Expand", "layout", _expand_types, _expand, _lower_expand, _refold(_expand), {1: "shape"}
    ),
    OperatorRecord(
        "Tile", "layout", _tile_types, _tile, _lower_tile, _refold(_tile), {1: "repeats"}
    ),
    OperatorRecord("Concat", "layout", _concat_types, _concat, _lower_concat, _fold_concat),
    OperatorRecord("Split", "layout", _split_types, _split, _lower_split, None, {1: "split"}),
    OperatorRecord("DepthToSpace", "layout", _depth_types, _depth, _lower_depth),
    OperatorRecord("SpaceToDepth", "layout", _space_types, _space, _lower_space),
)
