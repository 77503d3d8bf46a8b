"""The layers in plain NumPy and float32, the independent reference of compiled models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from math import erf, sqrt
from typing import Any

import numpy as np

from explorer.errors import BadOption
from explorer.frontends.zoo.layers import Dims, Layers, Weight


class NumpyLayers(Layers[np.ndarray]):
    """Backend that computes; each weight is drawn where it is used, and not stored."""

    def __init__(self, inputs: Mapping[str, np.ndarray], seed: int) -> None:
        """Compute on `inputs`, with the weights of a seed."""
        super().__init__()
        self.inputs, self.seed = inputs, seed
        self.outputs: dict[str, np.ndarray] = {}

    def input(self, name: str, dims: Dims, below: int | None = None) -> np.ndarray:
        """Return the input; raise BadOption if it is missing or does not fit."""
        dtype = "float32" if below is None else "int64"
        array = self.inputs.get(name)
        if array is None or str(array.dtype) != dtype or not _fits(array.shape, dims):
            expected = f"{dtype}{list(dims)}"
            actual = "nothing" if array is None else f"{array.dtype}{list(array.shape)}"
            raise BadOption(
                f"the input {name!r} is {expected}; found {actual}",
                where=name,
                expected=expected,
                actual=actual,
            )
        return array

    def output(self, name: str, value: np.ndarray, dims: Dims) -> None:
        """Store an output."""
        if not _fits(value.shape, dims):
            raise ValueError(f"{name} is {list(value.shape)}, expected {list(dims)}")
        self.outputs[name] = value

    def constant(self, array: np.ndarray) -> np.ndarray:
        """Return the array."""
        return array

    def parameter(self, weight: Weight) -> np.ndarray:
        """Draw the weight."""
        return weight.drawn(self.seed)

    def apply(
        self, op: str, *args: np.ndarray | None, results: int = 1, **attributes: Any
    ) -> tuple[np.ndarray, ...]:
        """Compute an operator."""
        outputs = OPERATORS[op](*args, **attributes)
        return outputs if isinstance(outputs, tuple) else (outputs,)


def _fits(shape: tuple[int, ...], dims: Dims) -> bool:
    return len(shape) == len(dims) and all(
        isinstance(d, str) or n == d for n, d in zip(shape, dims)
    )


# ONNX operators of the layers.


Array = np.ndarray
Operator = Callable[..., Any]

_erf: Operator = np.frompyfunc(erf, 1, 1)


def _gelu(x: Array) -> Array:
    y: Array = np.float32(0.5) * x * (1 + _erf(x * np.float32(sqrt(0.5))).astype(x.dtype))
    return y


def _sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    y: Array = np.where(x >= 0, 1, small) / (1 + small)
    return y


def _clip(x: Array, low: Array, high: Array | None = None) -> Array:
    return np.asarray(np.clip(x, low, high))


def _softmax(x: Array, axis: int) -> Array:
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    y: Array = e / e.sum(axis=axis, keepdims=True)
    return y


# Normalisation.


def _batch_norm(
    x: Array, scale: Array, bias: Array, mean: Array, variance: Array, epsilon: float
) -> Array:
    slope = scale / np.sqrt(variance + np.float32(epsilon))
    y: Array = x * _channel(slope, x) + _channel(bias - mean * slope, x)
    return y


def _layer_norm(x: Array, scale: Array, bias: Array, axis: int, epsilon: float) -> Array:
    deviation = x - x.mean(axis=axis, keepdims=True)
    variance = (deviation * deviation).mean(axis=axis, keepdims=True)
    y: Array = deviation / np.sqrt(variance + np.float32(epsilon)) * scale + bias
    return y


def _channel(values: Array, x: Array) -> Array:
    return values.reshape(-1, *(1,) * (x.ndim - 2))


# Windows.


def _conv(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    *,
    kernel_shape: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    group: int,
) -> Array:
    """Sum a matrix product for each position of the kernel."""
    rank = len(kernel_shape)
    margins = list(zip(pads[:rank], pads[rank:]))
    x = np.pad(x, [(0, 0), (0, 0), *margins])
    batch, outputs = x.shape[0], weight.shape[0]
    size = [(n - k) // s + 1 for n, k, s in zip(x.shape[2:], kernel_shape, strides)]
    y = np.zeros((batch, group, outputs // group, int(np.prod(size))), x.dtype)
    taps = np.moveaxis(weight.reshape(group, outputs // group, weight.shape[1], -1), -1, 0).copy()
    for matrix, elements in zip(taps, _windows(x, kernel_shape, strides, size)):
        y += _by_group(matrix, elements.reshape(batch, group, matrix.shape[2], -1))
    y = y.reshape(batch, outputs, *size)
    return y if bias is None else y + _channel(bias, y)


def _by_group(matrix: Array, taps: Array) -> Array:
    """Multiply [group, out, in] × [batch, group, in, place]; elementwise for one in and one out."""
    product: Array = matrix * taps if matrix.shape[1:] == (1, 1) else matrix @ taps
    return product


def _windows(
    x: Array, kernel: Sequence[int], strides: Sequence[int], size: Sequence[int]
) -> Iterator[Array]:
    """Yield, for each kernel position, the elements at that position of all windows."""
    for place in product(*map(range, kernel)):
        spans = (slice(p, p + s * (n - 1) + 1, s) for p, s, n in zip(place, strides, size))
        yield x[(slice(None), slice(None), *spans)]


def _max_pool(x: Array, **window: Sequence[int]) -> Array:
    y: Array = np.maximum.reduce(_elements_of_windows(x, -np.inf, **window))
    return y


def _average_pool(x: Array, **window: Sequence[int]) -> Array:
    inside = np.ones((1, 1, *x.shape[2:]), x.dtype)
    y: Array = np.add.reduce(_elements_of_windows(x, 0, **window)) / np.add.reduce(
        _elements_of_windows(inside, 0, **window)
    )
    return y


def _elements_of_windows(
    x: Array,
    beyond: float,
    kernel_shape: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
) -> list[Array]:
    """Return the elements of all windows at each kernel position; `beyond` is the padding value."""
    rank = len(kernel_shape)
    x = np.pad(
        x, [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:])], constant_values=x.dtype.type(beyond)
    )
    size = [(n - k) // s + 1 for n, k, s in zip(x.shape[2:], kernel_shape, strides)]
    return list(_windows(x, kernel_shape, strides, size))


def _resize(
    x: Array, roi: None, scales: None, sizes: Array, mode: str, axes: Sequence[int], **_: str
) -> Array:
    for axis, size in zip(axes, sizes):
        x = _interpolated(x, axis, int(size))
    return x


def _interpolated(x: Array, axis: int, size: int) -> Array:
    """Interpolate between the two nearest centres; repeat the border values."""
    old = x.shape[axis]
    at = np.clip((np.arange(size) + 0.5) * old / size - 0.5, 0, old - 1)
    left = np.floor(at).astype(np.int64)
    right = np.minimum(left + 1, old - 1)
    part = (at - left).astype(x.dtype).reshape(-1, *(1,) * (x.ndim - 1 - axis))
    y: Array = x.take(left, axis) * (1 - part) + x.take(right, axis) * part
    return y


# Recurrent layers.


def _lstm(
    x: Array, inputs: Array, state: Array, bias: Array, hidden_size: int
) -> tuple[Array, Array, Array]:
    """Run one direction; the gates are in ONNX's order: input, output, forget, cell."""
    h = c = np.zeros((x.shape[1], hidden_size), x.dtype)
    steps = []
    for rows in x @ inputs[0].T + bias[0, : 4 * hidden_size] + bias[0, 4 * hidden_size :]:
        i, o, f, g = np.split(rows + h @ state[0].T, 4, 1)
        c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
        h = _sigmoid(o) * np.tanh(c)
        steps.append(h)
    return np.stack(steps)[:, None], h[None], c[None]


# Data movement.


def _reshape(x: Array, dims: Array) -> Array:
    return x.reshape([x.shape[n] if d == 0 else int(d) for n, d in enumerate(dims)])


def _split(x: Array, axis: int, num_outputs: int) -> tuple[Array, ...]:
    return tuple(np.split(x, num_outputs, axis))


def _slice(x: Array, first: Array, last: Array, axis: Array) -> Array:
    where = [slice(None)] * x.ndim
    where[int(axis[0])] = slice(int(first[0]), int(last[0]))
    return x[tuple(where)]


def _pad(x: Array, pads: Array) -> Array:
    return np.pad(x, list(zip(pads[: x.ndim].tolist(), pads[x.ndim :].tolist())))


def _depth_to_space(x: Array, blocksize: int, mode: str) -> Array:
    n, c, h, w = x.shape
    b = blocksize
    y = x.reshape(n, c // b**2, b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    return y.reshape(n, c // b**2, h * b, w * b)


OPERATORS: Mapping[str, Operator] = {
    "Add": np.add,
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_norm,
    "Clip": _clip,
    "Concat": lambda *parts, axis: np.concatenate(parts, axis),
    "Conv": _conv,
    "DepthToSpace": _depth_to_space,
    "Div": np.divide,
    "Expand": lambda x, shape: np.broadcast_to(x, shape),
    "Gather": lambda table, ids, axis: table.take(ids, axis),
    "Gelu": _gelu,
    "GlobalAveragePool": lambda x: x.mean(axis=(2, 3), keepdims=True),
    "LSTM": _lstm,
    "LayerNormalization": _layer_norm,
    "MatMul": np.matmul,
    "MaxPool": _max_pool,
    "Mul": np.multiply,
    "Pad": _pad,
    "ReduceL2": lambda x, axes, keepdims: np.sqrt(
        (x * x).sum(tuple(axes), keepdims=bool(keepdims))
    ),
    "ReduceMean": lambda x, axes, keepdims: x.mean(tuple(axes), keepdims=bool(keepdims)),
    "Relu": lambda x: np.maximum(x, 0),
    "Reshape": _reshape,
    "Resize": _resize,
    "Shape": lambda x, start, end: np.array(x.shape[start:end], np.int64),
    "Sigmoid": _sigmoid,
    "Slice": _slice,
    "Softmax": _softmax,
    "Split": _split,
    "Sqrt": np.sqrt,
    "Sub": np.subtract,
    "Tanh": np.tanh,
    "Transpose": lambda x, perm: x.transpose(perm),
}
