"""ATen's operators that make arrays, and that move their elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy

from explorer.frontends import arrays as np
from explorer.frontends.aten.call import Call
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.emit import emit
from explorer.frontends.tracing.promote import converted, traced

Handler = Callable[..., Any]
END = 1 << 62  # from here on a slice means the end


def axis_of(dim: int, rank: int) -> int:
    """A dim counted from the start; of no dims there is one to name."""
    return dim % max(rank, 1)


# Shapes.


def _view(call: Call, x: Any, size: Sequence[Any]) -> Any:
    return np.reshape(x, tuple(size))


def _flatten(call: Call, x: Any, start: int = 0, end: int = -1) -> Any:
    given = traced(x)
    if not given.ndim:
        return np.reshape(given, (1,))
    a, b = axis_of(start, given.ndim), axis_of(end, given.ndim)
    return np.reshape(given, (*given.shape[:a], -1, *given.shape[b + 1 :]))


def _unflatten(call: Call, x: Any, dim: int, sizes: Sequence[Any]) -> Any:
    given = traced(x)
    at = axis_of(dim, given.ndim)
    return np.reshape(given, (*given.shape[:at], *sizes, *given.shape[at + 1 :]))


def _permute(call: Call, x: Any, dims: Sequence[int]) -> Any:
    given = traced(x)
    return np.transpose(given, tuple(axis_of(d, given.ndim) for d in dims)) if given.ndim else given


def _transpose(call: Call, x: Any, a: int, b: int) -> Any:
    given = traced(x)
    return np.swapaxes(given, a, b) if given.ndim else given


def _t(call: Call, x: Any) -> Any:
    return np.transpose(x)


def _unsqueeze(call: Call, x: Any, dim: int) -> Any:
    return np.expand_dims(x, dim)


def _squeeze(call: Call, x: Any, dims: Any = None) -> Any:
    """PyTorch leaves dims that are not 1 as they are."""
    given = traced(x)
    named = range(given.ndim) if dims is None else [dims] if isinstance(dims, int) else dims
    axes = {axis_of(d, given.ndim) for d in named}
    ones = tuple(d for d, n in enumerate(given.type.dims) if n == 1 and d in axes)
    return np.squeeze(given, ones) if ones else given


def _expand(call: Call, x: Any, size: Sequence[Any], implicit: bool = False) -> Any:
    given = traced(x)
    lead = len(size) - given.ndim
    kept = (None,) * lead + given.shape
    wanted = tuple(
        k if isinstance(n, int) and n == -1 else n for k, n in zip(kept, size, strict=True)
    )
    return np.broadcast_to(given, wanted)


def _expand_as(call: Call, x: Any, other: Any) -> Any:
    return np.broadcast_to(x, traced(other).shape)


def _repeat(call: Call, x: Any, repeats: Sequence[Any]) -> Any:
    return np.tile(x, tuple(repeats)) if repeats else x


def _flip(call: Call, x: Any, dims: Sequence[int]) -> Any:
    given = traced(x)
    return np.flip(given, tuple(dims)) if given.ndim and dims else given


def _roll(call: Call, x: Any, shifts: Any, dims: Any = ()) -> Any:
    given = traced(x)
    by = [shifts] if isinstance(shifts, int) else list(shifts)
    if not dims:
        return np.roll(given, by[0])
    for shift, dim in zip(by, [dims] if isinstance(dims, int) else dims, strict=True):
        given = np.roll(given, shift, dim) if given.ndim else given
    return given


def _moved(call: Call, x: Any, source: Any, target: Any) -> Any:
    return np.moveaxis(x, source, target)


# Parts.


def _bound(value: Any) -> Any:
    return None if isinstance(value, int) and abs(value) >= END else value


def cut(x: Any, dim: int, start: Any, end: Any, step: int = 1) -> Any:
    """`start : end : step` of a dim."""
    given = traced(x)
    at = axis_of(dim, given.ndim)
    return given[(*(slice(None),) * at, slice(_bound(start), _bound(end), step))]


def _slice(
    call: Call, x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Any:
    return cut(x, dim, start, end, step)


def _select(call: Call, x: Any, dim: int, index: Any) -> Any:
    given = traced(x)
    return given[(*(slice(None),) * axis_of(dim, given.ndim), index)]


def _narrow(call: Call, x: Any, dim: int, start: Any, length: Any) -> Any:
    given = traced(x)
    if isinstance(start, int) and start < 0:
        start = given.shape[axis_of(dim, given.ndim)] + start
    return cut(given, dim, start, start + length)


def _split(call: Call, x: Any, size: Any, dim: int = 0) -> Any:
    if isinstance(size, (list, tuple)):
        return _split_with_sizes(call, x, size, dim)
    given = traced(x)
    extent = given.shape[axis_of(dim, given.ndim)]
    count = len(call.results)
    ends = [min(size * (i + 1), extent) if isinstance(extent, int) else None for i in range(count)]
    return [
        cut(given, dim, size * i, None if i == count - 1 else size * (i + 1))
        for i, _ in enumerate(ends)
    ]


def _split_with_sizes(call: Call, x: Any, sizes: Sequence[Any], dim: int = 0) -> Any:
    found, start = [], 0
    for size in sizes:
        found.append(cut(x, dim, start, start + size))
        start = start + size
    return found


def _chunk(call: Call, x: Any, chunks: int, dim: int = 0) -> Any:
    given = traced(x)
    extent = given.shape[axis_of(dim, given.ndim)]
    return _split(call, given, (extent + chunks - 1) // chunks, dim)


def _tensor_split(call: Call, x: Any, places: Any, dim: int = 0) -> Any:
    return np.array_split(x, list(places) if isinstance(places, (list, tuple)) else places, dim)


def _unbind(call: Call, x: Any, dim: int = 0) -> Any:
    return [_select(call, x, dim, i) for i in range(len(call.results))]


def _diagonal(call: Call, x: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    given = traced(x)
    a, b = axis_of(dim1, given.ndim), axis_of(dim2, given.ndim)
    rest = [d for d in range(given.ndim) if d not in (a, b)]
    rows, columns = given.shape[a], given.shape[b]
    flat = np.reshape(np.transpose(given, (*rest, a, b)), (*(given.shape[d] for d in rest), -1))
    first = (max(-offset, 0), max(offset, 0))
    if given.type.dims[a] == given.type.dims[b]:
        least = rows - abs(offset)
    else:
        least = np.minimum(rows - first[0], columns - first[1])
    least = np.maximum(least, 0)
    step = np.multiply(np.arange(least), columns + 1)
    return np.take(flat, np.add(step, first[0] * columns + first[1]), -1)


def _diag_embed(call: Call, x: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    given = traced(x)
    size = given.shape[-1] + abs(offset)
    rank = given.ndim + 1
    wide = np.expand_dims(given, -1)
    pads = [(0, 0)] * (given.ndim - 1)
    before = (max(-offset, 0), max(offset, 0))
    count = size - abs(offset)
    square = np.where(np.eye(count, dtype=bool), wide, converted(0, given.dtype))
    margins = [(b, size - count - b) for b in before]
    found = np.pad(square, (*pads, *margins))
    return np.moveaxis(found, (rank - 2, rank - 1), (dim1, dim2))


def _triangle(upper: int) -> Handler:
    def handler(call: Call, x: Any, diagonal: int = 0) -> Any:
        given = traced(x)
        by = traced(numpy.int64(diagonal))
        return emit("Trilu", given, by, upper=upper)

    return handler


def _as_strided(
    call: Call, x: Any, size: Sequence[Any], stride: Sequence[Any], offset: Any = None
) -> Any:
    return np.take(np.ravel(x), strided_places(call, size, stride, offset))


def strided_places(call: Call, size: Sequence[Any], stride: Sequence[Any], offset: Any) -> Any:
    """The places of a view by strides in the row of all elements of the first argument."""
    like = call.given[0]
    known = all(isinstance(n, int) for n in (*size, *stride, *like.shape))
    if not known or not like.is_contiguous() or like.storage_offset() != 0:
        call.refuse("strides of an array that is itself a part of another one")
    places = numpy.array(offset or 0)
    for n, s in zip(size, stride, strict=True):
        places = places[..., None] + numpy.arange(n) * s
    return places


# Joins.


def _cat(call: Call, values: Sequence[Any], dim: int = 0) -> Any:
    given = [call.cast(v) for v in values]
    kept = [v for v in given if v.type.dims != (0,)] or given[:1]
    return np.concatenate(kept, axis_of(dim, kept[0].ndim)) if len(kept) > 1 else kept[0]


def _stack(call: Call, values: Sequence[Any], dim: int = 0) -> Any:
    return np.stack([call.cast(v) for v in values], dim)


def _pad_by(call: Call, x: Any, pads: Sequence[Any], mode: str = "constant", value: Any = 0) -> Any:
    if mode == "constant":
        return _pad(call, x, pads, value)
    names = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    return _edges(names[mode])(call, x, pads)


def _pad(call: Call, x: Any, pads: Sequence[Any], value: Any = 0) -> Any:
    """A number around the last dims; negative pads cut elements off."""
    pairs = _pairs(pads, traced(x).ndim)
    given, widths = _cropped(traced(x), pairs), _outward(pairs)
    number = False if value is None else value
    if call.dtype == "bool":
        wide = converted(given, "uint8")
        return converted(np.pad(wide, widths, constant_values=int(bool(number))), "bool")
    return np.pad(given, widths, constant_values=number)


def _cropped(x: TracedArray, pairs: Sequence[tuple[Any, Any]]) -> TracedArray:
    """Without what negative pads cut off."""
    for dim, (a, b) in enumerate(pairs):
        low = -a if isinstance(a, int) and a < 0 else 0
        high = b if isinstance(b, int) and b < 0 else None
        if low or high is not None:
            x = cut(x, dim, low, high)
    return x


def _outward(pairs: Sequence[tuple[Any, Any]]) -> list[tuple[Any, ...]]:
    return [tuple(0 if isinstance(n, int) and n < 0 else n for n in p) for p in pairs]


def _pairs(pads: Sequence[Any], rank: int) -> list[tuple[Any, Any]]:
    found = [(pads[i], pads[i + 1]) for i in range(0, len(pads), 2)]
    return [(0, 0)] * (rank - len(found)) + found[::-1]


def _edges(mode: str) -> Handler:
    def handler(call: Call, x: Any, pads: Sequence[Any]) -> Any:
        given = traced(x)
        pairs = _pairs(pads, given.ndim)
        if mode == "wrap":
            return _wrapped(given, pairs)
        return _cropped(np.pad(given, _outward(pairs), mode=mode), pairs)

    return handler


def _wrapped(x: TracedArray, pairs: Sequence[tuple[Any, Any]]) -> TracedArray:
    for dim, (a, b) in enumerate(pairs):
        n = x.shape[dim]
        before = [] if isinstance(a, int) and a == 0 else [cut(x, dim, n - a, None)]
        after = [] if isinstance(b, int) and b == 0 else [cut(x, dim, 0, b)]
        if before or after:
            x = np.concatenate([*before, x, *after], dim)
    return x


def _shuffle(call: Call, x: Any, factor: int) -> Any:
    given = traced(x)
    *lead, channels, h, w = given.shape
    split = np.reshape(given, (*lead, channels // factor**2, factor, factor, h, w))
    n = len(lead)
    moved = np.transpose(split, (*range(n), n, n + 3, n + 1, n + 4, n + 2))
    return np.reshape(moved, (*lead, channels // factor**2, h * factor, w * factor))


def _unshuffle(call: Call, x: Any, factor: int) -> Any:
    given = traced(x)
    *lead, channels, h, w = given.shape
    split = np.reshape(given, (*lead, channels, h // factor, factor, w // factor, factor))
    n = len(lead)
    moved = np.transpose(split, (*range(n), n, n + 2, n + 4, n + 1, n + 3))
    return np.reshape(moved, (*lead, channels * factor**2, h // factor, w // factor))


def _channel_shuffle(call: Call, x: Any, groups: int) -> Any:
    given = traced(x)
    n, channels, *rest = given.shape
    split = np.reshape(given, (n, groups, channels // groups, *rest))
    return np.reshape(np.swapaxes(split, 1, 2), given.shape)


def _unfold(call: Call, x: Any, dim: int, size: int, step: int) -> Any:
    """Windows along a dim, each a row of a new last dim."""
    given = traced(x)
    if not given.ndim:
        return np.reshape(given, (1,) * size) if size else np.reshape(given, (1,))[:0]
    at = axis_of(dim, given.ndim)
    starts = np.arange((given.shape[at] - size) // step + 1) * step
    found = np.take(given, np.expand_dims(starts, -1) + np.arange(size), at)
    return np.moveaxis(found, at + 1, -1)


# New arrays.


def _full(call: Call, size: Sequence[Any], value: Any) -> Any:
    return np.broadcast_to(call.cast(value), tuple(size))


def _like(value: float) -> Handler:
    def handler(call: Call, x: Any, *_: Any) -> Any:
        return np.broadcast_to(call.cast(value), traced(x).shape)

    return handler


def _full_like(call: Call, x: Any, value: Any) -> Any:
    return np.broadcast_to(call.cast(value), traced(x).shape)


def _filled(value: float) -> Handler:
    def handler(call: Call, size: Sequence[Any], *_: Any) -> Any:
        return np.broadcast_to(call.cast(value), tuple(size))

    return handler


def _new(value: float) -> Handler:
    def handler(call: Call, x: Any, size: Sequence[Any], *_: Any) -> Any:
        return np.broadcast_to(call.cast(value), tuple(size))

    return handler


def _new_full(call: Call, x: Any, size: Sequence[Any], value: Any) -> Any:
    return np.broadcast_to(call.cast(value), tuple(size))


def _fill(call: Call, x: Any, value: Any) -> Any:
    return _full_like(call, x, value)


def _scalar(call: Call, value: Any) -> Any:
    return call.cast(value)


def _arange(call: Call, start: Any, end: Any, step: Any = 1) -> Any:
    if any(isinstance(n, float) for n in (start, end, step)) or call.is_float:
        count = call.results[0].shape[0]
        if isinstance(count, int):
            steps = numpy.arange(count, dtype=numpy.float64)
            return call.cast(steps * step + start)
    return call.cast(np.arange(start, end, step))


def _arange_end(call: Call, end: Any) -> Any:
    return _arange(call, 0, end)


def _eye(call: Call, n: Any, m: Any = None) -> Any:
    return call.cast(np.eye(n, n if m is None else m))


def _linspace(call: Call, start: Any, end: Any, steps: Any) -> Any:
    if not isinstance(steps, int) or any(isinstance(v, TracedArray) for v in (start, end)):
        call.refuse("numbers that only a run knows")
    dtype = "float64" if call.dtype == "float64" else "float32"
    row = numpy.linspace(start, end, steps, dtype=dtype)
    return call.cast(row)


def _logspace(call: Call, start: Any, end: Any, steps: Any, base: float = 10.0) -> Any:
    if not isinstance(steps, int) or any(isinstance(v, TracedArray) for v in (start, end)):
        call.refuse("numbers that only a run knows")
    return call.cast(numpy.power(float(base), numpy.linspace(start, end, steps)))


def _indices(lower: bool) -> Handler:
    def handler(call: Call, rows: int, columns: int, offset: int = 0) -> Any:
        if not (isinstance(rows, int) and isinstance(columns, int)):
            call.refuse("dims that only a run knows")
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
    "movedim": _moved,
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
