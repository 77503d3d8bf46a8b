"""`x[...]` and its relatives: slices, constant indices, and index arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy

from explorer.frontends.python.arrays.creation import stack
from explorer.frontends.python.arrays.run_time import nonzero
from explorer.frontends.python.arrays.shaping import (
    axis_of,
    broadcast_arrays,
    broadcast_to,
    expand_dims,
    moveaxis,
    ravel,
    refuse,
    reshape,
    squeeze,
    transpose,
)
from explorer.frontends.python.tracing.array import TracedArray
from explorer.frontends.python.tracing.dims import SymbolicDim, plain_dim, python_dim
from explorer.frontends.python.tracing.emit import (
    cast_to_symbols,
    converted,
    emit,
    emit_several,
    traced,
)
from explorer.frontends.python.tracing.frames import current_frame
from explorer.frontends.python.tracing.operation import distinct, mark_views, operation
from explorer.ir.dims import Dim, simplify
from explorer.ir.types import Tensor


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
    array = _apply_slices(array, places)
    array = _squeeze_axes(array, [d for d, p in enumerate(places) if is_number(p)])
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
    if constant is None or not isinstance(extent, int) or not constant.size:
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


# Slices.


END = 1 << 62  # beyond any extent


@dataclass(frozen=True, slots=True)
class StaticSlice:
    """`start : stop : step` of a dim; every bound is a number or a symbolic dim."""

    axis: int
    start: Dim
    stop: Dim
    step: int = 1


def is_number(place: Any) -> bool:
    """Return True if an index item removes its dim."""
    return isinstance(place, (int, SymbolicDim))


def _apply_slices(x: TracedArray, places: list[Any]) -> TracedArray:
    """Slice the array; a number becomes a slice of extent 1."""
    cuts: list[StaticSlice] = []
    at_run_time: list[tuple[int, slice]] = []
    for axis, place in enumerate(places):
        if is_number(place):
            cuts.append(_element_slice(x, axis, place))
        elif isinstance(place, slice) and not _is_whole(place):
            static_cut = _static_slice(axis, place)
            if static_cut is None:
                at_run_time.append((axis, place))
            else:
                cuts.append(static_cut)
    backwards = [c for c in cuts if c.step < 0 and _may_start_before(x, c)]
    x = _emit_slice(x, [StaticSlice(c.axis, 0, simplify(c.start + 1)) for c in backwards])
    x = _emit_slice(x, [_from_end(c) if c in backwards else c for c in cuts])
    for axis, place in at_run_time:
        x = _slice_at_run_time(x, axis, place)
    return x


def _emit_slice(x: TracedArray, cuts: list[StaticSlice]) -> TracedArray:
    if not cuts:
        return x
    return emit(
        "Slice",
        x,
        axes=tuple(c.axis for c in cuts),
        starts=tuple(c.start for c in cuts),
        ends=tuple(c.stop for c in cuts),
        steps=tuple(c.step for c in cuts),
    )


def _may_start_before(x: TracedArray, c: StaticSlice) -> bool:
    """Return True if a backwards slice may start before the first element.

    NumPy's result is empty then; ONNX starts at the first element.
    """
    low, high = current_frame().recorder.env.bounds(c.start)
    if low >= 0 or (high is not None and high >= 0) or c.start == -1:
        return False
    return current_frame().recorder.env.bounds(simplify(x.type.dims[c.axis] + c.start))[0] < 0


def _from_end(c: StaticSlice) -> StaticSlice:
    """Return `x[start : stop : -k]`, start negative, as a slice of `x[: start + 1]`."""
    low, high = current_frame().recorder.env.bounds(c.stop)
    if low >= 0 or c.stop == -END:
        return StaticSlice(c.axis, END, c.stop, c.step)
    stop = simplify(c.stop - c.start - 1)
    low, high = current_frame().recorder.env.bounds(stop)
    if high is not None and high < 0:
        return StaticSlice(c.axis, END, stop, c.step)
    if low >= 0:  # it stops before it starts
        return StaticSlice(c.axis, 0, 0, 1)
    return refuse(f"cannot prove whether the slice stop {c.stop} is before its start {c.start}")


def _static_slice(axis: int, place: slice) -> StaticSlice | None:
    """Return the slice; None if a bound is known only at run time or its sign is unknown."""
    start, stop, step = _bounds(place)
    first, last = plain_dim(start), plain_dim(stop)
    if first is None or last is None or not (_sign_is_known(first) and _sign_is_known(last)):
        return None
    return StaticSlice(axis, first, last, step)


def _bounds(place: slice) -> tuple[Any, Any, int]:
    step = 1 if place.step is None else plain_dim(place.step)
    if not isinstance(step, int) or step == 0:
        refuse(f"the step of a slice must be a nonzero number, not {place.step}")
    start = (0 if step > 0 else END) if place.start is None else place.start
    stop = (END if step > 0 else -END) if place.stop is None else place.stop
    return start, stop, step


def _is_whole(place: slice) -> bool:
    return place.start is None and place.stop is None and place.step in (None, 1)


def _sign_is_known(dim: Dim) -> bool:
    """Return True if an index is proved to count from the start, or from the end."""
    low, high = current_frame().recorder.env.bounds(dim)
    return low >= 0 or (high is not None and high < 0)


def _slice_at_run_time(x: TracedArray, axis: int, place: slice) -> TracedArray:
    start, stop, step = _bounds(place)
    if step < 0:
        refuse("a backwards slice needs bounds known while tracing; flip a forward slice instead")
    starts, ends = (converted(v, "int64").reshape(1) for v in (start, stop))
    rows = (traced(numpy.array([value], numpy.int64)) for value in (axis, step))
    dims = tuple(None if d == axis else n for d, n in enumerate(x.type.dims))
    kind = Tensor(None, x.type.element, x.ndim)
    return emit("Slice", x, starts, ends, *rows, types=[kind], dims=dims)


# Numbers.


def checked_index(place: Any, x: TracedArray, axis: int) -> Any:
    """Return a number that indexes an element; raise ShapeError if it is out of range."""
    extent, dim = x.type.dims[axis], plain_dim(place)
    assert dim is not None
    if isinstance(extent, int) and isinstance(dim, int):
        if not -extent <= dim < extent:
            refuse(f"index {dim} is out of range for dim {axis}, which has {extent} elements")
        return dim % extent
    if not _sign_is_known(dim):
        refuse(f"cannot prove whether the index {dim} is negative")
    return place


def _element_slice(x: TracedArray, axis: int, place: Any) -> StaticSlice:
    first = plain_dim(checked_index(place, x, axis))
    assert first is not None
    return StaticSlice(axis, first, END if first == -1 else simplify(first + 1))


def _squeeze_axes(x: TracedArray, axes: list[int]) -> TracedArray:
    """Squeeze dims of extent 1; an extent that is not proved to be 1 is checked at run time."""
    shape = x.type.dims
    if any(shape[a] != 1 for a in axes):
        frame = current_frame()
        target = tuple(1 if d in axes else n for d, n in enumerate(shape))
        x = TracedArray(cast_to_symbols(frame, frame.own(x.value, x.home), target, "index"), frame)
    squeezed: TracedArray = squeeze(x, tuple(axes)) if axes else x
    return squeezed
