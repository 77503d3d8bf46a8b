"""NumPy's functions that change an array's shape, and validation of axes and shapes."""

from __future__ import annotations

from operator import index
from typing import Any, NoReturn

import numpy

from explorer.errors import ShapeError
from explorer.frontends.python.tracing.array import TracedArray
from explorer.frontends.python.tracing.dims import plain_dim
from explorer.frontends.python.tracing.emit import emit, traced
from explorer.frontends.python.tracing.frames import calling_line, current_frame
from explorer.frontends.python.tracing.operation import distinct, mark_views, operation
from explorer.frontends.python.tracing.operators import ArrayOperators
from explorer.ir.dims import Dim, Shape, floor_div, product


@operation(numpy.reshape, views=None, on_complex="parts")
def reshape(x: Any, shape: Any, *, copy: bool | None = None) -> Any:
    """Apply NumPy's `reshape`: one dim may be -1; the result is a view unless `copy` is True."""
    array, target = traced(x), shape_of(shape)
    reshaped = array
    if array.type.dims != target:
        reshaped = emit(
            "Reshape", array, shape=_resolve_shape(array.type.dims, target), allowzero=1
        )
    return distinct(reshaped, (x,)) if copy else mark_views(reshaped, x)


def _resolve_shape(shape: Shape, target: Shape) -> Shape:
    """Return the shape with -1 replaced by the remaining extent."""
    positive = tuple(d for d in target if d != -1)
    if len(positive) == len(target):
        return target
    if len(positive) < len(target) - 1:
        refuse(f"the shape {target} has several dims of -1")
    total, each = product(shape), product(positive)
    if each == 0 or (isinstance(total, int) and isinstance(each, int) and total % each):
        refuse(f"{total} elements do not divide into the shape {target}")
    remaining: Dim = floor_div(total, each)
    return tuple(remaining if d == -1 else d for d in target)


@operation(numpy.ravel, views=True, on_complex="parts")
def ravel(x: Any) -> Any:
    """Apply NumPy's `ravel`: all elements in one dim."""
    return reshape(x, -1) if traced(x).ndim != 1 else x


@operation(numpy.transpose, views=True, on_complex="parts")
def transpose(x: Any, axes: Any = None) -> Any:
    """Apply NumPy's `transpose`: permute the dims, by default in reverse."""
    array = traced(x)
    order = tuple(range(array.ndim))[::-1] if axes is None else axes_of(axes, array.ndim)
    if len(order) != array.ndim:
        refuse(f"{axes} is not a permutation of {array.ndim} dims")
    return array if order == tuple(range(array.ndim)) else emit("Transpose", array, perm=order)


permute_dims = transpose


@operation(numpy.matrix_transpose, views=True, on_complex="parts")
def matrix_transpose(x: Any) -> Any:
    """Apply NumPy's `matrix_transpose`: swap the last two dims."""
    return swapaxes(x, -1, -2)


@operation(numpy.swapaxes, views=True, on_complex="parts")
def swapaxes(x: Any, axis1: int, axis2: int) -> Any:
    """Apply NumPy's `swapaxes`."""
    array = traced(x)
    a, b = axis_of(axis1, array.ndim), axis_of(axis2, array.ndim)
    order = list(range(array.ndim))
    order[a], order[b] = b, a
    return transpose(array, tuple(order))


@operation(numpy.moveaxis, views=True, on_complex="parts")
def moveaxis(x: Any, source: Any, destination: Any) -> Any:
    """Apply NumPy's `moveaxis`."""
    array = traced(x)
    take, put = axes_of(source, array.ndim), axes_of(destination, array.ndim)
    if len(take) != len(put):
        refuse(f"{len(take)} axes cannot be moved to {len(put)} positions")
    order = [a for a in range(array.ndim) if a not in take]
    for place, axis in sorted(zip(put, take, strict=True)):
        order.insert(place, axis)
    return transpose(array, tuple(order))


@operation(numpy.expand_dims, views=True, on_complex="parts")
def expand_dims(x: Any, axis: Any) -> Any:
    """Apply NumPy's `expand_dims`: insert dims of 1 at these axes of the result."""
    array = traced(x)
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    axes = axes_of(axis, array.ndim + count)
    return emit("Unsqueeze", array, axes=tuple(sorted(axes))) if axes else array


@operation(numpy.squeeze, views=True, on_complex="parts")
def squeeze(x: Any, axis: Any = None) -> Any:
    """Apply NumPy's `squeeze`: remove the dims of 1."""
    array = traced(x)
    ones = tuple(d for d, n in enumerate(array.type.dims) if n == 1)
    axes = ones if axis is None else axes_of(axis, array.ndim)
    return emit("Squeeze", array, axes=tuple(sorted(axes))) if axes else array


@operation(numpy.broadcast_to, views=True, on_complex="parts")
def broadcast_to(x: Any, shape: Any) -> Any:
    """Apply NumPy's `broadcast_to`."""
    array, target = traced(x), shape_of(shape)
    if array.type.dims == target:
        return array
    expanded = emit("Expand", array, shape=target)
    if expanded.type.dims != target:
        refuse(f"{array.type} does not broadcast to the shape {target}")
    return expanded


@operation(numpy.broadcast_arrays, views=None)
def broadcast_arrays(*arrays: Any) -> Any:
    """Apply NumPy's `broadcast_arrays`."""
    operands = [traced(a) for a in arrays]
    shape = broadcast_shape(operands)
    return tuple(broadcast_to(a, shape) for a in operands)


def broadcast_shape(arrays: list[TracedArray]) -> Any:
    """Return the shape that all arrays broadcast to."""
    shape: Any = ()
    for array in arrays:
        if array.type.dims not in ((), shape):
            shape = emit("Expand", array, shape=shape_of(shape)).type.dims
    return shape


@operation(numpy.atleast_1d, views=True, on_complex="parts")
def atleast_1d(x: Any) -> Any:
    """Apply NumPy's `atleast_1d` to one array."""
    return reshape(x, 1) if traced(x).ndim == 0 else x


@operation(numpy.atleast_2d, views=True, on_complex="parts")
def atleast_2d(x: Any) -> Any:
    """Apply NumPy's `atleast_2d` to one array."""
    array = traced(x)
    return array if array.ndim > 1 else expand_dims(atleast_1d(array), 0)


@operation(numpy.flip, views=True, on_complex="parts")
def flip(x: Any, axis: Any = None) -> Any:
    """Apply NumPy's `flip`: reverse the axes, by default all."""
    array = traced(x)
    axes = axes_of(axis, array.ndim)
    back = tuple(slice(None, None, -1) if d in axes else slice(None) for d in range(array.ndim))
    return array[back]


@operation(numpy.repeat, on_complex="parts")
def repeat(x: Any, repeats: Any, axis: int | None = None) -> Any:
    """Apply NumPy's `repeat`: repeat each element, by one count or a count for each element."""
    array = ravel(x) if axis is None else traced(x)
    at, every = axis_of(axis or 0, array.ndim), shape_of(_constant_counts(repeats))
    if len(every) > 1:
        counts = [n for n in every if isinstance(n, int)]
        if len(counts) < len(every) or array.type.dims[at] != len(every):
            refuse(f"repeat takes a number, or {array.type.dims[at]} numbers along dim {at}")
        places = numpy.repeat(numpy.arange(len(counts)), counts)
        return array[(*(slice(None),) * at, places)]
    (times,) = every
    shape = array.type.dims
    column = expand_dims(array, at + 1)
    wide = broadcast_to(column, (*shape[: at + 1], times, *shape[at + 1 :]))
    return reshape(wide, (*shape[:at], shape[at] * times, *shape[at + 1 :]))


def _constant_counts(repeats: Any) -> Any:
    """Return counts as a NumPy array if they are constants; refuse those known only at run time."""
    if not isinstance(repeats, TracedArray) or repeats.ndim == 0:
        return repeats
    constant = current_frame().recorder.constants.get(repeats.value.name)
    if constant is None:
        refuse("repeat by counts known only at run time has no known extent; use take")
    return constant.array


@operation(numpy.unstack, views=True, on_complex="parts")
def unstack(x: Any, *, axis: int = 0) -> Any:
    """Apply NumPy's `unstack`: the slices along a dim of constant extent."""
    array = traced(x)
    at = axis_of(axis, array.ndim)
    extent = array.type.dims[at]
    if not isinstance(extent, int):
        refuse(f"dim {at} of {array.type} is symbolic; unstack needs a number")
    return tuple(array[(*(slice(None),) * at, n)] for n in range(extent))


@operation(numpy.tile, on_complex="parts")
def tile(x: Any, reps: Any) -> Any:
    """Apply NumPy's `tile`: repeat the array along each dim."""
    array, times = traced(x), shape_of(reps)
    rank = max(array.ndim, len(times))
    wide = reshape(array, (*(1,) * (rank - array.ndim), *array.type.dims))
    return emit("Tile", wide, repeats=(*(1,) * (rank - len(times)), *times))


def shape(x: Any) -> Any:
    """Apply NumPy's `shape`; dims known only at run time are symbolic."""
    return x.shape if isinstance(x, ArrayOperators) else numpy.shape(x)


def ndim(x: Any) -> int:
    """Apply NumPy's `ndim`."""
    return x.ndim if isinstance(x, ArrayOperators) else numpy.ndim(x)


def size(x: Any, axis: int | None = None) -> Any:
    """Apply NumPy's `size`."""
    if not isinstance(x, ArrayOperators):
        return numpy.size(x, axis)
    return x.size if axis is None else x.shape[axis]


# Axes and shapes as arguments.


def refuse(problem: str) -> NoReturn:
    """Raise a ShapeError that names the calling line."""
    raise ShapeError(f"{calling_line()}: {problem}", where=calling_line())


def axis_of(axis: Any, rank: int) -> int:
    """Return an axis as a non-negative integer; negative ones count from the end."""
    try:
        at = index(axis)
    except TypeError:
        refuse(f"an axis must be an integer, not {axis!r}")
    if not -rank <= at < rank:
        refuse(f"axis {at} is out of range for an array of {rank} dims")
    return at % rank


def axes_of(axis: Any, rank: int) -> tuple[int, ...]:
    """Return several axes as non-negative integers, in order; all axes for None."""
    if axis is None:
        return tuple(range(rank))
    requested = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = tuple(axis_of(a, rank) for a in requested)
    if len(set(axes)) < len(axes):
        refuse(f"the axes {tuple(requested)} name one dim twice")
    return axes


def shape_of(shape: Any) -> tuple[Any, ...]:
    """Return a shape argument, one dim or several, as a tuple of dims; -1 is left as it is."""
    dims = shape if isinstance(shape, (tuple, list)) else (shape,)
    if isinstance(shape, numpy.ndarray):
        dims = tuple(shape.reshape(-1).tolist())
    return tuple(_dim(d) for d in dims)


def _dim(dim: Any) -> Dim:
    plain = plain_dim(dim)
    if plain is None:
        what = repr(dim) if isinstance(dim, TracedArray) else type(dim).__name__
        refuse(
            f"a dim must be a number or arithmetic on x.shape, not {what}; use explorer.match_cast "
            "to name a dim that is known only at run time"
        )
    return plain
