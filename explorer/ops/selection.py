"""Operators that select: the greatest elements, rows in another order, a diagonal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from explorer.ir.affine import var
from explorer.ir.dtypes import is_float
from explorer.ir.kernel import Axis, Const, Expr, IndexValue, Read
from explorer.ir.types import Tensor, numpy_dtype
from explorer.ops.elementwise import call
from explorer.ops.lowering import Lowering, letters, shape_of
from explorer.ops.record import HostNumber, OperatorRecord, RunTime, Site
from explorer.ops.run_time import Host, symbolic
from explorer.ops.shape_rules import demand_as_many, demand_shape

MOST_COMPARISONS = 1 << 26  # of a TopK, at the symbols' hints

# TopK: an element's rank is the number of elements that come before it.


def _top_types(site: Site) -> tuple[Tensor, ...]:
    shape, k = list(site.shape()), site.dims("k")
    axis = site.axis(len(shape), -1)
    count = k[0] if k else site.fail("needs a number k")
    if isinstance(count, int):
        if count < 0:
            site.fail(f"k is {count}")
        demand_as_many(site, count, shape[axis])
    shape[axis] = count
    shape_of_top = tuple(shape)
    return (Tensor(shape_of_top, site.dtype()), Tensor(shape_of_top, "int64"))[: site.results]


def _lower_top(low: Lowering) -> None:
    site, shape = low.site, low.site.shape()
    axis = site.axis(len(shape), -1)
    _affordable(site, axis)
    result_shape = shape_of(low.result)
    places = low.temporary("places", result_shape, "int64")
    if len(low.results) > 1:
        places = low.results[1]
    _places(low, places, axis)
    if low.is_read(low.result.name) or len(low.results) == 1:
        nest = low.nest("top_values")

        def body(axes: tuple[Axis, ...]) -> Expr:
            at = tuple(var(a.name) for a in axes)
            place = nest.load(places, "place", at)
            index = tuple(place if d == axis else i for d, i in enumerate(at))
            return Read(nest.tensor(site.arg(0), "x"), index)

        nest.map("y", low.result, body)


def _affordable(site: Site, axis: int) -> None:
    total = site.env.hint(site.tensor(0).elements) * site.env.hint(site.shape()[axis])
    if total > MOST_COMPARISONS:
        site.unsupported(f"{total} comparisons have no kernel rule")


def _top_names(site: Site) -> tuple[HostNumber, ...]:
    axis = site.axis(len(site.shape()), -1)
    _affordable(site, axis)
    values = site.values[1] if len(site.values) > 1 else None
    count = None if values is None or values.size != 1 else values.reshape(-1)[0]
    return (HostNumber("k", 0, site.env.at_most(site.shape()[axis]), count),)


def _top_values(attrs: Mapping[str, Any], args: Sequence[Any]) -> Mapping[str, int]:
    host = Host("TopK", attrs, args)
    shape, k = host.required(0), host.single(1)
    extent = shape[host.axis(attrs.get("axis", -1), len(shape))]
    if not 0 <= k <= extent:
        host.fail(f"there are no {k} of {extent} elements")
    return {"k": k}


TOP_K = RunTime(
    frozenset({1}),
    _top_names,
    _top_values,
    lambda site, symbols: symbolic(site, site.arg(0), k=(symbols["k"],)),
)


def _places(low: Lowering, places: Any, axis: int) -> None:
    site, nest, shape = low.site, low.nest("top_places"), low.site.shape()
    axes, other = letters(shape), Axis("o", shape[axis])
    x = nest.tensor(site.arg(0), "x")
    here = tuple(var(a.name) for a in axes)
    there = tuple(var("o") if d == axis else i for d, i in enumerate(here))
    before = _before(Read(x, there), Read(x, here), site)
    same = call("eq", Read(x, there), Read(x, here))
    if is_float(site.dtype()):
        nans = call("and", call("isnan", Read(x, there)), call("isnan", Read(x, here)))
        same = call("or", same, nans)
    earlier = call("lt", IndexValue(var("o")), IndexValue(here[axis]))
    first = call("or", before, call("and", same, earlier))
    unit, zero = Const(1, "int64"), Const(0, "int64")
    count = call("where", first, unit, zero)
    nest.compute("rank", shape, "int64", axes, count, [other], "sum")
    result_shape = shape_of(places)
    results = tuple(
        Axis("r", n) if d == axis else a for d, (a, n) in enumerate(zip(axes, result_shape))
    )
    rank = Read("rank", here)
    hit = call("eq", rank, IndexValue(var("r")))
    place = call("where", hit, IndexValue(here[axis]), zero)
    nest.compute("y", result_shape, "int64", results, place, [axes[axis]], "sum")
    nest.into(places)


def _before(a: Expr, b: Expr, site: Site) -> Expr:
    """Return whether an element comes before another; NaN is the greatest."""
    if not site.integer("largest", 1):
        a, b = b, a
    greater = call("gt", a, b)
    if not is_float(site.dtype()):
        return greater
    return call("or", greater, call("and", call("isnan", a), call("eq", b, b)))


def _top(attrs: Mapping[str, Any], args: Any) -> Any:
    x, axis, k = args[0], attrs.get("axis", -1), attrs["k"]
    k = k[0] if isinstance(k, tuple) else k
    keys = np.flip(x, axis) if attrs.get("largest", 1) else x
    order = np.argsort(keys, axis=axis, kind="stable")
    if attrs.get("largest", 1):
        order = x.shape[axis] - 1 - np.flip(order, axis)
    order = np.take(order, np.arange(k), axis=axis)
    return np.take_along_axis(x, order, axis), order.astype(np.int64)


# EyeLike, ReverseSequence.


def _eye_types(site: Site) -> tuple[Tensor, ...]:
    if len(site.shape()) != 2:
        site.fail(f"the input has rank {len(site.shape())} and must have 2")
    return (Tensor(site.shape(), site.text("dtype", site.dtype())),)


def _lower_eye(low: Lowering) -> None:
    nest, shift = low.nest("eye_like"), low.site.integer("k")
    dtype = low.site.text("dtype", low.site.dtype())
    unit, zero = (Const(bool(v) if dtype == "bool" else v, dtype) for v in (1, 0))

    def body(axes: tuple[Axis, ...]) -> Expr:
        gap = IndexValue(var(axes[1].name) - var(axes[0].name) - shift)
        return call("where", call("eq", gap, 0, dtype="int64"), unit, zero)

    nest.map("y", low.result, body)


def _eye(attrs: Mapping[str, Any], args: Any) -> Any:
    x = args[0]
    matrix = np.eye(int(x.shape[0]), int(x.shape[1]), int(attrs.get("k", 0)))
    return matrix.astype(numpy_dtype(attrs.get("dtype", x.dtype.name)))


def _reverse_types(site: Site) -> tuple[Tensor, ...]:
    batch, time = site.integer("batch_axis", 1), site.integer("time_axis")
    if {batch, time} != {0, 1}:
        site.fail(
            f"batch_axis is {batch} and time_axis {time}",
            expected="one of them 0, the other one 1",
        )
    demand_shape(site, 1, site.shape()[batch : batch + 1], "the tensor of lengths")
    return (site.tensor(0),)


def _lower_reverse(low: Lowering) -> None:
    site, nest = low.site, low.nest("reverse_sequence")
    batch, time = site.integer("batch_axis", 1), site.integer("time_axis")

    def body(axes: tuple[Axis, ...]) -> Expr:
        step = IndexValue(var(axes[time].name))
        length = nest.load(site.arg(1), "length", (var(axes[batch].name),))
        last = call("sub", length, Const(1, "int64"))
        place = call("where", call("lt", step, length), call("sub", last, step), step)
        index = tuple(place if d == time else var(a.name) for d, a in enumerate(axes))
        return Read(nest.tensor(site.arg(0), "x"), index)

    nest.map("y", low.result, body)


def _reverse(attrs: Mapping[str, Any], args: Any) -> Any:
    x, lengths = args
    batch, time = attrs.get("batch_axis", 1), attrs.get("time_axis", 0)
    steps = np.arange(x.shape[time])[:, None]
    place = np.where(steps < lengths, lengths - 1 - steps, steps)
    place = place if time < batch else place.T
    shape = [x.shape[d] if d in (batch, time) else 1 for d in range(x.ndim)]
    return np.take_along_axis(x, place.reshape(shape), time)


RECORDS = (
    OperatorRecord("TopK", "layout", _top_types, _top, _lower_top, None, {1: "k"}, run_time=TOP_K),
    OperatorRecord("EyeLike", "layout", _eye_types, _eye, _lower_eye),
    OperatorRecord(
        "ReverseSequence",
        "layout",
        _reverse_types,
        _reverse,
        _lower_reverse,
        ranks={0: (2, None), 1: (1, 1)},
    ),
)
