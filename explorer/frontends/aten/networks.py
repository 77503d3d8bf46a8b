"""ATen's neural network operators: products, windows, norms, attention, images, losses."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy

from explorer.frontends import arrays as np
from explorer.frontends.aten.call import OperatorCall, pair
from explorer.frontends.aten.elementwise import like
from explorer.frontends.aten.indexing import repeat_indices, scatter
from explorer.frontends.aten.reductions import extreme, moments, reduce_dims
from explorer.frontends.aten.shaping import axis_of, slice_dim
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.emit import emit, emit_several
from explorer.frontends.tracing.promote import converted, traced
from explorer.ir.dtypes import ml_dtypes

Handler = Callable[..., Any]


# Products.


def _matmul(call: OperatorCall, a: Any, b: Any) -> Any:
    return np.matmul(call.cast(a), call.cast(b))


def _linear(call: OperatorCall, x: Any, weight: Any, bias: Any = None) -> Any:
    w = call.cast(weight)
    product = np.matmul(call.cast(x), np.transpose(w))
    return product if bias is None else np.add(product, call.cast(bias))


def _scale(call: OperatorCall, x: Any, factor: Any) -> Any:
    return x if factor == 1 else np.multiply(x, call.cast(factor))


def _addmm(call: OperatorCall, x: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    product = _scale(call, np.matmul(call.cast(a), call.cast(b)), alpha)
    return product if beta == 0 else np.add(product, _scale(call, call.cast(x), beta))


def _addbmm(call: OperatorCall, x: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    total = reduce_dims("ReduceSum", np.matmul(call.cast(a), call.cast(b)), 0)
    product = _scale(call, total, alpha)
    return product if beta == 0 else np.add(product, _scale(call, call.cast(x), beta))


def _addr(call: OperatorCall, x: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    product = np.multiply(np.expand_dims(call.cast(a), 1), call.cast(b))
    product = _scale(call, product, alpha)
    return product if beta == 0 else np.add(product, _scale(call, call.cast(x), beta))


def _dot(call: OperatorCall, a: Any, b: Any) -> Any:
    return reduce_dims("ReduceSum", np.multiply(call.cast(a), call.cast(b)))


def _int_mm(call: OperatorCall, a: Any, b: Any) -> Any:
    return emit("MatMulInteger", traced(a), traced(b))


def _grouped_mm(call: OperatorCall, a: Any, b: Any, ends: Any = None, bias: Any = None) -> Any:
    """Multiply each row of a by the matrix of its group.

    Group g ends at row ends[g]; rows after the last group are 0. Each matrix multiplies all rows,
    with those of other groups zeroed.
    """
    x, y = call.cast(a), call.cast(b)
    if ends is None or x.ndim != 2 or y.ndim != 3 or bias is not None:
        call.refuse("groups of columns, or a bias, are not supported")
    last = np.reshape(converted(ends, "int64"), (-1, 1))
    first = np.concatenate([converted(np.zeros_like(last[:1]), "int64"), last[:-1]])
    row = np.arange(x.shape[0])
    own = np.logical_and(np.greater_equal(row, first), np.less(row, last))
    own_rows = np.where(np.expand_dims(own, -1), x, like(0, x))
    return reduce_dims("ReduceSum", np.matmul(own_rows, y), 0)


def _einsum(call: OperatorCall, equation: str, operands: Sequence[Any], path: Any = None) -> Any:
    arrays = [call.cast(o) for o in operands]
    if any(c.isupper() for c in equation) or not arrays:
        call.refuse("subscripts in capitals are not supported")
    return np.einsum(equation, *arrays)


def _cdist(call: OperatorCall, a: Any, b: Any, p: float = 2, mode: Any = None) -> Any:
    x, y = call.cast(a), call.cast(b)
    off = np.abs(np.subtract(np.expand_dims(x, -2), np.expand_dims(y, -3)))
    return _distance(off, p)


def _trilinear(
    call: OperatorCall,
    a: Any,
    b: Any,
    c: Any,
    first: Any,
    second: Any,
    third: Any,
    sums: Any,
    *_: Any,
) -> Any:
    """Contract a product of three tensors, each expanded by dims of 1."""
    x, y, z = (
        np.expand_dims(call.cast(v), tuple(dims)) if dims else call.cast(v)
        for v, dims in ((a, first), (b, second), (c, third))
    )
    product = np.multiply(np.multiply(x, y), z)
    return reduce_dims("ReduceSum", product, sums) if sums else product


def _distance(off: TracedArray, p: float) -> Any:
    """Return the p-norm of differences along the last dim, with gradient 0 where they are all 0."""
    if p == 0:
        return reduce_dims("ReduceSum", converted(np.not_equal(off, like(0, off)), off.dtype), -1)
    if p == 1:
        return reduce_dims("ReduceSum", off, -1)
    if math.isinf(p):
        return extreme("ReduceMax", off, -1)
    total = reduce_dims("ReduceSum", emit("Pow", off, like(p, off)) if p != 2 else off * off, -1)
    none = np.equal(total, like(0, total))
    safe = np.where(none, like(1, total), total)
    root = np.sqrt(safe) if p == 2 else emit("Pow", safe, like(1 / p, safe))
    return np.where(none, total, root)


def _pdist(call: OperatorCall, x: Any, p: float = 2) -> Any:
    array = call.cast(x)
    count = array.shape[0]
    if not isinstance(count, int):
        call.refuse("a symbolic number of rows is not supported")
    rows, columns = numpy.triu_indices(count, 1)
    off = np.subtract(np.take(array, rows, 0), np.take(array, columns, 0))
    return _distance(np.abs(off), p)


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


# Norms.


def _ones(x: TracedArray, shape: Sequence[Any]) -> TracedArray:
    ones: TracedArray = np.broadcast_to(like(1, x), tuple(shape))
    return ones


def _layer_norm(
    call: OperatorCall,
    x: Any,
    shape: Sequence[Any],
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    *_: Any,
) -> Any:
    array = call.cast(x)
    scale = _ones(array, shape) if weight is None else call.cast(weight)
    operands = [array, scale] if bias is None else [array, scale, call.cast(bias)]
    return emit("LayerNormalization", *operands, axis=array.ndim - len(shape), epsilon=eps)


def _native_layer_norm(
    call: OperatorCall, x: Any, shape: Sequence[Any], weight: Any, bias: Any, eps: float
) -> Any:
    normalized = _layer_norm(call, x, shape, weight, bias, eps)
    if not call.read & {1, 2}:
        return [normalized, None, None]
    dims = tuple(range(-len(shape), 0))
    variance, mean = moments(converted(traced(x), call.dtype_of(1)), dims, 0)
    inverse = np.reciprocal(np.sqrt(np.add(variance, like(eps, variance))))
    return [normalized, call.stop_gradient(mean), call.stop_gradient(inverse)]


def _rms_norm(
    call: OperatorCall, x: Any, shape: Sequence[Any], weight: Any = None, eps: float | None = None
) -> Any:
    array = call.cast(x)
    scale = _ones(array, shape) if weight is None else call.cast(weight)
    least = float(ml_dtypes.finfo(call.dtype).eps) if eps is None else eps
    return emit("RMSNormalization", array, scale, axis=array.ndim - len(shape), epsilon=least)


def _group_norm(
    call: OperatorCall,
    x: Any,
    groups: int,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    *_: Any,
) -> Any:
    array = call.cast(x)
    channels = array.shape[1:2]
    scale = _ones(array, channels) if weight is None else call.cast(weight)
    shift = np.zeros_like(scale) if bias is None else call.cast(bias)
    return emit("GroupNormalization", array, scale, shift, num_groups=groups, epsilon=eps)


def _native_group_norm(
    call: OperatorCall,
    x: Any,
    weight: Any,
    bias: Any,
    n: Any,
    c: Any,
    spatial: Any,
    groups: int,
    eps: float,
) -> Any:
    normalized = _group_norm(call, x, groups, weight, bias, eps)
    if not call.read & {1, 2}:
        return [normalized, None, None]
    rows = np.reshape(call.cast(x), (n, groups, -1))
    variance, mean = moments(rows, -1, 0)
    inverse = np.reciprocal(np.sqrt(np.add(variance, like(eps, variance))))
    return [normalized, np.squeeze(mean, (-1,)), np.squeeze(inverse, (-1,))]


def _per_channel(v: TracedArray, x: TracedArray) -> TracedArray:
    column: TracedArray = np.reshape(v, (-1, *(1,) * (x.ndim - 2))) if x.ndim > 2 else v
    return column


def _normalize(
    x: TracedArray, mean: Any, variance: Any, weight: Any, bias: Any, eps: float
) -> TracedArray:
    """Normalise by mean and variance, then scale and shift each channel."""
    inverse = np.reciprocal(np.sqrt(np.add(variance, like(eps, variance))))
    normalized = np.multiply(np.subtract(x, mean), inverse)
    if weight is not None:
        normalized = np.multiply(normalized, _per_channel(converted(weight, x.dtype), x))
    if bias is not None:
        normalized = np.add(normalized, _per_channel(converted(bias, x.dtype), x))
    return traced(normalized)


def _batch_norm(
    call: OperatorCall,
    x: Any,
    weight: Any,
    bias: Any,
    mean: Any,
    variance: Any,
    training: bool,
    momentum: float = 0.1,
    eps: float = 1e-5,
    *_: Any,
) -> Any:
    """Apply a batch norm; the update of running statistics is a separate operator by now."""
    array = call.cast(x)
    if training or mean is None:
        return _normalize_batch(call, array, weight, bias, eps)[0]
    channels = array.shape[1:2]
    scale = _ones(array, channels) if weight is None else call.cast(weight)
    shift = np.zeros_like(scale) if bias is None else call.cast(bias)
    operands = (array, scale, shift, call.cast(mean), call.cast(variance))
    return emit("BatchNormalization", *operands, epsilon=eps)


def _normalize_batch(
    call: OperatorCall, x: TracedArray, weight: Any, bias: Any, eps: float
) -> list[Any]:
    axes = (0, *range(2, x.ndim))
    variance, mean = moments(x, axes, 0)
    return [_normalize(x, mean, variance, weight, bias, eps), mean, variance]


def _native_batch_norm(
    call: OperatorCall,
    x: Any,
    weight: Any,
    bias: Any,
    mean: Any,
    variance: Any,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    array = call.cast(x)
    if not training:
        normalized = _batch_norm(call, array, weight, bias, mean, variance, False, momentum, eps)
        empty = traced(numpy.zeros(0, numpy.float32))
        return [normalized, empty, empty, mean, variance]
    normalized, mu, square = _normalize_batch(call, array, weight, bias, eps)
    row, squares = (np.reshape(v, (-1,)) for v in (mu, square))
    inverse = np.reciprocal(np.sqrt(np.add(squares, like(eps, squares))))
    if mean is None:
        return [normalized, row, inverse, None, None]
    count = math.prod(n for d, n in enumerate(array.shape) if d != 1)
    least = count - 1 if not isinstance(count, int) else max(count - 1, 1)
    unbiased = np.divide(
        np.multiply(squares, converted(count, squares.dtype)), converted(least, squares.dtype)
    )
    new = [
        np.add(
            np.multiply(converted(old, v.dtype), like(1 - momentum, v)),
            np.multiply(v, like(momentum, v)),
        )
        for old, v in ((mean, row), (variance, unbiased))
    ]
    return [normalized, row, inverse, *new]


def _batch_norm_without_stats(
    call: OperatorCall, x: Any, weight: Any, bias: Any, training: bool, momentum: float, eps: float
) -> Any:
    return _native_batch_norm(call, x, weight, bias, None, None, training, momentum, eps)


def _batch_norm_inference(
    call: OperatorCall,
    x: Any,
    weight: Any,
    bias: Any,
    mean: Any,
    variance: Any,
    momentum: float,
    eps: float,
) -> Any:
    return _native_batch_norm(call, x, weight, bias, mean, variance, False, momentum, eps)


def _batch_norm_with_update(
    call: OperatorCall,
    x: Any,
    weight: Any,
    bias: Any,
    mean: Any,
    variance: Any,
    momentum: float,
    eps: float,
) -> Any:
    results = _native_batch_norm(call, x, weight, bias, mean, variance, True, momentum, eps)
    return [*results[:3], traced(numpy.zeros(0, numpy.uint8)), *results[3:]]


def _instance_norm(
    call: OperatorCall,
    x: Any,
    weight: Any,
    bias: Any,
    mean: Any,
    variance: Any,
    by_input: bool,
    momentum: float,
    eps: float,
    *_: Any,
) -> Any:
    array = call.cast(x)
    if not by_input:
        return _batch_norm(call, array, weight, bias, mean, variance, False, momentum, eps)
    scale = _ones(array, array.shape[1:2]) if weight is None else call.cast(weight)
    shift = np.zeros_like(scale) if bias is None else call.cast(bias)
    return emit("InstanceNormalization", array, scale, shift, epsilon=eps)


# Attention.


def _attention(
    call: OperatorCall,
    query: Any,
    key: Any,
    value: Any,
    mask: Any = None,
    dropout: float = 0.0,
    causal: bool = False,
    scale: float | None = None,
    grouped: bool = False,
) -> Any:
    if dropout:
        call.refuse("attention with dropout is not supported")
    q, k, v = (call.cast(a) for a in (query, key, value))
    if grouped:
        k, v = (_repeat_heads(a, q) for a in (k, v))
    width = q.shape[-1]
    if scale is not None:
        by = like(scale, q)
    elif isinstance(width, int):
        by = like(1 / math.sqrt(width), q)
    else:
        by = np.reciprocal(np.sqrt(call.cast(width)))
    scores = np.multiply(np.matmul(q, np.swapaxes(k, -1, -2)), by)
    if causal:
        rows, columns = np.arange(q.shape[-2]), np.arange(k.shape[-2])
        is_visible = np.less_equal(columns, np.expand_dims(rows, -1))
        return np.matmul(
            emit("Softmax", np.where(is_visible, scores, like(-math.inf, q)), axis=-1), v
        )
    if mask is None:
        return np.matmul(emit("Softmax", scores, axis=-1), v)
    return _masked_attention(scores, traced(mask), v)


def _masked_attention(scores: TracedArray, mask: TracedArray, v: TracedArray) -> Any:
    """Return attention under a mask; 0 in fully masked rows, where softmax alone is NaN."""
    low = like(float(ml_dtypes.finfo(scores.type.element).min) / 2, scores)
    if mask.dtype.kind == "b":
        is_visible = np.any(mask, -1, keepdims=True)
        scores = np.where(mask, scores, low)
    else:
        additive = converted(mask, scores.dtype)
        top = extreme("ReduceMax", additive, -1, keep=True)
        is_visible = np.greater(top, like(-math.inf, additive))
        scores = np.add(scores, np.maximum(additive, low))
    attended = np.matmul(emit("Softmax", scores, axis=-1), v)
    return np.where(is_visible, attended, like(0, attended))


def _repeat_heads(x: TracedArray, query: TracedArray) -> TracedArray:
    """Repeat keys or values for each query head that shares them."""
    *lead, heads, rows, width = x.shape
    times = query.shape[-3] // heads
    if isinstance(times, int) and times == 1:
        return x
    wide = np.broadcast_to(np.expand_dims(x, -3), (*lead, heads, times, rows, width))
    expanded: TracedArray = np.reshape(wide, (*lead, heads * times, rows, width))
    return expanded


def _flash(
    call: OperatorCall,
    query: Any,
    key: Any,
    value: Any,
    dropout: float = 0.0,
    causal: bool = False,
    mask: Any = None,
    scale: float | None = None,
) -> Any:
    return [_attention(call, query, key, value, mask, dropout, causal, scale), None]


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


# Losses and bags.


def _nll(call: OperatorCall, x: Any, target: Any, weight: Any, reduction: int, ignored: int) -> Any:
    """Return the negative log-likelihood of the targets; ignored targets contribute 0."""
    array = call.cast(x)
    alone = array.ndim == 1
    wide = np.expand_dims(array, 0) if alone else array
    places = converted(target, "int64")
    places = np.reshape(places, (1,)) if alone else places
    is_counted = np.not_equal(places, like(ignored, places))
    safe = np.where(is_counted, places, like(0, places))
    chosen = emit("GatherElements", wide, np.expand_dims(safe, 1), axis=1)
    loss = np.negative(np.squeeze(chosen, (1,)))
    each = converted(is_counted, array.dtype)
    if weight is not None:
        each = np.multiply(each, emit("Gather", call.cast(weight), safe, axis=0))
    loss = np.where(is_counted, np.multiply(loss, each), like(0, loss))
    total = reduce_dims("ReduceSum", each)
    if reduction == 0:
        return [np.squeeze(loss, (0,)) if alone else loss, like(0, array)]
    summed = reduce_dims("ReduceSum", loss)
    return [np.divide(summed, total) if reduction == 1 else summed, total]


def _linear_cross_entropy(
    call: OperatorCall,
    x: Any,
    matrix: Any,
    target: Any,
    bias: Any,
    weight: Any,
    reduction: str,
    ignored: int,
    smoothing: float,
    *_: Any,
) -> Any:
    """Return the cross entropy of a linear layer; PyTorch computes its scores in chunks of rows."""
    if call.read - {0} or smoothing:
        call.refuse("gradients beside the loss, or smoothed labels, are not supported")
    scores = np.matmul(call.cast(x), np.transpose(call.cast(matrix)))
    scores = scores if bias is None else np.add(scores, call.cast(bias))
    how = ("none", "mean", "sum").index(reduction)
    logs = emit("LogSoftmax", scores, axis=-1)
    return [_nll(call, logs, target, weight, how, ignored)[0], None, None, None]


def _linear_cross_entropies(
    call: OperatorCall,
    x: Any,
    matrix: Any,
    target: Any,
    bias: Any,
    weight: Any,
    ignored: int,
    *_: Any,
) -> Any:
    return _linear_cross_entropy(call, x, matrix, target, bias, weight, "none", ignored, 0.0)[0]


def _embedding_bag(
    call: OperatorCall,
    weight: Any,
    indices: Any,
    offsets: Any,
    scaled: bool = False,
    mode: int = 0,
    sparse: bool = False,
    each: Any = None,
    ends: bool = False,
    ignored: int = -1,
) -> Any:
    """Sum, average or maximise rows of a table by bags; `offsets` are the bags' first indices.

    Raises:
        UnsupportedOperator: another result than the bags is read.
    """
    if call.read & {1, 2, 3}:
        call.refuse("reading other results than the bags is not supported")
    table, places = call.cast(weight), converted(indices, "int64")
    starts = converted(offsets, "int64")
    bags = starts.shape[0] - 1 if ends else starts.shape[0]
    row = np.arange(places.shape[0])
    below = np.less_equal(np.expand_dims(starts[:bags] if ends else starts, -1), row)
    bag = np.subtract(reduce_dims("ReduceSum", converted(below, "int64"), 0), like(1, places))
    bag = np.maximum(bag, like(0, bag))
    rows = emit("Gather", table, places, axis=0)
    if each is not None:
        rows = np.multiply(rows, np.expand_dims(call.cast(each), -1))
    is_counted = np.not_equal(places, like(ignored, places))
    if ignored >= 0:
        low = like(-math.inf if mode == 2 else 0, rows)
        rows = np.where(np.expand_dims(is_counted, -1), rows, low)
    at = np.broadcast_to(np.expand_dims(bag, -1), rows.shape)
    shape = (bags, table.shape[1])
    zeros = np.broadcast_to(like(0, rows), shape)
    if mode == 2:
        lows = np.broadcast_to(like(-math.inf, rows), shape)
        greatest = scatter(lows, 0, at, rows, "max")
        none = np.equal(greatest, like(-math.inf, greatest))
        return [np.where(none, zeros, greatest), None, None, None]
    total = scatter(zeros, 0, at, rows, "add")
    if mode == 1:
        zero_counts = np.broadcast_to(like(0, rows), (bags,))
        count = scatter(zero_counts, 0, bag, converted(is_counted, rows.dtype), "add")
        total = np.divide(total, np.expand_dims(np.maximum(count, like(1, count)), -1))
    return [total, None, None, None]


def _segment_reduce(
    call: OperatorCall,
    data: Any,
    reduce: str,
    lengths: Any = None,
    indices: Any = None,
    offsets: Any = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Any = None,
) -> Any:
    array = call.cast(data)
    at = axis_of(axis, array.ndim)
    if at or (lengths is None and offsets is None):
        call.refuse("segments along another dim than the first are not supported")
    counts = converted(lengths, "int64") if lengths is not None else _segment_lengths(offsets)
    segment = repeat_indices(counts)
    how = {"sum": "add", "mean": "add", "prod": "mul", "max": "max", "min": "min"}[reduce]
    neutral = {"add": 0.0, "mul": 1.0, "max": -math.inf, "min": math.inf}[how]
    first = neutral if initial is None else initial
    shape = (counts.shape[0], *array.shape[1:])
    base = np.broadcast_to(like(first, array), shape)
    wide = np.broadcast_to(np.reshape(segment, (-1, *(1,) * (array.ndim - 1))), array.shape)
    totals = scatter(base, 0, wide, array, how)
    if reduce != "mean":
        return totals
    each = np.reshape(converted(counts, array.dtype), (-1, *(1,) * (array.ndim - 1)))
    none = np.equal(each, like(0, each))
    mean = np.divide(totals, np.where(none, like(1, each), each))
    return np.where(none, like(math.nan if initial is None else initial, mean), mean)


def _segment_lengths(offsets: Any) -> TracedArray:
    row = converted(offsets, "int64")
    lengths: TracedArray = np.subtract(slice_dim(row, 0, 1, None), slice_dim(row, 0, 0, -1))
    return lengths


def _dropout(call: OperatorCall, x: Any, p: float, training: bool) -> Any:
    if training and p:
        call.refuse("dropout while training is random, which is not supported")
    return traced(x)


def _native_dropout(call: OperatorCall, x: Any, p: float, training: bool | None) -> Any:
    array = _dropout(call, x, p, bool(training))
    return [array, converted(np.ones_like(array), "bool")]


def _renorm(call: OperatorCall, x: Any, p: float, dim: int, most: float) -> Any:
    array = call.cast(x)
    at = axis_of(dim, array.ndim)
    dims = tuple(d for d in range(array.ndim) if d != at)
    size = np.abs(array)
    total = reduce_dims("ReduceSum", emit("Pow", size, like(p, size)), dims, keep=True)
    length = emit("Pow", total, like(1 / p, total))
    scale = np.divide(like(most, length), np.add(length, like(1e-7, length)))
    return np.where(np.greater(length, like(most, length)), np.multiply(array, scale), array)


NETWORKS: Mapping[str, Handler] = {
    **dict.fromkeys(("mm", "bmm", "matmul", "mv"), _matmul),
    "linear": _linear,
    "addmm": _addmm,
    "addmv": _addmm,
    "baddbmm": _addmm,
    "addbmm": _addbmm,
    "addr": _addr,
    "dot": _dot,
    "vdot": _dot,
    "_int_mm": _int_mm,
    "_grouped_mm": _grouped_mm,
    "einsum": _einsum,
    "_cdist_forward": _cdist,
    "_euclidean_dist": _cdist,
    "_pdist_forward": _pdist,
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
    "layer_norm": _layer_norm,
    "native_layer_norm": _native_layer_norm,
    "rms_norm": _rms_norm,
    "group_norm": _group_norm,
    "native_group_norm": _native_group_norm,
    "batch_norm": _batch_norm,
    "_native_batch_norm_legit_functional": _native_batch_norm,
    "_native_batch_norm_legit.no_stats": _batch_norm_without_stats,
    "_native_batch_norm_legit_no_training": _batch_norm_inference,
    "_batch_norm_with_update_functional": _batch_norm_with_update,
    "_batch_norm_no_update": _batch_norm_inference,
    "instance_norm": _instance_norm,
    "scaled_dot_product_attention": _attention,
    "_scaled_dot_product_flash_attention_for_cpu": _flash,
    **IMAGES,
    "grid_sampler_2d": _grid_sample,
    "grid_sampler_3d": _grid_sample,
    "_trilinear": _trilinear,
    "linear_cross_entropy": _linear_cross_entropy,
    "linear_cross_entropies": _linear_cross_entropies,
    "nll_loss_forward": _nll,
    "nll_loss2d_forward": _nll,
    "_embedding_bag": _embedding_bag,
    "_embedding_bag_forward_only": _embedding_bag,
    "segment_reduce": _segment_reduce,
    "dropout": _dropout,
    "native_dropout": _native_dropout,
    "renorm": _renorm,
}
