"""Functions of NumPy that give an array another shape."""

from __future__ import annotations

from typing import Any

import numpy

from explorer.frontends.arrays.axes import axes_of, axis_of, refuse, shape_of
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.emit import emit
from explorer.frontends.tracing.frames import current_frame
from explorer.frontends.tracing.operation import apart, operation, viewed
from explorer.frontends.tracing.operators import ArrayOperators
from explorer.frontends.tracing.promote import traced
from explorer.ir.shapes.dims import Dim, Shape, floor_div, product


@operation(numpy.reshape, views=None, on_complex="parts")
def reshape(x: Any, shape: Any, *, copy: bool | None = None) -> Any:
    """NumPy's `reshape`: one dim may be -1; a view unless a `copy` is asked for."""
    given, wanted = traced(x), shape_of(shape)
    found = given
    if given.type.dims != wanted:
        found = emit("Reshape", given, shape=_resolved(given.type.dims, wanted), allowzero=1)
    return apart(found, (x,)) if copy else viewed(found, x)


def _resolved(shape: Shape, wanted: Shape) -> Shape:
    """-1 is what remains."""
    rest = tuple(d for d in wanted if d != -1)
    if len(rest) == len(wanted):
        return wanted
    if len(rest) < len(wanted) - 1:
        refuse(f"the shape {wanted} has several dims of -1")
    total, each = product(shape), product(rest)
    if each == 0 or (isinstance(total, int) and isinstance(each, int) and total % each):
        refuse(f"{total} elements do not divide into the shape {wanted}")
    found: Dim = floor_div(total, each)
    return tuple(found if d == -1 else d for d in wanted)


@operation(numpy.ravel, views=True, on_complex="parts")
def ravel(x: Any) -> Any:
    """NumPy's `ravel`: all elements in one dim."""
    return reshape(x, -1) if traced(x).ndim != 1 else x


@operation(numpy.transpose, views=True, on_complex="parts")
def transpose(x: Any, axes: Any = None) -> Any:
    """NumPy's `transpose`: the dims in another order, in reverse if none is given."""
    given = traced(x)
    order = tuple(range(given.ndim))[::-1] if axes is None else axes_of(axes, given.ndim)
    if len(order) != given.ndim:
        refuse(f"the order {axes} is not one of {given.ndim} dims")
    return given if order == tuple(range(given.ndim)) else emit("Transpose", given, perm=order)


permute_dims = transpose


@operation(numpy.matrix_transpose, views=True, on_complex="parts")
def matrix_transpose(x: Any) -> Any:
    """NumPy's `matrix_transpose`: the last two dims swapped."""
    return swapaxes(x, -1, -2)


@operation(numpy.swapaxes, views=True, on_complex="parts")
def swapaxes(x: Any, axis1: int, axis2: int) -> Any:
    """NumPy's `swapaxes`."""
    given = traced(x)
    a, b = axis_of(axis1, given.ndim), axis_of(axis2, given.ndim)
    order = list(range(given.ndim))
    order[a], order[b] = b, a
    return transpose(given, tuple(order))


@operation(numpy.moveaxis, views=True, on_complex="parts")
def moveaxis(x: Any, source: Any, destination: Any) -> Any:
    """NumPy's `moveaxis`."""
    given = traced(x)
    take, put = axes_of(source, given.ndim), axes_of(destination, given.ndim)
    if len(take) != len(put):
        refuse(f"{len(take)} axes cannot be moved to {len(put)} places")
    order = [a for a in range(given.ndim) if a not in take]
    for place, axis in sorted(zip(put, take, strict=True)):
        order.insert(place, axis)
    return transpose(given, tuple(order))


@operation(numpy.expand_dims, views=True, on_complex="parts")
def expand_dims(x: Any, axis: Any) -> Any:
    """NumPy's `expand_dims`: dims of 1 at these places of the result."""
    given = traced(x)
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    axes = axes_of(axis, given.ndim + count)
    return emit("Unsqueeze", given, axes=tuple(sorted(axes))) if axes else given


@operation(numpy.squeeze, views=True, on_complex="parts")
def squeeze(x: Any, axis: Any = None) -> Any:
    """NumPy's `squeeze`: without the dims that are 1."""
    given = traced(x)
    ones = tuple(d for d, n in enumerate(given.type.dims) if n == 1)
    axes = ones if axis is None else axes_of(axis, given.ndim)
    return emit("Squeeze", given, axes=tuple(sorted(axes))) if axes else given


@operation(numpy.broadcast_to, views=True, on_complex="parts")
def broadcast_to(x: Any, shape: Any) -> Any:
    """NumPy's `broadcast_to`."""
    given, wanted = traced(x), shape_of(shape)
    if given.type.dims == wanted:
        return given
    found = emit("Expand", given, shape=wanted)
    if found.type.dims != wanted:
        refuse(f"{given.type} does not broadcast to the shape {wanted}")
    return found


@operation(numpy.broadcast_arrays, views=None)
def broadcast_arrays(*arrays: Any) -> Any:
    """NumPy's `broadcast_arrays`."""
    given = [traced(a) for a in arrays]
    shape = broadcast_shape(given)
    return tuple(broadcast_to(a, shape) for a in given)


def broadcast_shape(arrays: list[TracedArray]) -> Any:
    """The shape that all of them broadcast to."""
    shape: Any = ()
    for array in arrays:
        if array.type.dims not in ((), shape):
            shape = emit("Expand", array, shape=shape_of(shape)).type.dims
    return shape


@operation(numpy.atleast_1d, views=True, on_complex="parts")
def atleast_1d(x: Any) -> Any:
    """NumPy's `atleast_1d`, of one array."""
    return reshape(x, 1) if traced(x).ndim == 0 else x


@operation(numpy.atleast_2d, views=True, on_complex="parts")
def atleast_2d(x: Any) -> Any:
    """NumPy's `atleast_2d`, of one array."""
    given = traced(x)
    return given if given.ndim > 1 else expand_dims(atleast_1d(given), 0)


@operation(numpy.flip, views=True, on_complex="parts")
def flip(x: Any, axis: Any = None) -> Any:
    """NumPy's `flip`: backwards along axes, all of them where none is given."""
    given = traced(x)
    axes = axes_of(axis, given.ndim)
    back = tuple(slice(None, None, -1) if d in axes else slice(None) for d in range(given.ndim))
    return given[back]


@operation(numpy.repeat, on_complex="parts")
def repeat(x: Any, repeats: Any, axis: int | None = None) -> Any:
    """NumPy's `repeat`: each element so many times, all the same or each its own."""
    given = ravel(x) if axis is None else traced(x)
    at, every = axis_of(axis or 0, given.ndim), shape_of(_numbers(repeats))
    if len(every) > 1:
        counts = [n for n in every if isinstance(n, int)]
        if len(counts) < len(every) or given.type.dims[at] != len(every):
            refuse(f"repeat takes a number, or {given.type.dims[at]} numbers along dim {at}")
        places = numpy.repeat(numpy.arange(len(counts)), counts)
        return given[(*(slice(None),) * at, places)]
    (times,) = every
    shape = given.type.dims
    apart = expand_dims(given, at + 1)
    wide = broadcast_to(apart, (*shape[: at + 1], times, *shape[at + 1 :]))
    return reshape(wide, (*shape[:at], shape[at] * times, *shape[at + 1 :]))


def _numbers(repeats: Any) -> Any:
    """Numbers of which the program knows all, as an array of NumPy's."""
    if not isinstance(repeats, TracedArray) or repeats.ndim == 0:
        return repeats
    known = current_frame().recorder.constants.get(repeats.value.name)
    if known is None:
        refuse("repeat by numbers that only a run knows has no extent; take has")
    return known.array


@operation(numpy.unstack, views=True, on_complex="parts")
def unstack(x: Any, *, axis: int = 0) -> Any:
    """NumPy's `unstack`: the slices along a dim of a known extent."""
    given = traced(x)
    at = axis_of(axis, given.ndim)
    extent = given.type.dims[at]
    if not isinstance(extent, int):
        refuse(f"dim {at} of {given.type} is no number; unstack needs one")
    return tuple(given[(*(slice(None),) * at, n)] for n in range(extent))


@operation(numpy.tile, on_complex="parts")
def tile(x: Any, reps: Any) -> Any:
    """NumPy's `tile`: the whole so many times along each dim."""
    given, times = traced(x), shape_of(reps)
    rank = max(given.ndim, len(times))
    wide = reshape(given, (*(1,) * (rank - given.ndim), *given.type.dims))
    return emit("Tile", wide, repeats=(*(1,) * (rank - len(times)), *times))


def shape(x: Any) -> Any:
    """NumPy's `shape`; dims that only a run knows are symbolic."""
    return x.shape if isinstance(x, ArrayOperators) else numpy.shape(x)


def ndim(x: Any) -> int:
    """NumPy's `ndim`."""
    return x.ndim if isinstance(x, ArrayOperators) else numpy.ndim(x)


def size(x: Any, axis: int | None = None) -> Any:
    """NumPy's `size`."""
    if not isinstance(x, ArrayOperators):
        return numpy.size(x, axis)
    return x.size if axis is None else x.shape[axis]
