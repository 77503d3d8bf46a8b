"""ATen's neural network operators: norms, attention, recurrent layers, losses, bags, dropout."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy

from explorer.frontends.python import arrays as np
from explorer.frontends.python.tracing.array import TracedArray
from explorer.frontends.python.tracing.emit import converted, emit, emit_several, traced
from explorer.frontends.torch.call import OperatorCall
from explorer.frontends.torch.elementwise import like
from explorer.frontends.torch.indexing import repeat_indices, scatter
from explorer.frontends.torch.reductions import extreme, moments, reduce_dims
from explorer.frontends.torch.shaping import axis_of, slice_dim
from explorer.ir.dtypes import ml_dtypes

Handler = Callable[..., Any]


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


# Recurrent layers, each as one operator.

# Indices of PyTorch's gates, in ONNX's order.
GATES = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}


def _reorder_gates(op: str, weight: TracedArray) -> TracedArray:
    """Reorder a weight's gates from PyTorch's order to ONNX's."""
    order = GATES[op]
    if len(order) == 1:
        return weight
    size = weight.shape[0] // len(order)
    parts = [slice_dim(weight, 0, size * g, size * (g + 1)) for g in order]
    ordered: TracedArray = np.concatenate(parts)
    return ordered


def _layer(
    op: str,
    x: TracedArray,
    states: Sequence[TracedArray],
    params: Sequence[Sequence[TracedArray]],
    attrs: Mapping[str, Any],
) -> tuple[TracedArray, list[TracedArray]]:
    """Emit one layer of x (steps, batch, features); return its rows and its last states."""
    ordered = [[_reorder_gates(op, p) for p in direction] for direction in params]
    w, r = (np.stack([direction[i] for direction in ordered]) for i in (0, 1))
    bias = None
    if len(ordered[0]) > 2:
        bias = np.stack([np.concatenate(direction[2:4]) for direction in ordered])
    mode = "bidirectional" if len(params) == 2 else "forward"
    operands = (x, w, r, bias, None, *states)
    each = {n: v * len(params) if n == "activations" else v for n, v in attrs.items()}
    size = r.type.dims[2]
    outputs = emit_several(op, 1 + len(states), *operands, hidden_size=size, direction=mode, **each)
    steps, directions, batch, size = outputs[0].shape
    rows = np.transpose(outputs[0], (0, 2, 1, 3))
    return np.reshape(rows, (steps, batch, directions * size)), list(outputs[1:])


def _recurrent(op: str, **attrs: Any) -> Handler:
    def handler(
        call: OperatorCall,
        x: Any,
        hx: Any,
        params: Sequence[Any],
        biases: bool,
        layers: int,
        dropout: float,
        train: bool,
        both_ways: bool,
        batch_first: bool,
    ) -> Any:
        if (dropout and train) or (op == "LSTM" and len(params) % (2 + 2 * biases)):
            call.refuse("dropout between layers, or a projection, is not supported")
        array = call.cast(x)
        if batch_first:
            array = np.swapaxes(array, 0, 1)
        starts = [call.cast(h) for h in (hx if isinstance(hx, (list, tuple)) else [hx])]
        each, directions = 2 + 2 * biases, 1 + both_ways
        blocks = [[call.cast(p) for p in params[i : i + each]] for i in range(0, len(params), each)]
        final_states: list[list[TracedArray]] = []
        for n in range(layers):
            states = [slice_dim(s, 0, n * directions, (n + 1) * directions) for s in starts]
            array, last = _layer(
                op, array, states, blocks[n * directions : (n + 1) * directions], attrs
            )
            final_states.append(last)
        rows = np.swapaxes(array, 0, 1) if batch_first else array
        ends = [np.concatenate(column) for column in zip(*final_states, strict=True)]
        return [rows, *ends]

    return handler


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
    "lstm.input": _recurrent("LSTM"),
    "gru.input": _recurrent("GRU", linear_before_reset=1),
    "rnn_tanh.input": _recurrent("RNN", activations=("Tanh",)),
    "rnn_relu.input": _recurrent("RNN", activations=("Relu",)),
}
