"""NumPy's functions that join, split, roll and pad arrays."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy

from explorer.frontends.arrays.axes import axis_of, refuse, shape_of
from explorer.frontends.arrays.creation import arange
from explorer.frontends.arrays.elementwise import remainder, subtract
from explorer.frontends.arrays.shaping import atleast_1d, atleast_2d, expand_dims, ravel
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.dims import python_dim
from explorer.frontends.tracing.emit import emit, emit_several
from explorer.frontends.tracing.operation import operation
from explorer.frontends.tracing.promote import common_dtype, converted, is_weak, traced


def _to_common_dtype(arrays: Sequence[Any]) -> list[TracedArray]:
    """Convert the arrays to their common dtype; Python numbers are not weak here, as in NumPy."""
    dtype = common_dtype(
        [numpy.asarray(a) if is_weak(a) and not _is_array(a) else a for a in arrays]
    )
    return [converted(a, dtype) for a in arrays]


def _is_array(value: Any) -> bool:
    return isinstance(value, TracedArray) or not isinstance(value, (int, float))


@operation(numpy.concatenate, on_complex="parts")
def concatenate(arrays: Sequence[Any], axis: int | None = 0) -> Any:
    """Apply NumPy's `concatenate`; flatten the arrays if the axis is None."""
    parts = _to_common_dtype(arrays)
    if axis is None:
        parts, axis = [ravel(a) for a in parts], 0
    if not parts or parts[0].ndim == 0:
        refuse("arrays without dims cannot be concatenated; use stack")
    return emit("Concat", *parts, axis=axis_of(axis, parts[0].ndim))


concat = concatenate


@operation(numpy.stack, on_complex="parts")
def stack(arrays: Sequence[Any], axis: int = 0) -> Any:
    """Apply NumPy's `stack`: along a new dim."""
    parts = _to_common_dtype(arrays)
    at = axis_of(axis, parts[0].ndim + 1)
    if any(a.ndim != parts[0].ndim for a in parts):
        refuse("the arrays of a stack have different numbers of dims")
    return emit("Concat", *(expand_dims(a, at) for a in parts), axis=at)


@operation(numpy.hstack)
def hstack(arrays: Sequence[Any]) -> Any:
    """Apply NumPy's `hstack`: along the second dim; vectors along the first."""
    parts = [atleast_1d(traced(a)) for a in arrays]
    return concatenate(parts, 0 if parts[0].ndim == 1 else 1)


@operation(numpy.vstack)
def vstack(arrays: Sequence[Any]) -> Any:
    """Apply NumPy's `vstack`: along the first of at least two dims."""
    return concatenate([atleast_2d(traced(a)) for a in arrays], 0)


@operation(numpy.append)
def append(x: Any, values: Any, axis: int | None = None) -> Any:
    """Apply NumPy's `append`."""
    return concatenate([x, values], axis)


@operation(numpy.split, views=True, on_complex="parts")
def split(x: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    """Apply NumPy's `split`: into equal parts, or at the given indices."""
    array = traced(x)
    at = axis_of(axis, array.ndim)
    if isinstance(indices_or_sections, (int, numpy.integer)):
        return _split_equally(array, int(indices_or_sections), at)
    places = [None, *shape_of(indices_or_sections), None]
    cuts = [slice(_python_bound(a), _python_bound(b)) for a, b in pairwise(places)]
    return [array[(*(slice(None),) * at, cut)] for cut in cuts]


def _python_bound(dim: Any) -> Any:
    return None if dim is None else python_dim(dim)


def _split_equally(x: TracedArray, parts: int, axis: int) -> list[Any]:
    extent = x.shape[axis]
    if parts < 1 or extent % parts != 0:
        refuse(f"dim {axis} of {x.type} does not divide into {parts} equal parts")
    (each,) = shape_of(extent // parts)
    return list(emit_several("Split", parts, x, axis=axis, split=(each,) * parts))


@operation(numpy.array_split, views=True)
def array_split(x: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    """Apply NumPy's `array_split`: the first parts may be longer by one."""
    array = traced(x)
    at = axis_of(axis, array.ndim)
    extent = array.shape[at]
    if not isinstance(indices_or_sections, int):
        return split(array, indices_or_sections, axis)
    parts = indices_or_sections
    if not isinstance(extent, int):
        refuse(f"dim {at} of {array.type} is symbolic; array_split needs a number")
    sizes = [extent // parts + (i < extent % parts) for i in range(parts)]
    return split(array, numpy.cumsum(sizes[:-1]).tolist(), axis)


@operation(numpy.roll, on_complex="parts")
def roll(x: Any, shift: int, axis: int | None = None) -> Any:
    """Apply NumPy's `roll`: elements past the end reappear at the start."""
    array = traced(x)
    if axis is None:
        return roll(ravel(array), shift, 0).reshape(array.shape)
    at = axis_of(axis, array.ndim)
    extent = array.shape[at]
    if isinstance(extent, int) and extent == 0:
        return array
    places = remainder(subtract(arange(extent), shift), extent)
    return emit("Gather", array, traced(places), axis=at)


@operation(numpy.pad)
def pad(x: Any, pad_width: Any, mode: str = "constant", constant_values: Any = 0) -> Any:
    """Apply NumPy's `pad`, with the modes constant, edge and reflect."""
    array = traced(x)
    if mode not in ("constant", "edge", "reflect"):
        refuse(f"pad has no mode {mode!r}; it has constant, edge and reflect")
    pairs = _pairs(pad_width, array.ndim)
    pads = (*(a for a, _ in pairs), *(b for _, b in pairs))
    value = numpy.asarray(constant_values)
    if value.ndim:
        refuse("constant_values of pad must be a single number")
    fill = value.astype(array.dtype).item() if mode == "constant" else None
    return emit("Pad", array, pads=pads, mode=mode, value=fill)


def _pairs(width: Any, rank: int) -> list[tuple[Any, Any]]:
    """Return the padding before and after each dim, given one number, a pair, or a pair a dim."""
    items = list(width) if isinstance(width, (tuple, list, numpy.ndarray)) else [width]
    if items and isinstance(items[0], (tuple, list, numpy.ndarray)):
        rows = [shape_of(tuple(i)) for i in items]
    else:
        rows = [shape_of(tuple(items))]
    rows = [r * 2 if len(r) == 1 else r for r in rows]
    rows = rows * rank if len(rows) == 1 else rows
    if len(rows) != rank or any(len(r) != 2 for r in rows):
        refuse(f"pad_width {width} does not fit an array of {rank} dims")
    return [(a, b) for a, b in rows]
