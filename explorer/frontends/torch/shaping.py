"""ATen's operators that create arrays, and that move their elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy

from explorer.frontends.python import arrays as np
from explorer.frontends.python.tracing.array import TracedArray
from explorer.frontends.python.tracing.emit import converted, emit, traced
from explorer.frontends.torch.call import OperatorCall

Handler = Callable[..., Any]
END = 1 << 62  # a slice bound from here on means the end


def axis_of(dim: int, rank: int) -> int:
    """Return a non-negative dim; a scalar counts as one dim."""
    return dim % max(rank, 1)


# Shapes.


def _view(call: OperatorCall, x: Any, size: Sequence[Any]) -> Any:
    return np.reshape(x, tuple(size))


def _flatten(call: OperatorCall, x: Any, start: int = 0, end: int = -1) -> Any:
    array = traced(x)
    if not array.ndim:
        return np.reshape(array, (1,))
    a, b = axis_of(start, array.ndim), axis_of(end, array.ndim)
    return np.reshape(array, (*array.shape[:a], -1, *array.shape[b + 1 :]))


def _unflatten(call: OperatorCall, x: Any, dim: int, sizes: Sequence[Any]) -> Any:
    array = traced(x)
    at = axis_of(dim, array.ndim)
    return np.reshape(array, (*array.shape[:at], *sizes, *array.shape[at + 1 :]))


def _permute(call: OperatorCall, x: Any, dims: Sequence[int]) -> Any:
    array = traced(x)
    return np.transpose(array, tuple(axis_of(d, array.ndim) for d in dims)) if array.ndim else array


def _transpose(call: OperatorCall, x: Any, a: int, b: int) -> Any:
    array = traced(x)
    return np.swapaxes(array, a, b) if array.ndim else array


def _t(call: OperatorCall, x: Any) -> Any:
    return np.transpose(x)


def _unsqueeze(call: OperatorCall, x: Any, dim: int) -> Any:
    return np.expand_dims(x, dim)


def _squeeze(call: OperatorCall, x: Any, dims: Any = None) -> Any:
    """Remove dims of 1; PyTorch ignores other dims."""
    array = traced(x)
    named = range(array.ndim) if dims is None else [dims] if isinstance(dims, int) else dims
    axes = {axis_of(d, array.ndim) for d in named}
    ones = tuple(d for d, n in enumerate(array.type.dims) if n == 1 and d in axes)
    return np.squeeze(array, ones) if ones else array


def _expand(call: OperatorCall, x: Any, size: Sequence[Any], implicit: bool = False) -> Any:
    array = traced(x)
    lead = len(size) - array.ndim
    extents = (None,) * lead + array.shape
    target = tuple(
        k if isinstance(n, int) and n == -1 else n for k, n in zip(extents, size, strict=True)
    )
    return np.broadcast_to(array, target)


def _expand_as(call: OperatorCall, x: Any, other: Any) -> Any:
    return np.broadcast_to(x, traced(other).shape)


def _repeat(call: OperatorCall, x: Any, repeats: Sequence[Any]) -> Any:
    return np.tile(x, tuple(repeats)) if repeats else x


def _flip(call: OperatorCall, x: Any, dims: Sequence[int]) -> Any:
    array = traced(x)
    return np.flip(array, tuple(dims)) if array.ndim and dims else array


def _roll(call: OperatorCall, x: Any, shifts: Any, dims: Any = ()) -> Any:
    array = traced(x)
    by = [shifts] if isinstance(shifts, int) else list(shifts)
    if not dims:
        return np.roll(array, by[0])
    for shift, dim in zip(by, [dims] if isinstance(dims, int) else dims, strict=True):
        array = np.roll(array, shift, dim) if array.ndim else array
    return array


def _movedim(call: OperatorCall, x: Any, source: Any, target: Any) -> Any:
    return np.moveaxis(x, source, target)


# Slices and splits.


def _bound(value: Any) -> Any:
    return None if isinstance(value, int) and abs(value) >= END else value


def slice_dim(x: Any, dim: int, start: Any, end: Any, step: int = 1) -> Any:
    """Return `start : end : step` of a dim."""
    array = traced(x)
    at = axis_of(dim, array.ndim)
    return array[(*(slice(None),) * at, slice(_bound(start), _bound(end), step))]


def _slice(
    call: OperatorCall, x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Any:
    return slice_dim(x, dim, start, end, step)


def _select(call: OperatorCall, x: Any, dim: int, index: Any) -> Any:
    array = traced(x)
    return array[(*(slice(None),) * axis_of(dim, array.ndim), index)]


def _narrow(call: OperatorCall, x: Any, dim: int, start: Any, length: Any) -> Any:
    array = traced(x)
    if isinstance(start, int) and start < 0:
        start = array.shape[axis_of(dim, array.ndim)] + start
    return slice_dim(array, dim, start, start + length)


def _split(call: OperatorCall, x: Any, size: Any, dim: int = 0) -> Any:
    if isinstance(size, (list, tuple)):
        return _split_with_sizes(call, x, size, dim)
    array = traced(x)
    extent = array.shape[axis_of(dim, array.ndim)]
    count = len(call.results)
    ends = [min(size * (i + 1), extent) if isinstance(extent, int) else None for i in range(count)]
    return [
        slice_dim(array, dim, size * i, None if i == count - 1 else size * (i + 1))
        for i, _ in enumerate(ends)
    ]


def _split_with_sizes(call: OperatorCall, x: Any, sizes: Sequence[Any], dim: int = 0) -> Any:
    parts, start = [], 0
    for size in sizes:
        parts.append(slice_dim(x, dim, start, start + size))
        start = start + size
    return parts


def _chunk(call: OperatorCall, x: Any, chunks: int, dim: int = 0) -> Any:
    array = traced(x)
    extent = array.shape[axis_of(dim, array.ndim)]
    return _split(call, array, (extent + chunks - 1) // chunks, dim)


def _tensor_split(call: OperatorCall, x: Any, places: Any, dim: int = 0) -> Any:
    return np.array_split(x, list(places) if isinstance(places, (list, tuple)) else places, dim)


def _unbind(call: OperatorCall, x: Any, dim: int = 0) -> Any:
    return [_select(call, x, dim, i) for i in range(len(call.results))]


def _diagonal(call: OperatorCall, x: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    array = traced(x)
    a, b = axis_of(dim1, array.ndim), axis_of(dim2, array.ndim)
    others = [d for d in range(array.ndim) if d not in (a, b)]
    rows, columns = array.shape[a], array.shape[b]
    flat = np.reshape(np.transpose(array, (*others, a, b)), (*(array.shape[d] for d in others), -1))
    first = (max(-offset, 0), max(offset, 0))
    if array.type.dims[a] == array.type.dims[b]:
        least = rows - abs(offset)
    else:
        least = np.minimum(rows - first[0], columns - first[1])
    least = np.maximum(least, 0)
    step = np.multiply(np.arange(least), columns + 1)
    return np.take(flat, np.add(step, first[0] * columns + first[1]), -1)


def _diag_embed(call: OperatorCall, x: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    array = traced(x)
    size = array.shape[-1] + abs(offset)
    rank = array.ndim + 1
    wide = np.expand_dims(array, -1)
    pads = [(0, 0)] * (array.ndim - 1)
    before = (max(-offset, 0), max(offset, 0))
    count = size - abs(offset)
    square = np.where(np.eye(count, dtype=bool), wide, converted(0, array.dtype))
    margins = [(b, size - count - b) for b in before]
    padded = np.pad(square, (*pads, *margins))
    return np.moveaxis(padded, (rank - 2, rank - 1), (dim1, dim2))


def _triangle(upper: int) -> Handler:
    def handler(call: OperatorCall, x: Any, diagonal: int = 0) -> Any:
        array = traced(x)
        by = traced(numpy.int64(diagonal))
        return emit("Trilu", array, by, upper=upper)

    return handler


def _as_strided(
    call: OperatorCall, x: Any, size: Sequence[Any], stride: Sequence[Any], offset: Any = None
) -> Any:
    return np.take(np.ravel(x), strided_places(call, size, stride, offset))


def strided_places(
    call: OperatorCall, size: Sequence[Any], stride: Sequence[Any], offset: Any
) -> Any:
    """Return the indices of a strided view in the flattened first argument."""
    like = call.arguments[0]
    is_static = all(isinstance(n, int) for n in (*size, *stride, *like.shape))
    if not is_static or not like.is_contiguous() or like.storage_offset() != 0:
        call.refuse("as_strided of a view or of symbolic sizes is not supported")
    places = numpy.array(offset or 0)
    for n, s in zip(size, stride, strict=True):
        places = places[..., None] + numpy.arange(n) * s
    return places


# Concatenation and padding.


def _cat(call: OperatorCall, values: Sequence[Any], dim: int = 0) -> Any:
    arrays = [call.cast(v) for v in values]
    nonempty = [v for v in arrays if v.type.dims != (0,)] or arrays[:1]
    return (
        np.concatenate(nonempty, axis_of(dim, nonempty[0].ndim))
        if len(nonempty) > 1
        else nonempty[0]
    )


def _stack(call: OperatorCall, values: Sequence[Any], dim: int = 0) -> Any:
    return np.stack([call.cast(v) for v in values], dim)


def _pad_by(
    call: OperatorCall, x: Any, pads: Sequence[Any], mode: str = "constant", value: Any = 0
) -> Any:
    if mode == "constant":
        return _pad(call, x, pads, value)
    names = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    return _edges(names[mode])(call, x, pads)


def _pad(call: OperatorCall, x: Any, pads: Sequence[Any], value: Any = 0) -> Any:
    """Pad the last dims with a number; negative pads crop."""
    pairs = _pairs(pads, traced(x).ndim)
    array, widths = _crop(traced(x), pairs), _positive_pads(pairs)
    number = False if value is None else value
    if call.dtype == "bool":
        wide = converted(array, "uint8")
        return converted(np.pad(wide, widths, constant_values=int(bool(number))), "bool")
    return np.pad(array, widths, constant_values=number)


def _crop(x: TracedArray, pairs: Sequence[tuple[Any, Any]]) -> TracedArray:
    """Crop by the negative pads."""
    for dim, (a, b) in enumerate(pairs):
        low = -a if isinstance(a, int) and a < 0 else 0
        high = b if isinstance(b, int) and b < 0 else None
        if low or high is not None:
            x = slice_dim(x, dim, low, high)
    return x


def _positive_pads(pairs: Sequence[tuple[Any, Any]]) -> list[tuple[Any, ...]]:
    return [tuple(0 if isinstance(n, int) and n < 0 else n for n in p) for p in pairs]


def _pairs(pads: Sequence[Any], rank: int) -> list[tuple[Any, Any]]:
    pairs = [(pads[i], pads[i + 1]) for i in range(0, len(pads), 2)]
    return [(0, 0)] * (rank - len(pairs)) + pairs[::-1]


def _edges(mode: str) -> Handler:
    def handler(call: OperatorCall, x: Any, pads: Sequence[Any]) -> Any:
        array = traced(x)
        pairs = _pairs(pads, array.ndim)
        if mode == "wrap":
            return _wrap(array, pairs)
        return _crop(np.pad(array, _positive_pads(pairs), mode=mode), pairs)

    return handler


def _wrap(x: TracedArray, pairs: Sequence[tuple[Any, Any]]) -> TracedArray:
    for dim, (a, b) in enumerate(pairs):
        n = x.shape[dim]
        before = [] if isinstance(a, int) and a == 0 else [slice_dim(x, dim, n - a, None)]
        after = [] if isinstance(b, int) and b == 0 else [slice_dim(x, dim, 0, b)]
        if before or after:
            x = np.concatenate([*before, x, *after], dim)
    return x


def _shuffle(call: OperatorCall, x: Any, factor: int) -> Any:
    array = traced(x)
    *lead, channels, h, w = array.shape
    split = np.reshape(array, (*lead, channels // factor**2, factor, factor, h, w))
    n = len(lead)
    moved = np.transpose(split, (*range(n), n, n + 3, n + 1, n + 4, n + 2))
    return np.reshape(moved, (*lead, channels // factor**2, h * factor, w * factor))


def _unshuffle(call: OperatorCall, x: Any, factor: int) -> Any:
    array = traced(x)
    *lead, channels, h, w = array.shape
    split = np.reshape(array, (*lead, channels, h // factor, factor, w // factor, factor))
    n = len(lead)
    moved = np.transpose(split, (*range(n), n, n + 2, n + 4, n + 1, n + 3))
    return np.reshape(moved, (*lead, channels * factor**2, h // factor, w // factor))


def _channel_shuffle(call: OperatorCall, x: Any, groups: int) -> Any:
    array = traced(x)
    n, channels, *spatial = array.shape
    split = np.reshape(array, (n, groups, channels // groups, *spatial))
    return np.reshape(np.swapaxes(split, 1, 2), array.shape)


def _unfold(call: OperatorCall, x: Any, dim: int, size: int, step: int) -> Any:
    """Return windows along a dim as rows of a new last dim."""
    array = traced(x)
    if not array.ndim:
        return np.reshape(array, (1,) * size) if size else np.reshape(array, (1,))[:0]
    at = axis_of(dim, array.ndim)
    starts = np.arange((array.shape[at] - size) // step + 1) * step
    windows = np.take(array, np.expand_dims(starts, -1) + np.arange(size), at)
    return np.moveaxis(windows, at + 1, -1)


# New arrays.


def _full(call: OperatorCall, size: Sequence[Any], value: Any) -> Any:
    return np.broadcast_to(call.cast(value), tuple(size))


def _like(value: float) -> Handler:
    def handler(call: OperatorCall, x: Any, *_: Any) -> Any:
        return np.broadcast_to(call.cast(value), traced(x).shape)

    return handler


def _full_like(call: OperatorCall, x: Any, value: Any) -> Any:
    return np.broadcast_to(call.cast(value), traced(x).shape)


def _filled(value: float) -> Handler:
    def handler(call: OperatorCall, size: Sequence[Any], *_: Any) -> Any:
        return np.broadcast_to(call.cast(value), tuple(size))

    return handler


def _new(value: float) -> Handler:
    def handler(call: OperatorCall, x: Any, size: Sequence[Any], *_: Any) -> Any:
        return np.broadcast_to(call.cast(value), tuple(size))

    return handler


def _new_full(call: OperatorCall, x: Any, size: Sequence[Any], value: Any) -> Any:
    return np.broadcast_to(call.cast(value), tuple(size))


def _fill(call: OperatorCall, x: Any, value: Any) -> Any:
    return _full_like(call, x, value)


def _scalar(call: OperatorCall, value: Any) -> Any:
    return call.cast(value)


def _arange(call: OperatorCall, start: Any, end: Any, step: Any = 1) -> Any:
    if any(isinstance(n, float) for n in (start, end, step)) or call.is_float:
        count = call.results[0].shape[0]
        if isinstance(count, int):
            steps = numpy.arange(count, dtype=numpy.float64)
            return call.cast(steps * step + start)
    return call.cast(np.arange(start, end, step))


def _arange_end(call: OperatorCall, end: Any) -> Any:
    return _arange(call, 0, end)


def _eye(call: OperatorCall, n: Any, m: Any = None) -> Any:
    return call.cast(np.eye(n, n if m is None else m))


def _linspace(call: OperatorCall, start: Any, end: Any, steps: Any) -> Any:
    if not isinstance(steps, int) or any(isinstance(v, TracedArray) for v in (start, end)):
        call.refuse("bounds known only at run time are not supported")
    dtype = "float64" if call.dtype == "float64" else "float32"
    row = numpy.linspace(start, end, steps, dtype=dtype)
    return call.cast(row)


def _logspace(call: OperatorCall, start: Any, end: Any, steps: Any, base: float = 10.0) -> Any:
    if not isinstance(steps, int) or any(isinstance(v, TracedArray) for v in (start, end)):
        call.refuse("bounds known only at run time are not supported")
    return call.cast(numpy.power(float(base), numpy.linspace(start, end, steps)))


def _indices(lower: bool) -> Handler:
    def handler(call: OperatorCall, rows: int, columns: int, offset: int = 0) -> Any:
        if not (isinstance(rows, int) and isinstance(columns, int)):
            call.refuse("symbolic dims are not supported")
        make = numpy.tril_indices if lower else numpy.triu_indices
        return call.cast(numpy.stack(make(rows, offset, columns)))

    return handler


SHAPING: Mapping[str, Handler] = {
    **dict.fromkeys(
        ("view.default", "view_copy.default", "_unsafe_view", "reshape", "_reshape_alias"), _view
    ),
    "flatten": _flatten,
    "unflatten": _unflatten,
    "permute": _permute,
    "permute_copy": _permute,
    "transpose.int": _transpose,
    "transpose_copy.int": _transpose,
    "t": _t,
    "numpy_T": _t,
    "unsqueeze": _unsqueeze,
    "squeeze": _squeeze,
    "expand": _expand,
    "expand_copy": _expand,
    "expand_as": _expand_as,
    "repeat": _repeat,
    "tile": _repeat,
    "flip": _flip,
    "roll": _roll,
    "movedim": _movedim,
    "slice.Tensor": _slice,
    "slice_copy.Tensor": _slice,
    "select.int": _select,
    "select_copy.int": _select,
    "narrow": _narrow,
    "split.Tensor": _split,
    "split.sizes": _split_with_sizes,
    "split_with_sizes": _split_with_sizes,
    "chunk": _chunk,
    "tensor_split.sections": _tensor_split,
    "tensor_split.indices": _tensor_split,
    "unbind.int": _unbind,
    "diagonal.default": _diagonal,
    "diagonal_copy": _diagonal,
    "diag_embed": _diag_embed,
    "triu": _triangle(1),
    "tril": _triangle(0),
    "as_strided": _as_strided,
    "cat": _cat,
    "concat": _cat,
    "stack": _stack,
    "constant_pad_nd": _pad,
    "pad": _pad_by,
    **{f"reflection_pad{n}d": _edges("reflect") for n in (1, 2, 3)},
    **{f"replication_pad{n}d": _edges("edge") for n in (1, 2, 3)},
    "_pad_circular": _edges("wrap"),
    "pixel_shuffle": _shuffle,
    "pixel_unshuffle": _unshuffle,
    "channel_shuffle": _channel_shuffle,
    "unfold": _unfold,
    "full": _full,
    "full_like": _full_like,
    "zeros": _filled(0),
    "ones": _filled(1),
    "empty.memory_format": _filled(0),
    "empty_permuted": _filled(0),
    "empty_strided": _filled(0),
    "zeros_like": _like(0),
    "ones_like": _like(1),
    "empty_like": _like(0),
    "new_zeros": _new(0),
    "new_ones": _new(1),
    "new_empty": _new(0),
    "new_empty_strided": _new(0),
    "new_full": _new_full,
    "fill": _fill,
    "scalar_tensor": _scalar,
    "arange.default": _arange_end,
    "arange.start": _arange,
    "arange.start_step": _arange,
    "eye": _eye,
    "linspace": _linspace,
    "logspace": _logspace,
    "tril_indices": _indices(lower=True),
    "triu_indices": _indices(lower=False),
}
