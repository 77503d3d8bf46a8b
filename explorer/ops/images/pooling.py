"""Pools: a reduction over windows, or over all positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from explorer.ir.affine import Affine, var
from explorer.ir.dims import Dim, Shape, product, simplify
from explorer.ir.dtypes import is_float
from explorer.ir.kernel import Axis, Const, Expr, IndexValue, Read
from explorer.ir.types import Tensor
from explorer.ops.arithmetic import power
from explorer.ops.elementwise import call
from explorer.ops.images.windows import Windows, attribute_site, spatial_names, views, windows
from explorer.ops.interpreter.scalar import identity
from explorer.ops.lowering import Lowering, Nest, at
from explorer.ops.record import OperatorRecord, Site
from explorer.process.budget import check_room

NOWHERE = 1 << 62
IMAGES = {0: (2, None)}  # a batch and channels


def _window(site: Site) -> Windows:
    sizes = site.integers("kernel_shape")
    if sizes is None or len(sizes) != len(site.shape()) - 2:
        site.fail(f"kernel_shape {sizes} does not fit an input of rank {len(site.shape())}")
    return windows(site, site.shape()[2:], sizes)


def _types(site: Site) -> tuple[Tensor, ...]:
    result_type = Tensor((*site.shape()[:2], *_window(site).extents), site.dtype())
    return (result_type, Tensor(result_type.shape, "int64"))[: site.results]


def _lead(low: Lowering) -> list[Axis]:
    return [Axis("n", low.shape[0]), Axis("c", low.shape[1])]


def _lower_max(low: Lowering) -> None:
    w, nest = _window(low.site), low.nest("max_pool")
    axes = [*_lead(low), *w.axes]
    if low.is_read(low.result.name):
        nest.compute(
            "y", low.shape, low.site.dtype(), axes, _element(low, nest, w), w.offsets, "max"
        )
        nest.into(low.result)
    if len(low.results) > 1 and low.is_read(low.results[1].name):
        _lower_places(low, w, axes)


def _element(low: Lowering, nest: Nest, w: Windows) -> Read:
    """Load an element of a window; the fill around the tensor is less than all elements."""
    x = nest.tensor(low.site.arg(0), "x")
    nothing = float(identity("max", low.site.dtype())) if w.pads else None
    return Read(x, (var("n"), var("c"), *w.index), nothing)


def _lower_places(low: Lowering, w: Windows, axes: list[Axis]) -> None:
    """Compute the position of the first maximum of each window in the flattened tensor.

    If a window holds no element, it is the first element of the channel.
    """
    site, nest, shape = low.site, low.nest("max_pool_places"), low.site.shape()
    element = _element(low, nest, w)
    places = list(zip(w.index, shape[2:], strict=True))
    spatial = Affine()
    for index, extent in places:
        spatial = spatial * extent + index
    top = at("top", axes)
    nest.compute("top", low.shape, site.dtype(), axes, element, w.offsets, "max")
    hit: Expr = call("eq", element, top)
    if is_float(site.dtype()):  # NaN is the largest, and equals nothing
        hit = call("or", hit, call("isnan", element))
    if w.pads:  # padding may equal the largest element, but has no position
        for index, extent in places:
            hit = call("and", hit, call("ge", IndexValue(index), Const(0, "int64")))
            hit = call("and", hit, call("lt", IndexValue(index), Const(extent, "int64")))
    here = call("where", hit, IndexValue(spatial), Const(NOWHERE, "int64"))
    nest.compute("first", low.shape, "int64", axes, here, w.offsets, "min")
    number: Expr = at("first", axes)
    number = call("where", call("eq", number, Const(NOWHERE, "int64")), Const(0, "int64"), number)
    if site.integer("storage_order"):
        number = _by_columns(number, shape[2:])
    channel = IndexValue((var("n") * shape[1] + var("c")) * product(shape[2:]))
    nest.compute("y", low.shape, "int64", axes, call("add", channel, number))
    nest.into(low.results[1])


def _by_columns(number: Expr, shape: Shape) -> Expr:
    """Convert a position from row-major to column-major order."""
    column_major: Expr = Const(0, "int64")
    for d, extent in reversed(list(enumerate(shape))):
        place = call("floordiv", number, Const(product(shape[d + 1 :]), "int64"))
        place = call("mod", place, Const(extent, "int64"))
        column_major = call(
            "add", column_major, call("mul", place, Const(product(shape[:d]), "int64"))
        )
    return column_major


def _max_reference(attrs: Mapping[str, Any], args: Any) -> Any:
    x, site = args[0], attribute_site("MaxPool", attrs)
    w = windows(site, x.shape[2:], attrs["kernel_shape"])
    window_views = views(x, w, identity("max", x.dtype.name))
    rows = window_views.reshape(
        *window_views.shape[: -len(w.extents)], prod(window_views.shape[-len(w.extents) :])
    )
    spatial = np.arange(int(np.prod(x.shape[2:])))
    spatial = spatial.reshape(x.shape[2:], order="F" if attrs.get("storage_order") else "C")
    lead = np.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *(1,) * len(w.extents))
    numbers = views(np.broadcast_to(spatial, (1, 1, *spatial.shape)), w, 0)
    numbers = numbers.reshape(*numbers.shape[: -len(w.extents)], rows.shape[-1])
    inside = views(np.ones((1, 1, *x.shape[2:]), bool), w, False).reshape(numbers.shape)
    top = rows.max(-1)
    hit = ((rows == top[..., None]) | (rows != rows)) & inside
    first = np.take_along_axis(np.broadcast_to(numbers, rows.shape), hit.argmax(-1)[..., None], -1)[
        ..., 0
    ]
    return top, (np.where(hit.any(-1), first, 0) + lead * spatial.size).astype(np.int64)


def _lower_average(low: Lowering) -> None:
    site, w, nest = low.site, _window(low.site), low.nest("average_pool")
    x = nest.tensor(site.arg(0), "x")
    read = Read(x, (var("n"), var("c"), *w.index), 0.0 if w.pads else None)
    axes, dtype = [*_lead(low), *w.axes], site.dtype()
    nest.compute("acc", low.shape, dtype, axes, read, w.offsets, "sum")
    nest.compute("y", low.shape, dtype, axes, _mean(nest, low, w, at("acc", axes)))
    nest.into(low.result)


def _mean(nest: Nest, low: Lowering, w: Windows, total: Expr) -> Expr:
    """Divide the sum over a window by its number of elements, which is smaller at edges."""
    site, dtype = low.site, low.site.dtype()
    if not w.pads or (site.integer("count_include_pad") and not site.integer("ceil_mode")):
        return call("mul", total, 1 / int(np.prod(w.sizes)), dtype=dtype)
    spatial = site.shape()[2:]
    if all(isinstance(n, int) for n in (*spatial, *w.extents)):
        extents = [int(str(n)) for n in spatial]
        count = _counts(extents, w, bool(site.integer("count_include_pad")))
        weights = low.constant((1 / count).astype(dtype), "weights")
        return call("mul", total, nest.load(weights, "weights", [var(a.name) for a in w.axes]))
    return call("div", total, call(f"cast_{dtype}", _count_expr(site, w)))


def _counts(spatial: Sequence[int], w: Windows, with_padding: bool) -> np.ndarray:
    """Return the number of elements in each window: [*output positions]."""
    check_room(8 * prod(map(int, w.extents)), "how many elements each window holds")
    rows = [_counts_along(n, w, d, with_padding) for d, n in enumerate(spatial)]
    return np.asarray(reduce(np.multiply.outer, rows))


def _counts_along(n: int, w: Windows, d: int, with_padding: bool) -> np.ndarray:
    """Return the number of elements in the windows along one dim."""
    start = np.arange(int(w.extents[d])) * w.strides[d] - int(w.before[d])
    places = start[:, None] + np.arange(w.sizes[d]) * w.dilations[d]
    low, high = 0, n
    if with_padding:  # requested padding counts; the padding of ceil_mode does not
        low, high = -int(w.before[d]), n + int(w.requested_after[d])
    counts: np.ndarray = ((places >= low) & (places < high)).sum(1)
    return counts


def _count_expr(site: Site, w: Windows) -> Expr:
    """Return the number of elements in a window, as an expression of its position."""
    total: Expr = Const(1, "int64")
    padded = bool(site.integer("count_include_pad"))
    for d, (axis, n) in enumerate(zip(w.axes, site.shape()[2:], strict=True)):
        start: Affine = var(axis.name) * w.strides[d] - w.before[d]
        low, high = (-w.before[d], n + w.requested_after[d]) if padded else (0, n)
        first, last = (_places_before(start, simplify(end), w, d) for end in (low, high))
        total = call("mul", total, call("sub", last, first))
    return total


def _places_before(start: Affine, end: Dim, w: Windows, d: int) -> Expr:
    """Return how many positions of a window from `start` on lie before `end`."""
    step = w.dilations[d]
    count: Expr = IndexValue(start * -1 + simplify(end + step - 1))
    if step > 1:
        count = call("floordiv", count, Const(step, "int64"))
    return call("max", call("min", count, Const(w.sizes[d], "int64")), Const(0, "int64"))


def _average_reference(attrs: Mapping[str, Any], args: Any) -> Any:
    x, site = args[0], attribute_site("AveragePool", attrs)
    w = windows(site, x.shape[2:], attrs["kernel_shape"])
    places = tuple(range(-len(w.extents), 0))
    total = views(x, w, 0).sum(axis=places, dtype=x.dtype)
    count = _counts(x.shape[2:], w, bool(attrs.get("count_include_pad")))
    return (total / count).astype(x.dtype)


# Over all positions.


def _global_types(site: Site) -> tuple[Tensor, ...]:
    x = site.shape()
    return (Tensor((*x[:2], *(1 for _ in x[2:])), site.dtype()),)


def _lower_global(combiner: str) -> Any:
    def lower(low: Lowering) -> None:
        site, average = low.site, combiner == "sum"
        nest, axes = low.nest("global_average_pool" if average else "global_max_pool"), _lead(low)
        spatial = site.shape()[2:]
        over = [Axis(n, e) for n, e in zip(spatial_names(spatial), spatial, strict=True)]
        read = at(nest.tensor(site.arg(0), "x"), [*axes, *over])
        store = (var("n"), var("c"), *(Affine() for _ in spatial))
        dtype = site.dtype()
        nest.compute("acc" if average else "y", low.shape, dtype, axes, read, over, combiner, store)
        if average:
            total = Read("acc", store)
            nest.compute(
                "y", low.shape, dtype, axes, scaled(total, product(spatial), dtype), store=store
            )
        nest.into(low.result)

    return lower


def scaled(total: Expr, count: Any, dtype: str) -> Expr:
    """Divide a sum by the number of its elements."""
    if isinstance(count, int) and count:
        return call("mul", total, 1 / count, dtype=dtype)
    return call("div", total, Const(count, dtype))


def _positions(x: np.ndarray) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


# Lp norms.


def _norm(nest: Nest, low: Lowering, x: Expr, p: int, axes: Any, over: Any, store: Any) -> None:
    """Compute `(sum over over of |x| ** p) ** (1 / p)`."""
    dtype = low.site.dtype()
    size = call("abs", x)
    powers = power(size, p, Const(p, dtype), dtype)
    place = store or tuple(var(a.name) for a in axes)
    nest.compute("acc", low.shape, dtype, axes, powers, over, "sum", store)
    total = Read("acc", place)
    root = power(total, 1 / p, Const(1 / p, dtype), dtype)
    if p > 1:  # no slope is infinite where all are 0
        root = call("where", call("eq", total, 0.0, dtype=dtype), Const(0.0, dtype), root)
    nest.compute("y", low.shape, dtype, axes, root, store=store)
    nest.into(low.result)


def _norm_of(site: Site) -> int:
    """Return the `p` of an Lp norm."""
    p = site.integer("p", 2)
    return p if p > 0 else site.fail(f"p must be positive, and is {p}", expected="a positive p")


def _lower_lp(low: Lowering) -> None:
    w, nest = _window(low.site), low.nest("lp_pool")
    x = nest.tensor(low.site.arg(0), "x")
    read = Read(x, (var("n"), var("c"), *w.index), 0.0 if w.pads else None)
    _norm(nest, low, read, _norm_of(low.site), [*_lead(low), *w.axes], w.offsets, ())


def _global_lp_types(site: Site) -> tuple[Tensor, ...]:
    _norm_of(site)
    return _global_types(site)


def _lp_types(site: Site) -> tuple[Tensor, ...]:
    _norm_of(site)
    return _types(site)


def _lp_reference(attrs: Mapping[str, Any], args: Any) -> Any:
    x, p = args[0], attrs.get("p", 2)
    w = windows(attribute_site("LpPool", attrs), x.shape[2:], attrs["kernel_shape"])
    powers = views(np.abs(x) ** p, w, 0).sum(axis=tuple(range(-len(w.extents), 0)), dtype=x.dtype)
    return (powers ** (1 / p)).astype(x.dtype)


def _lower_global_lp(low: Lowering) -> None:
    nest, spatial = low.nest("global_lp_pool"), low.site.shape()[2:]
    over = [Axis(f"s{d}", n) for d, n in enumerate(spatial)]
    read = at(nest.tensor(low.site.arg(0), "x"), [*_lead(low), *over])
    store = (var("n"), var("c"), *(Affine() for _ in spatial))
    _norm(nest, low, read, _norm_of(low.site), _lead(low), over, store)


def _global_lp_reference(attrs: Mapping[str, Any], args: Any) -> Any:
    x, p = args[0], attrs.get("p", 2)
    powers = (np.abs(x) ** p).sum(axis=_positions(x), keepdims=True, dtype=x.dtype)
    return (powers ** (1 / p)).astype(x.dtype)


RECORDS = (
    OperatorRecord("LpPool", "reduction", _lp_types, _lp_reference, _lower_lp),
    OperatorRecord(
        "GlobalLpPool",
        "reduction",
        _global_lp_types,
        _global_lp_reference,
        _lower_global_lp,
        ranks=IMAGES,
    ),
    OperatorRecord("MaxPool", "reduction", _types, _max_reference, _lower_max),
    OperatorRecord("AveragePool", "reduction", _types, _average_reference, _lower_average),
    OperatorRecord(
        "GlobalAveragePool",
        "reduction",
        _global_types,
        lambda attrs, args: args[0].mean(
            axis=_positions(args[0]), keepdims=True, dtype=args[0].dtype
        ),
        _lower_global("sum"),
        ranks=IMAGES,
    ),
    OperatorRecord(
        "GlobalMaxPool",
        "reduction",
        _global_types,
        lambda attrs, args: args[0].max(axis=_positions(args[0]), keepdims=True),
        _lower_global("max"),
        ranks=IMAGES,
    ),
)
