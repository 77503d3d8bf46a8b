"""`x[...]` and its relatives: slices, places that are numbers, and places that are data."""

from __future__ import annotations

from typing import Any

import numpy

from explorer.frontends.arrays.axes import axis_of, refuse
from explorer.frontends.arrays.joining import stack
from explorer.frontends.arrays.run_time import nonzero
from explorer.frontends.arrays.shaping import (
    broadcast_arrays,
    expand_dims,
    moveaxis,
    ravel,
    squeeze,
    transpose,
)
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.dims import SymbolicDim, plain_dim
from explorer.frontends.tracing.emit import cast, emit, emit_several
from explorer.frontends.tracing.frames import current_frame
from explorer.frontends.tracing.operation import operation
from explorer.frontends.tracing.promote import converted, traced
from explorer.ir.dims import Dim, simplify
from explorer.ir.types import Tensor

END = 1 << 62  # past any dim


@operation(lambda x, index: x[index], "index")
def getitem(x: Any, index: Any) -> Any:
    """`x[index]`: NumPy's indexing, basic and advanced."""
    given = traced(x)
    items = _items(index if isinstance(index, tuple) else (index,), given.ndim)
    new = tuple(d for d, item in enumerate(items) if item is None)
    given = expand_dims(given, new) if new else given
    places: list[Any] = [slice(None) if item is None else item for item in items]
    if any(isinstance(p, TracedArray) for p in places):
        places = [
            traced(_checked(p, given, d)) if _is_number(p) else p for d, p in enumerate(places)
        ]
    given = _cut(given, places)
    given = _one_each(given, [d for d, p in enumerate(places) if _is_number(p)])
    kept = [p for p in places if not _is_number(p)]
    return _gathered(given, {d: p for d, p in enumerate(kept) if isinstance(p, TracedArray)})


def _is_number(place: Any) -> bool:
    return isinstance(place, (int, SymbolicDim))


def _items(index: tuple[Any, ...], rank: int) -> list[Any]:
    """One item for each dim and each new one: a slice, a number, an array, or None."""
    items: list[Any] = []
    for item in index:
        items += _item(item)
    taken = sum(1 for i in items if i is not None and i is not Ellipsis)
    if taken > rank:
        refuse(f"{taken} indices are too many for an array of {rank} dims")
    gaps = [d for d, i in enumerate(items) if i is Ellipsis]
    if len(gaps) > 1:
        refuse("an index may hold one ellipsis")
    at = gaps[0] if gaps else len(items)
    return [*items[:at], *[slice(None)] * (rank - taken), *items[at + 1 :]]


def _item(item: Any) -> list[Any]:
    if item is None or item is Ellipsis or isinstance(item, (slice, SymbolicDim)):
        return [item]
    if isinstance(item, (int, numpy.integer)) and not isinstance(item, bool):
        return [int(item)]
    places = traced(item)
    if places.dtype.kind == "b":
        if places.ndim == 0:
            refuse("a single bool is no index")
        return list(nonzero(places))
    if places.dtype.kind not in "iu":
        refuse(f"an index of {places.dtype} is no place")
    return [places if places.dtype.name in ("int32", "int64") else converted(places, "int64")]


# Slices.


def _cut(x: TracedArray, places: list[Any]) -> TracedArray:
    """The slices, and for each number a slice of extent 1."""
    cuts: list[tuple[int, Dim, Dim, int]] = []
    at_run_time: list[tuple[int, Any, Any, int]] = []
    for axis, place in enumerate(places):
        if _is_number(place):
            first = _checked(place, x, axis)
            last = END if first == -1 else simplify(plain_dim(first) + 1)  # type: ignore[operator]
            cuts.append((axis, plain_dim(first) or 0, last, 1))
        elif isinstance(place, slice) and not _is_whole(place):
            start, stop, step = _bounds(place)
            known = all(_sign_is_known(v) for v in (start, stop))
            (cuts if known else at_run_time).append((axis, start, stop, step))
    if cuts:
        axes, starts, ends, steps = zip(*cuts, strict=True)
        x = emit(
            "Slice",
            x,
            axes=axes,
            starts=tuple(plain_dim(s) for s in starts),
            ends=tuple(plain_dim(e) for e in ends),
            steps=steps,
        )
    for axis, start, stop, step in at_run_time:
        starts, ends = (converted(v, "int64").reshape(1) for v in (start, stop))
        dims = tuple(None if d == axis else n for d, n in enumerate(x.type.dims))
        kind = Tensor(None, x.type.element, x.ndim)
        x = emit("Slice", x, starts, ends, *map(_row, (axis, step)), types=[kind], dims=dims)
    return x


def _is_whole(place: slice) -> bool:
    return place.start is None and place.stop is None and place.step in (None, 1)


def _row(value: int) -> TracedArray:
    return traced(numpy.array([value], numpy.int64))


def _bounds(place: slice) -> tuple[Any, Any, int]:
    step = 1 if place.step is None else plain_dim(place.step)
    if not isinstance(step, int) or step == 0:
        refuse(f"the step of a slice is a number other than 0, and is {place.step}")
    start = (0 if step > 0 else END) if place.start is None else place.start
    stop = (END if step > 0 else -END) if place.stop is None else place.stop
    return start, stop, step


def _sign_is_known(place: Any) -> bool:
    """Whether it is clear that a place counts from the start, or from the end."""
    dim = plain_dim(place)
    if dim is None:
        return False
    low, high = current_frame().recorder.env.bounds(dim)
    return low >= 0 or (high is not None and high < 0)


# Numbers.


def _checked(place: Any, x: TracedArray, axis: int) -> Any:
    """A number that names an element: ShapeError where it never can."""
    extent, dim = x.type.dims[axis], plain_dim(place)
    if isinstance(extent, int) and isinstance(dim, int) and not -extent <= dim < extent:
        refuse(f"index {dim} is outside of dim {axis}, which has {extent} elements")
    if isinstance(extent, int) and isinstance(dim, int):
        return dim % extent
    if not _sign_is_known(place):
        refuse(f"whether the index {dim} counts from the start or from the end is not known")
    return place


def _one_each(x: TracedArray, axes: list[int]) -> TracedArray:
    """Without dims of extent 1; the run checks those of which that is not proved."""
    shape = x.type.dims
    if any(shape[a] != 1 for a in axes):
        frame = current_frame()
        wanted = tuple(1 if d in axes else n for d, n in enumerate(shape))
        x = TracedArray(cast(frame, frame.own(x.value, x.home), wanted, "index"), frame)
    return squeeze(x, tuple(axes)) if axes else x


# Arrays of places.


def _gathered(x: TracedArray, at: dict[int, TracedArray]) -> TracedArray:
    """One array: slices along its dim. Several: the dims they share come first, or where they stood
    if they stood together.
    """
    axes = sorted(at)
    if not axes:
        return x
    if len(axes) == 1:
        return emit("Gather", x, at[axes[0]], axis=axes[0])
    rest = [d for d in range(x.ndim) if d not in at]
    places = broadcast_arrays(*(at[a] for a in axes))
    rows = stack(list(places), -1)
    found = emit("GatherND", transpose(x, (*axes, *rest)), rows)
    shared = places[0].ndim
    together = axes == list(range(axes[0], axes[0] + len(axes)))
    if together and axes[0] > 0 and shared:
        found = moveaxis(found, tuple(range(shared)), tuple(range(axes[0], axes[0] + shared)))
    return found


@operation(numpy.take)
def take(x: Any, indices: Any, axis: int | None = None) -> Any:
    """NumPy's `take`: the slices at these places; of all elements where no axis is given."""
    given = ravel(x) if axis is None else traced(x)
    at = axis_of(axis or 0, given.ndim)
    places = traced(indices)
    return given[(*(slice(None),) * at, places)]


@operation(numpy.take_along_axis)
def take_along_axis(x: Any, indices: Any, axis: int = -1) -> Any:
    """NumPy's `take_along_axis`: one place for each element of the result."""
    given, places = traced(x), traced(indices)
    at = axis_of(axis, given.ndim)
    return emit("GatherElements", given, converted(places, "int64"), axis=at)


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
