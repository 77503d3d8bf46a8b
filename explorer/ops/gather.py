"""Reads at data-dependent positions: an index of a load is itself an expression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from explorer.ir.affine import Affine, var
from explorer.ir.calls import Var
from explorer.ir.dims import Dim, concrete_dim, product
from explorer.ir.kernel import Axis, Const, Expr, IndexValue, Read
from explorer.ir.types import Tensor
from explorer.ops.elementwise import call
from explorer.ops.lowering import Lowering, Nest, entry
from explorer.ops.record import HostNumber, OperatorRecord, RunTime, Site, Values
from explorer.ops.run_time import Host, symbolic
from explorer.ops.shape_rules import demand_shape, demand_within
from explorer.ops.slicing import lower_slice


def from_end(place: Expr, extent: Dim, dtype: str) -> Expr:
    """Return an index that counts from the end of `extent` if it is negative."""
    wrapped = call("add", place, Const(extent, dtype))
    return call("where", call("lt", place, 0, dtype=dtype), wrapped, place)


def _index(low: Lowering, nest: Nest, value: Var, at: tuple[Affine, ...], extent: Dim) -> Expr:
    """Load an index into a dim of `extent`."""
    place, constant = nest.load(value, "index", at), low.array(value)
    if constant is not None and constant.size and constant.min() >= 0:
        return place
    return from_end(place, extent, value.tensor.element)


# Gather: slices along one axis.


def check_indices(site: Site, extent: Dim, column: int | None = None) -> None:
    """Raise ShapeError if a known index is out of range.

    `column` selects one column of rows of indices.
    """
    indices = site.values[1] if len(site.values) > 1 else None
    if indices is None or not isinstance(extent, int):
        return
    for place in (indices if column is None else indices[..., column]).reshape(-1):
        if isinstance(place, int) and not -extent <= place < extent:
            site.fail(f"the index {place} names none of {extent} elements")


def _gather_types(site: Site) -> tuple[Tensor, ...]:
    x, index = site.shape(0), site.shape(1)
    axis = site.axis(len(x), 0)
    check_indices(site, x[axis])
    return (Tensor((*x[:axis], *index, *x[axis + 1 :]), site.dtype()),)


def _lower_gather(low: Lowering) -> None:
    site, x, index = low.site, low.site.shape(0), low.site.shape(1)
    axis, index_value = site.axis(len(site.shape(0)), 0), low.scalar(site.arg(1))
    if index_value is not None and -low.least(x[axis]) <= index_value < low.least(x[axis]):
        start: list[Dim] = [0] * len(x)
        start[axis] = int(index_value) if index_value >= 0 else x[axis] + int(index_value)
        _one_slice(low, axis, start)
        return
    nest = low.nest("gather")

    def body(axes: tuple[Axis, ...]) -> Expr:
        inner = axes[axis : axis + len(index)]
        at = tuple(entry(a, n) for a, n in zip(inner, index, strict=True))
        place = _index(low, nest, site.arg(1), at, x[axis])
        result_axes = [*axes[:axis], None, *axes[axis + len(index) :]]
        full_index = tuple(place if a is None else entry(a, a.extent) for a in result_axes)
        return Read(nest.tensor(site.arg(0), "x"), full_index)

    nest.map("y", low.result, body)


def _one_slice(low: Lowering, axis: int, start: list[Dim]) -> None:
    """Gather at one known index: a slice of extent 1 in the result's shape."""
    x = low.site.shape(0)
    slice_shape = tuple(1 if d == axis else n for d, n in enumerate(x))
    if all(n == 1 for n in x[:axis]):  # contiguous
        offset = product((start[axis], *x[axis + 1 :]))
        low.view(low.result, low.site.arg(0), offset)
    elif slice_shape == low.shape:
        lower_slice(low, low.result, start, (1,) * len(x))
    else:
        part = low.temporary("slice", slice_shape, low.site.dtype())
        lower_slice(low, part, start, (1,) * len(x))
        low.view(low.result, part)


def _gather(attrs: Mapping[str, Any], args: Any) -> Any:
    return np.take(args[0], args[1].astype(np.int64), axis=attrs.get("axis", 0))


def _fold_gather(site: Site) -> tuple[Values | None, ...]:
    x, index = site.values[:2]
    if x is None or index is None or not all(isinstance(i, int) for i in index.reshape(-1)):
        return (None,)
    return (np.asarray(np.take(x, index.astype(np.int64), axis=site.integer("axis")), object),)


# GatherElements: one index for each element of the result.


def _elements_types(site: Site) -> tuple[Tensor, ...]:
    x = site.shape(0)
    axis = site.axis(len(x), 0)
    demand_within(site, 1, x, axis, "the tensor of indices")
    check_indices(site, x[axis])
    return (Tensor(site.shape(1), site.dtype()),)


def _lower_elements(low: Lowering) -> None:
    site, nest, x = low.site, low.nest("gather_elements"), low.site.shape(0)
    axis = site.axis(len(x), 0)

    def body(axes: tuple[Axis, ...]) -> Expr:
        at = tuple(entry(a, a.extent) for a in axes)
        place = _index(low, nest, site.arg(1), at, x[axis])
        full_index = tuple(place if d == axis else p for d, p in enumerate(at))
        return Read(nest.tensor(site.arg(0), "x"), full_index)

    nest.map("y", low.result, body)


def _elements(attrs: Mapping[str, Any], args: Any) -> Any:
    x, index, axis = args[0], args[1].astype(np.int64), attrs.get("axis", 0)
    part = tuple(
        slice(None) if d == axis % x.ndim else slice(0, n) for d, n in enumerate(index.shape)
    )
    if index.size and int(index.min()) < -x.shape[axis]:
        raise IndexError(f"index {index.min()} is out of bounds for an axis of {x.shape[axis]}")
    return np.take_along_axis(x[part], index, axis)


# GatherND: each row of indices names a place in the leading dims.


def _nd_types(site: Site) -> tuple[Tensor, ...]:
    x, index, batch = site.shape(0), site.shape(1), site.integer("batch_dims")
    depth = index[-1]
    if not isinstance(depth, int):
        site.unsupported(f"rows of {depth} indices, which only a run knows")
    if depth < 1 or batch < 0 or batch + depth > len(x):
        site.fail(f"rows of {depth} indices do not fit into a tensor of rank {len(x)}")
    demand_shape(site, 1, (*x[:batch], *index[batch:]), "the tensor of indices")
    return (Tensor((*index[:-1], *x[batch + depth :]), site.dtype()),)


def _lower_nd(low: Lowering) -> None:
    site, nest, x, index = low.site, low.nest("gather_nd"), low.site.shape(0), low.site.shape(1)
    batch, depth = site.integer("batch_dims"), concrete_dim(index[-1])

    def body(axes: tuple[Axis, ...]) -> Expr:
        rows = tuple(entry(a, n) for a, n in zip(axes, index[:-1], strict=False))
        places = [
            _index(low, nest, site.arg(1), (*rows, Affine((), d)), x[batch + d])
            for d in range(depth)
        ]
        trailing = (entry(a, a.extent) for a in axes[len(index) - 1 :])
        return Read(nest.tensor(site.arg(0), "x"), (*rows[:batch], *places, *trailing))

    nest.map("y", low.result, body)


def _nd(attrs: Mapping[str, Any], args: Any) -> Any:
    x, index, batch = args[0], args[1].astype(np.int64), attrs.get("batch_dims", 0)
    lead = np.indices(index.shape[:-1], sparse=True)[:batch]
    return x[(*lead, *np.moveaxis(index, -1, 0))]


# OneHot.


def _depth(site: Site) -> Dim:
    """Return the number of classes; ONNX allows a float for it."""
    dims: Any = site.dims("depth") or ()
    if len(dims) != 1 or (isinstance(dims[0], float) and not dims[0].is_integer()):
        site.fail(f"depth must be one whole number, and is {dims}", expected="one whole number")
    return int(dims[0]) if isinstance(dims[0], float) else dims[0]


def _one_hot_types(site: Site) -> tuple[Tensor, ...]:
    index, depth = site.shape(0), _depth(site)
    axis = site.axis(len(index), -1, end=True)
    demand_shape(site, 2, (2,), "the tensor of both values")
    return (Tensor((*index[:axis], depth, *index[axis:]), site.dtype(2)),)


def _lower_one_hot(low: Lowering) -> None:
    site, nest, index = low.site, low.nest("one_hot"), low.site.shape(0)
    axis, depth = site.axis(len(index), -1, end=True), _depth(site)
    dtype = site.dtype()

    def body(axes: tuple[Axis, ...]) -> Expr:
        rows = (*axes[:axis], *axes[axis + 1 :])
        place = nest.along(site.arg(0), "index", rows)
        here = call(f"cast_{dtype}", IndexValue(var(axes[axis].name)))
        hit = call("eq", from_end(place, depth, dtype), here)
        values = site.arg(2)
        off, on = (nest.load(values, "values", (Affine((), d),)) for d in (0, 1))
        return call("where", hit, on, off)

    nest.map("y", low.result, body)


def _one_hot(attrs: Mapping[str, Any], args: Any) -> Any:
    index, values = args[0], args[2]
    depth: Any = attrs["depth"]
    depth = int(depth[0] if isinstance(depth, tuple) else depth)
    axis = attrs.get("axis", -1)
    places = np.where(index < 0, index + depth, index)
    hit = np.expand_dims(places, axis) == np.arange(depth).reshape(
        [-1 if d == axis % (index.ndim + 1) else 1 for d in range(index.ndim + 1)]
    )
    return np.where(hit, values[1], values[0])


# OneHot with a depth that only a run knows.


def _depth_values(attrs: Mapping[str, Any], args: Sequence[Any]) -> Mapping[str, int]:
    host = Host("OneHot", attrs, args)
    depth = host.single(1)
    if depth < 0:
        host.fail(f"a depth of {depth}")
    return {"depth": depth}


def _with_depth(site: Site, symbols: Mapping[str, Dim]) -> Site:
    return symbolic(site, site.arg(0), None, site.arg(2), depth=(symbols["depth"],))


ONE_HOT = RunTime(frozenset({1}), lambda site: (HostNumber("depth"),), _depth_values, _with_depth)


RECORDS = (
    OperatorRecord("Gather", "layout", _gather_types, _gather, _lower_gather, _fold_gather),
    OperatorRecord(
        "GatherElements", "layout", _elements_types, _elements, _lower_elements, first=11
    ),
    OperatorRecord("GatherND", "layout", _nd_types, _nd, _lower_nd, first=11, ranks={1: (1, None)}),
    OperatorRecord(
        "OneHot",
        "layout",
        _one_hot_types,
        _one_hot,
        _lower_one_hot,
        None,
        {1: "depth"},
        first=9,
        run_time=ONE_HOT,
    ),
)
