"""The part of an index that is slices and numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy

from explorer.frontends.arrays.axes import refuse
from explorer.frontends.arrays.shaping import squeeze
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.dims import SymbolicDim, plain_dim
from explorer.frontends.tracing.emit import cast, emit
from explorer.frontends.tracing.frames import current_frame
from explorer.frontends.tracing.promote import converted, traced
from explorer.ir.shapes.dims import Dim, simplify
from explorer.ir.types import Tensor

END = 1 << 62  # past any dim


@dataclass(frozen=True, slots=True)
class Cut:
    """`start : stop : step` of a dim, all of them known while tracing, if only as symbols."""

    axis: int
    start: Dim
    stop: Dim
    step: int = 1


def is_number(place: Any) -> bool:
    """Whether an item of an index takes its dim away."""
    return isinstance(place, (int, SymbolicDim))


def cut(x: TracedArray, places: list[Any]) -> TracedArray:
    """The slices; of a number a slice of extent 1."""
    cuts: list[Cut] = []
    at_run_time: list[tuple[int, slice]] = []
    for axis, place in enumerate(places):
        if is_number(place):
            cuts.append(_one(x, axis, place))
        elif isinstance(place, slice) and not _is_whole(place):
            found = _known(axis, place)
            if found is None:
                at_run_time.append((axis, place))
            else:
                cuts.append(found)
    backwards = [c for c in cuts if c.step < 0 and _may_start_before(x, c)]
    x = _sliced(x, [Cut(c.axis, 0, simplify(c.start + 1)) for c in backwards])
    x = _sliced(x, [_from_the_end(c) if c in backwards else c for c in cuts])
    for axis, place in at_run_time:
        x = _at_run_time(x, axis, place)
    return x


def _sliced(x: TracedArray, cuts: list[Cut]) -> TracedArray:
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


def _may_start_before(x: TracedArray, c: Cut) -> bool:
    """Whether a slice backwards may start before the first element: NumPy's is empty then, ONNX's
    starts at the first.
    """
    low, high = current_frame().recorder.env.bounds(c.start)
    if low >= 0 or (high is not None and high >= 0) or c.start == -1:
        return False
    return current_frame().recorder.env.bounds(simplify(x.type.dims[c.axis] + c.start))[0] < 0


def _from_the_end(c: Cut) -> Cut:
    """`x[start : stop : -k]` of what `x[: start + 1]` leaves, where start is negative."""
    low, high = current_frame().recorder.env.bounds(c.stop)
    if low >= 0 or c.stop == -END:
        return Cut(c.axis, END, c.stop, c.step)
    stop = simplify(c.stop - c.start - 1)
    low, high = current_frame().recorder.env.bounds(stop)
    if high is not None and high < 0:
        return Cut(c.axis, END, stop, c.step)
    if low >= 0:  # it stops before it starts
        return Cut(c.axis, 0, 0, 1)
    return refuse(f"whether {c.stop} is before {c.start} is not known")


def _known(axis: int, place: slice) -> Cut | None:
    """The slice; None where it depends on values of the run, or the sign of one is not known."""
    start, stop, step = _bounds(place)
    first, last = plain_dim(start), plain_dim(stop)
    if first is None or last is None or not (sign_is_known(first) and sign_is_known(last)):
        return None
    return Cut(axis, first, last, step)


def _bounds(place: slice) -> tuple[Any, Any, int]:
    step = 1 if place.step is None else plain_dim(place.step)
    if not isinstance(step, int) or step == 0:
        refuse(f"the step of a slice is a number other than 0, and is {place.step}")
    start = (0 if step > 0 else END) if place.start is None else place.start
    stop = (END if step > 0 else -END) if place.stop is None else place.stop
    return start, stop, step


def _is_whole(place: slice) -> bool:
    return place.start is None and place.stop is None and place.step in (None, 1)


def sign_is_known(dim: Dim) -> bool:
    """Whether it is clear that a place counts from the start, or from the end."""
    low, high = current_frame().recorder.env.bounds(dim)
    return low >= 0 or (high is not None and high < 0)


def _at_run_time(x: TracedArray, axis: int, place: slice) -> TracedArray:
    start, stop, step = _bounds(place)
    if step < 0:
        refuse("a slice backwards is between numbers; flip one that the run decides")
    starts, ends = (converted(v, "int64").reshape(1) for v in (start, stop))
    rows = (traced(numpy.array([value], numpy.int64)) for value in (axis, step))
    dims = tuple(None if d == axis else n for d, n in enumerate(x.type.dims))
    kind = Tensor(None, x.type.element, x.ndim)
    return emit("Slice", x, starts, ends, *rows, types=[kind], dims=dims)


# Numbers.


def checked(place: Any, x: TracedArray, axis: int) -> Any:
    """A number that names an element: ShapeError where it never can."""
    extent, dim = x.type.dims[axis], plain_dim(place)
    assert dim is not None
    if isinstance(extent, int) and isinstance(dim, int):
        if not -extent <= dim < extent:
            refuse(f"index {dim} is outside of dim {axis}, which has {extent} elements")
        return dim % extent
    if not sign_is_known(dim):
        refuse(f"whether the index {dim} counts from the start or from the end is not known")
    return place


def _one(x: TracedArray, axis: int, place: Any) -> Cut:
    first = plain_dim(checked(place, x, axis))
    assert first is not None
    return Cut(axis, first, END if first == -1 else simplify(first + 1))


def one_each(x: TracedArray, axes: list[int]) -> TracedArray:
    """Without dims of extent 1; the run checks those of which that is not proved."""
    shape = x.type.dims
    if any(shape[a] != 1 for a in axes):
        frame = current_frame()
        wanted = tuple(1 if d in axes else n for d, n in enumerate(shape))
        x = TracedArray(cast(frame, frame.own(x.value, x.home), wanted, "index"), frame)
    found: TracedArray = squeeze(x, tuple(axes)) if axes else x
    return found
