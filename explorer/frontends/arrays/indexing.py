"""`x[...]` and its relatives: slices, constant indices, and index arrays."""

from __future__ import annotations

from typing import Any

import numpy

from explorer.frontends.arrays.axes import axis_of, refuse
from explorer.frontends.arrays.joining import stack
from explorer.frontends.arrays.run_time import nonzero
from explorer.frontends.arrays.shaping import (
    broadcast_arrays,
    broadcast_to,
    expand_dims,
    moveaxis,
    ravel,
    reshape,
    transpose,
)
from explorer.frontends.arrays.slices import apply_slices, checked_index, is_number, squeeze_axes
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.dims import SymbolicDim, python_dim
from explorer.frontends.tracing.emit import emit, emit_several
from explorer.frontends.tracing.frames import current_frame
from explorer.frontends.tracing.operation import distinct, mark_views, operation
from explorer.frontends.tracing.promote import converted, traced


@operation(lambda x, index: x[index], "index", views=None, on_complex="parts")
def getitem(x: Any, index: Any) -> Any:
    """Return `x[index]`: NumPy's indexing, basic and advanced."""
    array = traced(x)
    indices = index if isinstance(index, tuple) else (index,)
    if len(indices) == 1 and _is_flag(indices[0]):
        return expand_dims(array, 0)[reshape(traced(indices[0]), (1,))]
    _check_masks(array, indices)
    written = [i for item in indices for i in basic_items(item)]
    items = items_by_dim(written, array.ndim)
    new = tuple(d for d, item in enumerate(items) if item is None)
    array = expand_dims(array, new) if new else array
    places: list[Any] = [slice(None) if item is None else item for item in items]
    if any(isinstance(p, TracedArray) for p in places):
        places = [
            traced(checked_index(p, array, d)) if is_number(p) else p for d, p in enumerate(places)
        ]
    array = apply_slices(array, places)
    array = squeeze_axes(array, [d for d, p in enumerate(places) if is_number(p)])
    remaining = [p for p in places if not is_number(p)]
    at = {d: p for d, p in enumerate(remaining) if isinstance(p, TracedArray)}
    result = _gather_indices(array, at, together=_are_adjacent(written))
    is_basic = not any(isinstance(i, TracedArray) and i.ndim for i in written)
    return mark_views(result, x) if is_basic and result.ndim else distinct(result, (x,))


def _check_masks(x: TracedArray, items: tuple[Any, ...]) -> None:
    """Raise ShapeError if a mask's dims differ from those it selects from."""
    dims, at = x.type.dims, 0
    for n, item in enumerate(items):
        if item is Ellipsis:
            at = x.ndim - sum(map(_dims_taken, items[n + 1 :]))
            continue
        mask = item.type.dims if isinstance(item, TracedArray) else numpy.shape(item)
        for d, extent in enumerate(mask if _is_mask(item) else ()):
            have = dims[at + d] if 0 <= at + d < len(dims) else extent
            if isinstance(have, int) and isinstance(extent, int) and have != extent:
                refuse(f"a mask of {extent} elements selects from dim {at + d}, which has {have}")
        at += _dims_taken(item)


def _is_flag(item: Any) -> bool:
    """Return True for a single bool, which selects all of an array or nothing."""
    if isinstance(item, TracedArray):
        return item.ndim == 0 and item.dtype.kind == "b"
    return isinstance(item, bool | numpy.bool_)


def _is_mask(item: Any) -> bool:
    if isinstance(item, TracedArray):
        return item.dtype.kind == "b"
    return isinstance(item, (list, numpy.ndarray)) and numpy.asarray(item).dtype.kind == "b"


def _dims_taken(item: Any) -> int:
    if item is None or item is Ellipsis:
        return 0
    return (
        (item.ndim if isinstance(item, TracedArray) else numpy.ndim(item)) if _is_mask(item) else 1
    )


def items_by_dim(items: list[Any], rank: int) -> list[Any]:
    """Return one item for each dim and each new one: a slice, a number, an array, or None."""
    indexed = sum(1 for i in items if i is not None and i is not Ellipsis)
    if indexed > rank:
        refuse(f"{indexed} indices are too many for an array of {rank} dims")
    gaps = [d for d, i in enumerate(items) if i is Ellipsis]
    if len(gaps) > 1:
        refuse("an index may contain one ellipsis only")
    at = gaps[0] if gaps else len(items)
    return [*items[:at], *[slice(None)] * (rank - indexed), *items[at + 1 :]]


def _are_adjacent(items: list[Any]) -> bool:
    """Return True if the arrays and numbers of an index are adjacent.

    An ellipsis separates them, even an empty one.
    """
    at = [d for d, i in enumerate(items) if isinstance(i, TracedArray) or is_number(i)]
    return bool(at) and at[-1] - at[0] == len(at) - 1


def basic_items(item: Any) -> list[Any]:
    """Return the basic items that one index item stands for.

    A boolean mask becomes one array of indices for each of its dims.
    """
    if item is None or item is Ellipsis or isinstance(item, (slice, SymbolicDim)):
        return [item]
    if isinstance(item, (int, numpy.integer)) and not isinstance(item, bool):
        return [int(item)]
    places = traced(numpy.zeros(0, numpy.int64) if isinstance(item, list) and not item else item)
    if places.dtype.kind == "b":
        if places.ndim == 0:
            refuse("a single bool cannot be combined with other indices")
        return list(nonzero(places))
    if places.dtype.kind not in "iu":
        refuse(f"an array of {places.dtype} cannot be an index; use integers or bools")
    return [places if places.dtype.name in ("int32", "int64") else converted(places, "int64")]


# Index arrays.


def _gather_indices(x: TracedArray, at: dict[int, TracedArray], *, together: bool) -> TracedArray:
    """Gather at index arrays.

    One array selects slices along its dim. For several, the dims of the broadcast indices come
    first; if the arrays were adjacent, they take the place of the first indexed dim.
    """
    axes = sorted(at)
    for axis in axes:
        _check_indices(x, axis, at[axis])
    if not axes:
        return x
    if len(axes) == 1:
        return emit("Gather", x, at[axes[0]], axis=axes[0])
    other_dims = [d for d in range(x.ndim) if d not in at]
    places = broadcast_arrays(*(at[a] for a in axes))
    rows = stack(list(places), -1)
    gathered = emit("GatherND", transpose(x, (*axes, *other_dims)), rows)
    shared = places[0].ndim
    if together and axes[0] > 0 and shared:
        gathered = moveaxis(gathered, tuple(range(shared)), tuple(range(axes[0], axes[0] + shared)))
    return gathered


def _check_indices(x: TracedArray, axis: int, places: TracedArray) -> None:
    """Raise ShapeError if constant indices are out of range."""
    extent, constant = x.type.dims[axis], current_frame().recorder.constants.get(places.value.name)
    if constant is None or not isinstance(extent, int) or not constant.array.size:
        return
    least, most = int(constant.array.min()), int(constant.array.max())
    if least < -extent or most >= extent:
        wrong = least if least < -extent else most
        refuse(f"index {wrong} is out of range for dim {axis}, which has {extent} elements")


@operation(numpy.take, on_complex="parts")
def take(x: Any, indices: Any, axis: int | None = None) -> Any:
    """Apply NumPy's `take`; without an axis, of the flattened array."""
    array = ravel(x) if axis is None else traced(x)
    at = axis_of(axis or 0, array.ndim)
    places = traced(indices)
    return array[(*(slice(None),) * at, places)]


@operation(numpy.take_along_axis)
def take_along_axis(x: Any, indices: Any, axis: int | None = -1) -> Any:
    """Apply NumPy's `take_along_axis`: one index for each element of the result.

    The other dims of both arrays are broadcast.
    """
    array, places = ravel(x) if axis is None else traced(x), traced(indices)
    at = axis_of(0 if axis is None else axis, array.ndim)
    if places.ndim != array.ndim:
        refuse(
            f"take_along_axis takes indices of {array.ndim} dims, as x has, not of {places.ndim}"
        )
    if places.dtype.kind not in "iu":
        refuse(f"take_along_axis takes integer indices, not {places.dtype}")
    array, places = _broadcast_except(at, array, places)
    _check_indices(array, at, places)
    return emit("GatherElements", array, converted(places, "int64"), axis=at)


def _broadcast_except(axis: int, x: TracedArray, y: TracedArray) -> tuple[TracedArray, TracedArray]:
    """Broadcast both arrays to the same dims, except for one axis."""
    left, right = list(x.type.dims), list(y.type.dims)
    for d, (a, b) in enumerate(zip(left, right, strict=True)):
        if d == axis or a == b:
            continue
        if a == 1 or b == 1:
            left[d] = right[d] = b if a == 1 else a
        elif current_frame().recorder.env.equal(a, b) is False:
            refuse(f"dim {d} of {x.type} and of the indices {y.type} differ, and neither is 1")
    dims = (tuple(map(python_dim, extents)) for extents in (left, right))
    return broadcast_to(x, next(dims)), broadcast_to(y, next(dims))


@operation(numpy.compress)
def compress(condition: Any, x: Any, axis: int | None = None) -> Any:
    """Apply NumPy's `compress`: the slices where the condition is true."""
    (places,) = nonzero(condition)
    return take(x, places, axis)


# Sorting.


@operation(numpy.sort)
def sort(x: Any, axis: int | None = -1) -> Any:
    """Apply NumPy's `sort`."""
    return _sort_with_indices(x, axis)[0]


@operation(numpy.argsort)
def argsort(x: Any, axis: int | None = -1, *, stable: bool = True) -> Any:
    """Apply NumPy's `argsort`; the sort is stable."""
    return _sort_with_indices(x, axis)[1]


def _sort_with_indices(x: Any, axis: int | None) -> Any:
    array = ravel(x) if axis is None else traced(x)
    at = axis_of(-1 if axis is None else axis, array.ndim)
    wide = converted(array, "int32") if array.dtype.kind == "b" else array
    values, places = emit_several(
        "TopK", 2, wide, k=(wide.type.dims[at],), axis=at, largest=0, sorted=1
    )
    return converted(values, array.dtype), places
