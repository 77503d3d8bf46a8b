"""Slices and numbers of an index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy

from explorer.frontends.arrays.axes import refuse
from explorer.frontends.arrays.shaping import squeeze
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.dims import SymbolicDim, plain_dim
from explorer.frontends.tracing.emit import cast_to_symbols, emit
from explorer.frontends.tracing.frames import current_frame
from explorer.frontends.tracing.promote import converted, traced
from explorer.ir.shapes.dims import Dim, simplify
from explorer.ir.types import Tensor

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


def apply_slices(x: TracedArray, places: list[Any]) -> TracedArray:
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
    if first is None or last is None or not (sign_is_known(first) and sign_is_known(last)):
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


def sign_is_known(dim: Dim) -> bool:
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
    if not sign_is_known(dim):
        refuse(f"cannot prove whether the index {dim} is negative")
    return place


def _element_slice(x: TracedArray, axis: int, place: Any) -> StaticSlice:
    first = plain_dim(checked_index(place, x, axis))
    assert first is not None
    return StaticSlice(axis, first, END if first == -1 else simplify(first + 1))


def squeeze_axes(x: TracedArray, axes: list[int]) -> TracedArray:
    """Squeeze dims of extent 1; an extent that is not proved to be 1 is checked at run time."""
    shape = x.type.dims
    if any(shape[a] != 1 for a in axes):
        frame = current_frame()
        target = tuple(1 if d in axes else n for d, n in enumerate(shape))
        x = TracedArray(cast_to_symbols(frame, frame.own(x.value, x.home), target, "index"), frame)
    squeezed: TracedArray = squeeze(x, tuple(axes)) if axes else x
    return squeezed
