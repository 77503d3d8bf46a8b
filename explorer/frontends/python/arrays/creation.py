"""NumPy's functions that create arrays, and that join, split, roll and pad them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy

from explorer.frontends.python.arrays.elementwise import (
    add,
    astype,
    divide,
    multiply,
    remainder,
    subtract,
)
from explorer.frontends.python.arrays.shaping import (
    atleast_1d,
    atleast_2d,
    axis_of,
    broadcast_to,
    expand_dims,
    ravel,
    refuse,
    shape_of,
)
from explorer.frontends.python.arrays.ufuncs import equal, less_equal, where
from explorer.frontends.python.tracing.array import TracedArray
from explorer.frontends.python.tracing.dims import plain_dim, python_dim
from explorer.frontends.python.tracing.emit import (
    common_dtype,
    converted,
    emit,
    emit_several,
    is_traced,
    is_weak,
    traced,
)
from explorer.frontends.python.tracing.frames import attributed_to_call, is_tracing
from explorer.frontends.python.tracing.operation import distinct, operation
from explorer.frontends.python.tracing.operators import is_complex
from explorer.ir.types import Tensor


@operation(numpy.full)
def full(shape: Any, fill_value: Any, dtype: Any = None) -> Any:
    """Apply NumPy's `full`."""
    kind = numpy.dtype(common_dtype([fill_value]) if dtype is None else dtype)
    if is_traced(fill_value):
        return broadcast_to(converted(fill_value, kind), shape)
    value = numpy.asarray(fill_value).astype(kind).item()
    return emit("ConstantOfShape", shape=shape_of(shape), value=value, dtype=kind.name)


@operation(numpy.zeros)
def zeros(shape: Any, dtype: Any = "float64") -> Any:
    """Apply NumPy's `zeros`."""
    return full(shape, 0, dtype)


@operation(numpy.ones)
def ones(shape: Any, dtype: Any = "float64") -> Any:
    """Apply NumPy's `ones`."""
    return full(shape, 1, dtype)


@operation(numpy.full_like)
def full_like(x: Any, fill_value: Any, dtype: Any = None, *, device: Any = None) -> Any:
    """Apply NumPy's `full_like`: the shape of x, and its dtype unless another is requested."""
    if device not in (None, "cpu"):
        refuse(f"arrays are on the device 'cpu' while a program is recorded, not on {device!r}")
    array = traced(x)
    return full(array.shape, fill_value, array.dtype if dtype is None else dtype)


@operation(numpy.zeros_like)
def zeros_like(x: Any, dtype: Any = None, *, device: Any = None) -> Any:
    """Apply NumPy's `zeros_like`."""
    return full_like(x, 0, dtype, device=device)


@operation(numpy.ones_like)
def ones_like(x: Any, dtype: Any = None, *, device: Any = None) -> Any:
    """Apply NumPy's `ones_like`."""
    return full_like(x, 1, dtype, device=device)


@operation(numpy.arange)
def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Any:
    """Apply NumPy's `arange`; the length is unknown until run time if a bound is."""
    start, stop = (0, start) if stop is None else (start, stop)
    kind = numpy.dtype(common_dtype([start, stop, step]) if dtype is None else dtype)
    dims = [plain_dim(v) for v in (start, stop, step)]
    if None not in dims and isinstance(dims[2], int):
        if dims[2] == 0:
            refuse("the step of arange is 0")
        counts = emit("Range", start=dims[0], limit=dims[1], delta=dims[2], dtype="int64")
        return converted(counts, kind)
    if numpy.result_type(kind).kind not in "iu":
        refuse("arange of values known only at run time must be of integers")
    args = [converted(v, "int64") for v in (start, stop, step)]
    counts = emit("Range", *args, types=[Tensor(None, "int64", 1)], dims=(None,))
    return converted(counts, kind)


@operation(numpy.linspace)
def linspace(start: Any, stop: Any, num: Any = 50, endpoint: bool = True) -> Any:
    """Apply NumPy's `linspace` to scalars."""
    kind = numpy.result_type(common_dtype([start, stop]), float)
    places = astype(arange(num), kind) if is_traced(num) else numpy.arange(num).astype(kind)
    gaps = num - 1 if endpoint else num
    step = divide(subtract(converted(stop, kind), start), maximum_of(gaps, 1))
    return add(multiply(places, step), start)


def maximum_of(a: Any, b: Any) -> Any:
    """Return the greater of two dims or numbers."""
    return TracedArray.functions.maximum(a, b)


@operation(numpy.eye)
def eye(n: Any, m: Any = None, k: int = 0, dtype: Any = "float64") -> Any:
    """Apply NumPy's `eye`: ones on a diagonal."""
    rows, columns = expand_dims(arange(n), 1), arange(n if m is None else m)
    return astype(equal(add(rows, k) if k else rows, columns), dtype)


@operation(numpy.identity)
def identity(n: Any, dtype: Any = "float64") -> Any:
    """Apply NumPy's `identity`."""
    return eye(n, dtype=dtype)


def asarray(x: Any, dtype: Any = None) -> Any:
    """Apply NumPy's `asarray`; while tracing, return a traced array.

    A NumPy array becomes a constant, which symbolic dims may slice. A list of values is stacked.
    """
    if not is_tracing():
        return numpy.asarray(x, dtype)
    with attributed_to_call("asarray"):
        if is_complex(x) or (dtype is not None and numpy.dtype(dtype).kind == "c"):
            return astype(x, dtype or numpy.result_type(common_dtype([x])))
        array = traced(x)
        if dtype is not None:
            return converted(x, dtype)
        return TracedArray(array.value, array.home) if array.weak else array


def array(x: Any, dtype: Any = None) -> Any:
    """Apply NumPy's `array`: as `asarray`, but never an alias of the argument."""
    return distinct(asarray(x, dtype), (x,)) if is_tracing() else numpy.array(x, dtype)


@operation(numpy.copy, on_complex="parts")
def copy(x: Any) -> Any:
    """Apply NumPy's `copy`: the result does not alias the argument."""
    return x


def _triangle(x: Any, k: int, upper: int) -> TracedArray:
    array = traced(x)
    if array.ndim < 2:
        refuse("tril and triu take arrays of two dims or more")
    return emit("Trilu", array, k=k, upper=upper)


@operation(numpy.tril)
def tril(x: Any, k: int = 0) -> Any:
    """Apply NumPy's `tril`: zeros above a diagonal."""
    return _triangle(x, k, 0)


@operation(numpy.triu)
def triu(x: Any, k: int = 0) -> Any:
    """Apply NumPy's `triu`: zeros below a diagonal."""
    return _triangle(x, k, 1)


@operation(numpy.tri)
def tri(n: Any, m: Any = None, k: int = 0, dtype: Any = "float64") -> Any:
    """Apply NumPy's `tri`: ones on and below a diagonal."""
    rows, columns = expand_dims(arange(n), 1), arange(n if m is None else m)
    return astype(less_equal(columns, add(rows, k) if k else rows), dtype)


@operation(numpy.diag)
def diag(x: Any, k: int = 0) -> Any:
    """Apply NumPy's `diag` to a vector: return a matrix with its elements on a diagonal."""
    array = traced(x)
    if array.ndim != 1:
        refuse("diag of a matrix is not supported; use einsum('ii->i', x)")
    zero, n = numpy.zeros((), array.dtype), array.shape[0]
    square = where(eye(n, dtype=bool), array, zero)
    above, below = max(k, 0), max(-k, 0)
    return TracedArray.functions.pad(square, ((below, above), (above, below))) if k else square


@operation(numpy.empty)
def empty(shape: Any, dtype: Any = "float64") -> Any:
    """Apply NumPy's `empty`; the elements are zeros."""
    return full(shape, 0, dtype)


@operation(numpy.empty_like)
def empty_like(x: Any, dtype: Any = None, *, device: Any = None) -> Any:
    """Apply NumPy's `empty_like`; the elements are zeros."""
    return full_like(x, 0, dtype, device=device)


@operation(numpy.meshgrid)
def meshgrid(*arrays: Any, indexing: str = "xy") -> Any:
    """Apply NumPy's `meshgrid`: each array varies along its own dim; all are broadcast together."""
    vectors = [TracedArray.functions.ravel(traced(a)) for a in arrays]
    if indexing not in ("xy", "ij"):
        refuse(f"meshgrid has no indexing {indexing!r}; use 'xy' or 'ij'")
    order = [*range(len(vectors))]
    if indexing == "xy" and len(vectors) > 1:
        order[:2] = 1, 0
    places = {n: order.index(n) for n in order}
    new_axes = [tuple(d for d in order if d != places[n]) for n in range(len(vectors))]
    wide = [expand_dims(a, r) if r else a for a, r in zip(vectors, new_axes, strict=True)]
    return list(TracedArray.functions.broadcast_arrays(*wide))


# Joining, splitting, rolling and padding.


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
