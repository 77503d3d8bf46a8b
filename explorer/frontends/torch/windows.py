"""ATen's operators of windows: convolutions, pools, unfolding, and resizing of images."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy

from explorer.frontends.python import arrays as np
from explorer.frontends.python.tracing.array import TracedArray
from explorer.frontends.python.tracing.emit import converted, emit, emit_several, traced
from explorer.frontends.torch.call import OperatorCall, pair
from explorer.frontends.torch.elementwise import like
from explorer.frontends.torch.indexing import scatter
from explorer.frontends.torch.reductions import reduce_dims

Handler = Callable[..., Any]


# Windows.


def _add_batch(x: TracedArray, rank: int) -> tuple[TracedArray, bool]:
    """Add a batch dim of 1 if there is none; return True if it was added."""
    alone = x.ndim == rank + 1
    return (np.expand_dims(x, 0), True) if alone else (x, False)


def _drop_batch(result: Any, alone: bool) -> Any:
    return np.squeeze(result, (0,)) if alone else result


def _convolution(
    call: OperatorCall,
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    *_: Any,
) -> Any:
    w = call.cast(weight)
    rank = w.ndim - 2
    array, alone = _add_batch(call.cast(x), rank)
    pads = pair(padding, rank, 0)
    attrs: dict[str, Any] = {
        "strides": pair(stride, rank),
        "dilations": pair(dilation, rank),
        "pads": pads * 2 if len(pads) == rank else pads,
        "kernel_shape": w.type.dims[2:],
        "group": groups,
    }
    operands = [array, w] if bias is None else [array, w, call.cast(bias)]
    if transposed:
        attrs["output_padding"] = pair(output_padding, rank, 0)
    return _drop_batch(emit("ConvTranspose" if transposed else "Conv", *operands, **attrs), alone)


def _conv(
    call: OperatorCall,
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    rank = traced(weight).ndim - 2
    if isinstance(padding, str):
        padding = _same_padding(traced(weight), pair(dilation, rank)) if padding == "same" else 0
    return _convolution(call, x, weight, bias, stride, padding, dilation, False, 0, groups)


def _same_padding(weight: TracedArray, dilation: Sequence[int]) -> tuple[int, ...]:
    """Return pads that keep the extents; an odd one comes last."""
    total = [d * (k - 1) for k, d in zip(weight.shape[2:], dilation, strict=True)]
    return (*(t // 2 for t in total), *(t - t // 2 for t in total))


def _conv_transpose(
    call: OperatorCall,
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    return _convolution(
        call, x, weight, bias, stride, padding, dilation, True, output_padding, groups
    )


def _pool_pads(
    call: OperatorCall, x: TracedArray, rank: int, window: Sequence[Any], ceil: bool
) -> tuple[tuple[int, ...], list[Any]] | None:
    """Return the pads of a pool, extended to cover PyTorch's results, and the results' extents.

    None if the extension depends on a runtime extent.
    """
    sizes, strides, pads, dilations = window
    extents = [int(n) if isinstance(n, int) else None for n in call.results[0].shape[-rank:]]
    after = list(pads)
    if ceil and any(n != 1 for n in strides):
        for d, (n, out) in enumerate(zip(x.shape[-rank:], extents, strict=True)):
            if out is None or not isinstance(n, int):
                return None
            need = (out - 1) * strides[d] + dilations[d] * (sizes[d] - 1) + 1
            after[d] = max(need - n - pads[d], 0)
    return (*pads, *after), extents


def _max_pool(rank: int) -> Handler:
    def handler(
        call: OperatorCall,
        x: Any,
        size: Any,
        stride: Any = (),
        padding: Any = 0,
        dilation: Any = 1,
        ceil: bool = False,
    ) -> Any:
        array, alone = _add_batch(call.cast(x), rank)
        sizes = pair(size, rank)
        strides, pads = pair(stride, rank, sizes), pair(padding, rank, 0)
        dilations = pair(dilation, rank)
        reach = _pool_pads(call, array, rank, (sizes, strides, pads, dilations), ceil)
        attrs: dict[str, Any] = {
            "kernel_shape": sizes,
            "strides": strides,
            "pads": (*pads, *pads) if reach is None else reach[0],
            "dilations": dilations,
            "ceil_mode": int(reach is None),
        }
        if len(call.results) == 1 or 1 not in call.read:
            return [_drop_batch(emit("MaxPool", array, **attrs), alone), None]
        values, places = emit_several("MaxPool", 2, array, **attrs)
        plane = array.shape[-rank]
        for n in array.shape[-rank:][1:]:
            plane = plane * n
        places = np.remainder(places, converted(plane, "int64"))
        return [_drop_batch(v, alone) for v in (values, places)]

    return handler


def _avg_pool(rank: int) -> Handler:
    def handler(
        call: OperatorCall,
        x: Any,
        size: Any,
        stride: Any = (),
        padding: Any = 0,
        ceil: bool = False,
        with_pads: bool = True,
        divisor: int | None = None,
    ) -> Any:
        array, alone = _add_batch(call.cast(x), rank)
        sizes = pair(size, rank)
        strides, pads = pair(stride, rank, sizes), pair(padding, rank, 0)
        window = (sizes, strides, pads, (1,) * rank)
        reach = _pool_pads(call, array, rank, window, ceil)
        if reach is None and divisor is not None:
            call.refuse("ceil_mode with a divisor over a symbolic dim is not supported")
        wide, extents = reach or ((*pads, *pads), [])
        attrs: dict[str, Any] = {"kernel_shape": sizes, "strides": strides, "pads": wide}
        if wide[rank:] == pads and divisor is None:
            more: dict[str, Any] = {"count_include_pad": int(with_pads)}
            more["ceil_mode"] = int(reach is None)
            averages = emit("AveragePool", array, **more, **attrs)
            return _drop_batch(averages, alone)
        averages = emit("AveragePool", array, count_include_pad=1, **attrs)
        each = math.prod(sizes)
        if divisor is not None:
            return _drop_batch(np.multiply(averages, like(each / divisor, averages)), alone)
        counts = numpy.ones((), numpy.float64)
        for d in range(rank):
            row = _window_counts(array.shape[-rank:][d], extents[d], window, d, with_pads)
            counts = counts[..., None] * row
        return _drop_batch(np.multiply(averages, call.cast(each / counts)), alone)

    return handler


def _window_counts(n: int, out: int, window: Sequence[Any], d: int, with_pads: bool) -> Any:
    """Return the number of elements in each window along a dim, with or without the padding."""
    sizes, strides, pads, _ = window
    starts = numpy.arange(out) * strides[d] - pads[d]
    ends = numpy.minimum(starts + sizes[d], n + pads[d])
    return ends - starts if with_pads else numpy.minimum(ends, n) - numpy.maximum(starts, 0)


def _adaptive_windows(n: Any, out: Any) -> tuple[Any, Any]:
    """Return a mask of the elements in each window of an adaptive pool, and their number."""
    i, place = np.arange(out), np.expand_dims(np.arange(n), 1)
    begin = np.floor_divide(np.multiply(i, n), out)
    end = np.floor_divide(np.add(np.multiply(np.add(i, 1), n), out - 1), out)
    inside = np.logical_and(np.greater_equal(place, begin), np.less(place, end))
    return inside, np.subtract(end, begin)


def _window_bounds(n: int, out: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Return the start and end of each window of an adaptive pool."""
    i = numpy.arange(out)
    return i * n // out, -(-(i + 1) * n // out)


def _adaptive_avg(rank: int) -> Handler:
    def handler(call: OperatorCall, x: Any, size: Any) -> Any:
        pooled = call.cast(x)
        sizes = pair(size, rank)
        if all(n == 1 for n in sizes):
            return reduce_dims("ReduceMean", pooled, tuple(range(-rank, 0)), keep=True)
        for d, out in enumerate(sizes):
            at = pooled.ndim - rank + d
            n = pooled.shape[at]
            if isinstance(n, int) and n == out:
                continue
            inside, count = _adaptive_windows(n, out)
            table = np.divide(call.cast(inside), call.cast(count))
            moved = np.matmul(np.moveaxis(pooled, at, -1), call.cast(table))
            pooled = np.moveaxis(moved, -1, at)
        return pooled

    return handler


def _adaptive_max(rank: int) -> Handler:
    def handler(call: OperatorCall, x: Any, size: Any) -> Any:
        array = call.cast(x)
        spatial = array.shape[-rank:]
        sizes = pair(size, rank)
        if not all(isinstance(n, int) for n in spatial):
            return _adaptive_max_by_dim(array, sizes)
        table = numpy.zeros((), numpy.int64)
        for n, out in zip(
            spatial, sizes, strict=True
        ):  # windows, padded by repeating their last element
            begin, end = _window_bounds(n, out)
            reach = numpy.arange((end - begin).max()) if out else numpy.arange(1)
            rows = numpy.minimum(begin[:, None] + reach, end[:, None] - 1)
            table = table[..., None, None] * n + rows
        order = (*range(0, 2 * rank, 2), *range(1, 2 * rank, 2))
        places = table.transpose(order).reshape(*sizes, -1)
        flat = np.reshape(array, (*array.shape[:-rank], -1))
        windows = np.take(flat, places, -1)
        values = reduce_dims("ReduceMax", windows, -1)
        if 1 not in call.read:
            return [values, None]
        first = emit("ArgMax", windows, axis=windows.ndim - 1, keepdims=1)
        wide = np.broadcast_to(traced(places), windows.shape)
        at = emit("GatherElements", wide, first, axis=windows.ndim - 1)
        return [values, np.squeeze(at, (-1,))]

    return handler


def _adaptive_max_by_dim(x: TracedArray, sizes: Sequence[Any]) -> list[TracedArray]:
    """Apply an adaptive max pool dim by dim from the last; return the values and their indices."""
    spatial = x.shape[-len(sizes) :]
    total = spatial[0]
    for n in spatial[1:]:
        total = total * n
    places = traced(np.broadcast_to(np.reshape(np.arange(total), spatial), x.shape))
    for d in reversed(range(len(sizes))):
        at = x.ndim - len(sizes) + d
        moved = np.moveaxis(x, at, -1)
        inside, _ = _adaptive_windows(moved.shape[-1], sizes[d])
        windows = np.where(inside, np.expand_dims(moved, -1), like(-math.inf, x))
        first = emit("ArgMax", windows, axis=windows.ndim - 2, keepdims=0)
        x = np.moveaxis(reduce_dims("ReduceMax", windows, -2), -1, at)
        gathered = emit("GatherElements", np.moveaxis(places, at, -1), first, axis=moved.ndim - 1)
        places = np.moveaxis(gathered, -1, at)
    return [x, places]


def _im2col(call: OperatorCall, x: Any, size: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    array, alone = _add_batch(call.cast(x), 2)
    kernel, steps, gaps = pair(size, 2), pair(stride, 2), pair(dilation, 2)
    top, left = pair(padding, 2, 0)
    padded = np.pad(array, [(0, 0), (0, 0), (top, top), (left, left)])
    n, c, h, w = padded.shape
    rows, columns = (
        np.add(np.multiply(np.arange((e - g * (k - 1) - 1) // s + 1), s), _tap_offsets(k, g))
        for e, k, s, g in zip((h, w), kernel, steps, gaps, strict=True)
    )
    high, wide = np.shape(rows)[1], np.shape(columns)[1]
    down = np.multiply(np.reshape(rows, (kernel[0], 1, high, 1)), w)
    table = np.add(down, np.reshape(columns, (1, kernel[1], 1, wide)))
    patches = np.take(np.reshape(padded, (n, c, h * w)), np.reshape(table, (-1,)), -1)
    return _drop_batch(np.reshape(patches, (n, c * kernel[0] * kernel[1], high * wide)), alone)


def _tap_offsets(size: int, dilation: int) -> Any:
    return numpy.arange(size)[:, None] * dilation


def _col2im(
    call: OperatorCall, x: Any, size: Any, kernel: Any, dilation: Any, padding: Any, stride: Any
) -> Any:
    array = call.cast(x)
    alone = array.ndim == 2
    image = emit(
        "Col2Im",
        np.expand_dims(array, 0) if alone else array,
        image_shape=pair(size, 2),
        block_shape=pair(kernel, 2),
        dilations=pair(dilation, 2),
        pads=pair(padding, 2, 0) * 2,
        strides=pair(stride, 2),
    )
    return _drop_batch(image, alone)


def _unpool(rank: int) -> Handler:
    def handler(call: OperatorCall, x: Any, places: Any, size: Any, *_: Any) -> Any:
        array, alone = _add_batch(call.cast(x), rank)
        at = _add_batch(converted(places, "int64"), rank)[0]
        n, c = array.shape[:2]
        extents = tuple(size)[-rank:]
        zeros = np.broadcast_to(like(0, array), (n, c, math.prod(extents)))
        rows, values = np.reshape(at, (n, c, -1)), np.reshape(array, (n, c, -1))
        flat = scatter(zeros, 2, rows, values)
        if call.trains:  # in PyTorch all values written to an element get its gradient
            total = scatter(zeros, 2, rows, values, "add")
            flat = np.add(call.stop_gradient(flat), np.subtract(total, call.stop_gradient(total)))
        return _drop_batch(np.reshape(flat, (n, c, *extents)), alone)

    return handler


# Images.


def _resize(mode: str, rank: int, corners_at: int | None = None, **attrs: Any) -> Handler:
    """Return a handler of a resize by sizes, or by the requested scales."""

    def handler(call: OperatorCall, x: Any, size: Any, *options: Any) -> Any:
        array = call.cast(x)
        corners = bool(options and corners_at is not None and options[0])
        scales = options[corners_at is not None :]
        extents = [n for n in call.results[0].shape[-rank:]]
        if not all(isinstance(n, int) for n in (*extents, *array.shape[-rank:])):
            call.refuse("a resize of symbolic dims is not supported")
        transform = attrs.get("coordinate_transformation_mode", "half_pixel")
        factors = [
            s for s in (scales[0] if scales and isinstance(scales[0], (list, tuple)) else scales)
        ]
        has_scales = len(factors) == rank and all(isinstance(s, float) for s in factors)
        plain = dict(attrs) | {
            "coordinate_transformation_mode": "align_corners" if corners else transform
        }
        by: dict[str, Any] = {"sizes": (*array.shape[:2], *extents)}
        if has_scales and not corners:
            by = {"scales": (1.0, 1.0, *factors)}
        resized = emit("Resize", array, mode=mode, **plain, **by)
        if resized.shape[-rank:] != tuple(extents):
            call.refuse("scales that result in other extents are not supported")
        return resized

    return handler


def _vector_resize(mode: str, rank: int, corners_at: int | None = None, **attrs: Any) -> Handler:
    """Return a handler of the overload with an optional size and one list of scales."""
    plain = _resize(mode, rank, corners_at=corners_at, **attrs)

    def handler(call: OperatorCall, x: Any, size: Any, *options: Any) -> Any:
        *corners, factors = options
        return plain(call, x, size, *corners, *(factors or ()))

    return handler


NEAREST = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
EXACT = {"coordinate_transformation_mode": "half_pixel", "nearest_mode": "round_prefer_floor"}
SMOOTH = {
    "linear": (("linear1d", 1), ("bilinear2d", 2), ("trilinear3d", 3)),
    "cubic": (("bicubic2d", 2),),
}
FILTERED: Mapping[str, Mapping[str, Any]] = {
    "_upsample_bilinear2d_aa": {"mode": "linear"},
    "_upsample_bicubic2d_aa": {"mode": "cubic", "cubic_coeff_a": -0.5},
}
IMAGES: Mapping[str, Handler] = {
    **{f"upsample_nearest{n}d.default": _resize("nearest", n, None, **NEAREST) for n in (1, 2, 3)},
    **{
        f"upsample_nearest{n}d.vec": _vector_resize("nearest", n, None, **NEAREST)
        for n in (1, 2, 3)
    },
    **{
        f"upsample_{name}.default": _resize(mode, rank, corners_at=0)
        for mode, forms in SMOOTH.items()
        for name, rank in forms
    },
    **{
        f"upsample_{name}.vec": _vector_resize(mode, rank, corners_at=0)
        for mode, forms in SMOOTH.items()
        for name, rank in forms
    },
    **{
        f"{name}.{form}": resize(rank=2, corners_at=0, antialias=1, exclude_outside=1, **attrs)
        for form, resize in (("default", _resize), ("vec", _vector_resize))
        for name, attrs in FILTERED.items()
    },
}


def _grid_sample(
    call: OperatorCall, x: Any, grid: Any, mode: int, padding: int, corners: bool
) -> Any:
    return emit(
        "GridSample",
        call.cast(x),
        call.cast(grid),
        mode=("linear", "nearest", "cubic")[mode],
        padding_mode=("zeros", "border", "reflection")[padding],
        align_corners=int(corners),
    )


WINDOWS: Mapping[str, Handler] = {
    "convolution": _convolution,
    **dict.fromkeys((f"conv{n}d" for n in (1, 2, 3)), _conv),
    "conv_transpose1d": _conv_transpose,
    "conv_transpose2d.input": _conv_transpose,
    "conv_transpose3d.input": _conv_transpose,
    **{f"max_pool{n}d": _max_pool(n) for n in (1, 2, 3)},
    **{f"max_pool{n}d_with_indices": _max_pool(n) for n in (1, 2, 3)},
    **{f"avg_pool{n}d": _avg_pool(n) for n in (1, 2, 3)},
    **{f"adaptive_avg_pool{n}d": _adaptive_avg(n) for n in (1, 2, 3)},
    **{f"_adaptive_avg_pool{n}d": _adaptive_avg(n) for n in (2, 3)},
    **{f"adaptive_max_pool{n}d": _adaptive_max(n) for n in (1, 2, 3)},
    **{f"max_unpool{n}d": _unpool(n) for n in (2, 3)},
    "im2col": _im2col,
    "col2im": _col2im,
    **IMAGES,
    "grid_sampler_2d": _grid_sample,
    "grid_sampler_3d": _grid_sample,
}
