"""`x[...]` and its relatives: slices, places that are numbers, and places that are data."""

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
from explorer.frontends.arrays.slices import checked, cut, is_number, one_each
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.dims import SymbolicDim, python_dim
from explorer.frontends.tracing.emit import emit, emit_several
from explorer.frontends.tracing.frames import current_frame
from explorer.frontends.tracing.operation import apart, operation, viewed
from explorer.frontends.tracing.promote import converted, traced


@operation(lambda x, index: x[index], "index", views=None, on_complex="parts")
def getitem(x: Any, index: Any) -> Any:
    """`x[index]`: NumPy's indexing, basic and advanced."""
    given = traced(x)
    indices = index if isinstance(index, tuple) else (index,)
    if len(indices) == 1 and _is_flag(indices[0]):
        return expand_dims(given, 0)[reshape(traced(indices[0]), (1,))]
    _check_masks(given, indices)
    written = [i for item in indices for i in items_of(item)]
    items = for_each_dim(written, given.ndim)
    new = tuple(d for d, item in enumerate(items) if item is None)
    given = expand_dims(given, new) if new else given
    places: list[Any] = [slice(None) if item is None else item for item in items]
    if any(isinstance(p, TracedArray) for p in places):
        places = [traced(checked(p, given, d)) if is_number(p) else p for d, p in enumerate(places)]
    given = cut(given, places)
    given = one_each(given, [d for d, p in enumerate(places) if is_number(p)])
    kept = [p for p in places if not is_number(p)]
    at = {d: p for d, p in enumerate(kept) if isinstance(p, TracedArray)}
    found = _gathered(given, at, together=_stand_together(written))
    is_basic = not any(isinstance(i, TracedArray) and i.ndim for i in written)
    return viewed(found, x) if is_basic and found.ndim else apart(found, (x,))


def _check_masks(x: TracedArray, items: tuple[Any, ...]) -> None:
    """ShapeError where a mask does not have the dims that it selects from."""
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
    """Whether an index is a single bool: it takes all of an array, or nothing."""
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


def for_each_dim(items: list[Any], rank: int) -> list[Any]:
    """One item for each dim and each new one: a slice, a number, an array, or None."""
    taken = sum(1 for i in items if i is not None and i is not Ellipsis)
    if taken > rank:
        refuse(f"{taken} indices are too many for an array of {rank} dims")
    gaps = [d for d, i in enumerate(items) if i is Ellipsis]
    if len(gaps) > 1:
        refuse("an index may hold one ellipsis")
    at = gaps[0] if gaps else len(items)
    return [*items[:at], *[slice(None)] * (rank - taken), *items[at + 1 :]]


def _stand_together(items: list[Any]) -> bool:
    """Whether nothing stands between arrays and numbers of an index, be it an empty ellipsis."""
    at = [d for d, i in enumerate(items) if isinstance(i, TracedArray) or is_number(i)]
    return bool(at) and at[-1] - at[0] == len(at) - 1


def items_of(item: Any) -> list[Any]:
    if item is None or item is Ellipsis or isinstance(item, (slice, SymbolicDim)):
        return [item]
    if isinstance(item, (int, numpy.integer)) and not isinstance(item, bool):
        return [int(item)]
    places = traced(numpy.zeros(0, numpy.int64) if isinstance(item, list) and not item else item)
    if places.dtype.kind == "b":
        if places.ndim == 0:
            refuse("a single bool is no index")
        return list(nonzero(places))
    if places.dtype.kind not in "iu":
        refuse(f"an index of {places.dtype} is no place")
    return [places if places.dtype.name in ("int32", "int64") else converted(places, "int64")]


# Arrays of places.


def _gathered(x: TracedArray, at: dict[int, TracedArray], *, together: bool) -> TracedArray:
    """One array: slices along its dim. Several: the dims they share come first, or where they stood
    if they stood together.
    """
    axes = sorted(at)
    for axis in axes:
        _check_places(x, axis, at[axis])
    if not axes:
        return x
    if len(axes) == 1:
        return emit("Gather", x, at[axes[0]], axis=axes[0])
    rest = [d for d in range(x.ndim) if d not in at]
    places = broadcast_arrays(*(at[a] for a in axes))
    rows = stack(list(places), -1)
    found = emit("GatherND", transpose(x, (*axes, *rest)), rows)
    shared = places[0].ndim
    if together and axes[0] > 0 and shared:
        found = moveaxis(found, tuple(range(shared)), tuple(range(axes[0], axes[0] + shared)))
    return found


def _check_places(x: TracedArray, axis: int, places: TracedArray) -> None:
    """ShapeError where places that are known name no element."""
    extent, known = x.type.dims[axis], current_frame().recorder.constants.get(places.value.name)
    if known is None or not isinstance(extent, int) or not known.array.size:
        return
    least, most = int(known.array.min()), int(known.array.max())
    if least < -extent or most >= extent:
        wrong = least if least < -extent else most
        refuse(f"index {wrong} is outside of dim {axis}, which has {extent} elements")


@operation(numpy.take, on_complex="parts")
def take(x: Any, indices: Any, axis: int | None = None) -> Any:
    """NumPy's `take`: the slices at these places; of all elements where no axis is given."""
    given = ravel(x) if axis is None else traced(x)
    at = axis_of(axis or 0, given.ndim)
    places = traced(indices)
    return given[(*(slice(None),) * at, places)]


@operation(numpy.take_along_axis)
def take_along_axis(x: Any, indices: Any, axis: int | None = -1) -> Any:
    """NumPy's `take_along_axis`: one place for each element of the result; the other dims of both
    are broadcast.
    """
    given, places = ravel(x) if axis is None else traced(x), traced(indices)
    at = axis_of(0 if axis is None else axis, given.ndim)
    if places.ndim != given.ndim:
        refuse(f"take_along_axis takes places of {given.ndim} dims, as x has, not of {places.ndim}")
    if places.dtype.kind not in "iu":
        refuse(f"take_along_axis takes integers as places, not {places.dtype}")
    given, places = _broadcast_but(at, given, places)
    _check_places(given, at, places)
    return emit("GatherElements", given, converted(places, "int64"), axis=at)


def _broadcast_but(axis: int, x: TracedArray, y: TracedArray) -> tuple[TracedArray, TracedArray]:
    """Both arrays with the same dims but one."""
    left, right = list(x.type.dims), list(y.type.dims)
    for d, (a, b) in enumerate(zip(left, right, strict=True)):
        if d == axis or a == b:
            continue
        if a == 1 or b == 1:
            left[d] = right[d] = b if a == 1 else a
        elif current_frame().recorder.env.equal(a, b) is False:
            refuse(f"dim {d} of {x.type} and of the places {y.type} differ; one of them may be 1")
    dims = (tuple(map(python_dim, side)) for side in (left, right))
    return broadcast_to(x, next(dims)), broadcast_to(y, next(dims))


@operation(numpy.compress)
def compress(condition: Any, x: Any, axis: int | None = None) -> Any:
    """NumPy's `compress`: the slices at which the condition holds."""
    (places,) = nonzero(condition)
    return take(x, places, axis)


# Order.


@operation(numpy.sort)
def sort(x: Any, axis: int | None = -1) -> Any:
    """NumPy's `sort`."""
    return _ordered(x, axis)[0]


@operation(numpy.argsort)
def argsort(x: Any, axis: int | None = -1, *, stable: bool = True) -> Any:
    """NumPy's `argsort`; of equal elements the first one comes first."""
    return _ordered(x, axis)[1]


def _ordered(x: Any, axis: int | None) -> Any:
    given = ravel(x) if axis is None else traced(x)
    at = axis_of(-1 if axis is None else axis, given.ndim)
    wide = converted(given, "int32") if given.dtype.kind == "b" else given
    values, places = emit_several(
        "TopK", 2, wide, k=(wide.type.dims[at],), axis=at, largest=0, sorted=1
    )
    return converted(values, given.dtype), places
