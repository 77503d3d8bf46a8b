"""The layers and blocks in which the built models are written, and their weights.

A model is written once, as a function of `Layers`: `net.linear("query", x, 768, 768)`. `net` is the
backend: `OnnxLayers` emits a graph, `NumpyLayers` computes. The layers have the semantics of ONNX
operators of opset 20.

A weight is its name, its shape and its distribution; a seed determines the array. It does not
depend on other draws: the ONNX graph and the NumPy run of a model have the same weights.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from math import prod, sqrt
from typing import Any, Generic, TypeVar

import numpy as np

V = TypeVar("V")

Dims = Sequence[int | str]  # a string names a dim that is known when the model runs
BIAS = 0.1  # standard deviation of biases, and of scales and variances around 1


class Layers(ABC, Generic[V]):
    """The layers over values of type V; a backend implements the abstract methods."""

    def __init__(self) -> None:
        """Start in an empty name scope."""
        self._scope: tuple[str, ...] = ()

    @abstractmethod
    def input(self, name: str, dims: Dims, below: int | None = None) -> V:
        """Return an input of the model: float32, or with `below` int64 in [0, below)."""

    @abstractmethod
    def output(self, name: str, value: V, dims: Dims) -> None:
        """Declare an output of the model, and its dims."""

    @abstractmethod
    def constant(self, array: np.ndarray) -> V:
        """Return a constant."""

    @abstractmethod
    def apply(self, op: str, *args: V | None, results: int = 1, **attributes: Any) -> tuple[V, ...]:
        """Return the results of an ONNX operator; None stands for an omitted argument."""

    @abstractmethod
    def parameter(self, weight: Weight) -> V:
        """Return a weight."""

    # Names.

    @contextmanager
    def inside(self, name: str) -> Iterator[None]:
        """Prefix names created inside the context with `name`."""
        outer, self._scope = self._scope, (*self._scope, name)
        try:
            yield
        finally:
            self._scope = outer

    def weight(
        self,
        name: str,
        shape: Sequence[int],
        spread: float,
        centre: float = 0.0,
        arranged: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> V:
        """Return a weight in the current name scope."""
        full = ".".join((*self._scope, name))
        return self.parameter(Weight(full, tuple(shape), spread, centre, arranged))

    def _single(self, op: str, *args: V | None, **attributes: Any) -> V:
        return self.apply(op, *args, **attributes)[0]

    def _scalar(self, value: float) -> V:
        return self.constant(np.array(value, np.float32))

    def _integers(self, *values: int) -> V:
        return self.constant(np.array(values, np.int64))

    # Elementwise.

    def add(self, x: V, y: V) -> V:
        """Return x + y."""
        return self._single("Add", x, y)

    def subtract(self, x: V, y: V) -> V:
        """Return x - y."""
        return self._single("Sub", x, y)

    def multiply(self, x: V, y: V) -> V:
        """Return x · y, elementwise."""
        return self._single("Mul", x, y)

    def divide(self, x: V, y: V) -> V:
        """Return x / y."""
        return self._single("Div", x, y)

    def scale(self, x: V, by: float) -> V:
        """Return x times a number."""
        return self._single("Mul", x, self._scalar(by))

    def shift(self, x: V, by: float) -> V:
        """Return x plus a number."""
        return self._single("Add", x, self._scalar(by))

    def square_root(self, x: V) -> V:
        """Return the square root."""
        return self._single("Sqrt", x)

    def clip(self, x: V, low: float, high: float) -> V:
        """Clip x to [low, high]."""
        return self._single("Clip", x, self._scalar(low), self._scalar(high))

    def at_least(self, x: V, low: float) -> V:
        """Clip x to [low, ∞)."""
        return self._single("Clip", x, self._scalar(low))

    def relu(self, x: V) -> V:
        """Apply ReLU."""
        return self._single("Relu", x)

    def sigmoid(self, x: V) -> V:
        """Apply the sigmoid function."""
        return self._single("Sigmoid", x)

    def tanh(self, x: V) -> V:
        """Apply the hyperbolic tangent."""
        return self._single("Tanh", x)

    def gelu(self, x: V) -> V:
        """Apply Gelu with the error function (Hendrycks and Gimpel 2016)."""
        return self._single("Gelu", x)

    def silu(self, x: V) -> V:
        """Return `x * sigmoid(x)`."""
        return self.multiply(x, self.sigmoid(x))

    # Layers with weights.

    def linear(
        self, name: str, x: V, inputs: int, outputs: int, gain: float = 1.0, bias: bool = True
    ) -> V:
        """Multiply the last axis, of `inputs`, by a matrix; variance grows by `gain`."""
        with self.inside(name):
            y = self._single(
                "MatMul", x, self.weight("weight", (inputs, outputs), sqrt(gain / inputs))
            )
            return self._single("Add", y, self.weight("bias", (outputs,), BIAS)) if bias else y

    def conv(
        self,
        name: str,
        x: V,
        inputs: int,
        outputs: int,
        kernel: int | tuple[int, ...] = (1, 1),
        stride: int | tuple[int, ...] = 1,
        pad: int | None = None,
        groups: int = 1,
        gain: float = 1.0,
        bias: bool = True,
    ) -> V:
        """Convolve [batch, inputs, ...]; a number is a square kernel, or a stride on every axis.

        `pad` applies to both ends of every axis; by default it keeps the size at stride 1.
        """
        window = (kernel, kernel) if isinstance(kernel, int) else kernel
        strides = [stride] * len(window) if isinstance(stride, int) else list(stride)
        pads = [k // 2 if pad is None else pad for k in window]
        depth = inputs // groups
        spread = sqrt(gain / (depth * int(np.prod(window))))
        with self.inside(name):
            args = [self.weight("weight", (outputs, depth, *window), spread)]
            args += [self.weight("bias", (outputs,), BIAS)] if bias else []
            return self._single(
                "Conv",
                x,
                *args,
                kernel_shape=list(window),
                strides=strides,
                pads=[*pads, *pads],
                group=groups,
            )

    def batch_norm(self, name: str, x: V, channels: int) -> V:
        """Apply batch norm with training statistics (Ioffe and Szegedy 2015)."""
        with self.inside(name):
            return self._single(
                "BatchNormalization",
                x,
                self.weight("weight", (channels,), BIAS, 1.0),
                self.weight("bias", (channels,), BIAS),
                self.weight("mean", (channels,), BIAS),
                self.weight("variance", (channels,), BIAS, 1.0),
                epsilon=1e-5,
            )

    def layer_norm(self, name: str, x: V, width: int, epsilon: float = 1e-5) -> V:
        """Apply layer norm over the last axis (Ba et al. 2016)."""
        with self.inside(name):
            scale = self.weight("weight", (width,), BIAS, 1.0)
            bias = self.weight("bias", (width,), BIAS)
            return self._single("LayerNormalization", x, scale, bias, axis=-1, epsilon=epsilon)

    def embedding(self, name: str, ids: V, count: int, width: int, spread: float = 1.0) -> V:
        """Return a row of a table for every id."""
        with self.inside(name):
            return self._single(
                "Gather", self.weight("weight", (count, width), spread), ids, axis=0
            )

    def lstm(self, name: str, x: V, inputs: int, width: int, gain: float = 1.0) -> V:
        """Apply an LSTM: [steps, batch, inputs] → [steps, batch, width], from a zero state.

        Hochreiter and Schmidhuber 1997, as one ONNX operator; `gain` is that of the inputs.
        """
        with self.inside(name):
            rows = self.weight("input", (1, 4 * width, inputs), sqrt(gain / inputs))
            state = self.weight("state", (1, 4 * width, width), 1 / sqrt(width))
            bias = self.weight("bias", (1, 8 * width), BIAS)
            y = self._single("LSTM", x, rows, state, bias, hidden_size=width)
            return self.reshape(y, 0, -1, width)  # there is one direction

    # Contractions and reductions.

    def matmul(self, x: V, y: V) -> V:
        """Return the matrix product."""
        return self._single("MatMul", x, y)

    def softmax(self, x: V) -> V:
        """Apply softmax over the last axis."""
        return self._single("Softmax", x, axis=-1)

    def mean(self, x: V, *axes: int, keep: bool = True) -> V:
        """Return the mean over axes."""
        return self._single("ReduceMean", x, self._integers(*axes), keepdims=int(keep))

    def norm(self, x: V, axis: int) -> V:
        """Return the Euclidean norm along an axis, which becomes 1."""
        return self._single("ReduceL2", x, self._integers(axis), keepdims=1)

    def global_pool(self, x: V) -> V:
        """Return the mean of each channel of [batch, channels, height, width]."""
        return self._single("GlobalAveragePool", x)

    def max_pool(self, x: V, kernel: int, stride: int, pad: int = 0) -> V:
        """Return the maximum of each window."""
        return self._pool("MaxPool", x, kernel, stride, pad)

    def average_pool(self, x: V, kernel: int, stride: int, pad: int = 0) -> V:
        """Return the mean of each window, without the padding."""
        return self._pool("AveragePool", x, kernel, stride, pad)

    def _pool(self, op: str, x: V, kernel: int, stride: int, pad: int) -> V:
        return self._single(op, x, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4)

    # Data movement.

    def reshape(self, x: V, *dims: int) -> V:
        """Reshape as in ONNX: 0 keeps the dim at that position, -1 is the remaining extent."""
        return self._single("Reshape", x, self._integers(*dims))

    def transpose(self, x: V, *order: int) -> V:
        """Permute the dims."""
        return self._single("Transpose", x, perm=list(order))

    def concat(self, parts: Sequence[V], axis: int) -> V:
        """Concatenate along an axis."""
        return self._single("Concat", *parts, axis=axis)

    def split(self, x: V, parts: int, axis: int) -> tuple[V, ...]:
        """Split into equal parts."""
        return self.apply("Split", x, results=parts, axis=axis, num_outputs=parts)

    def slice(self, x: V, axis: int, first: int, last: int = 1 << 62) -> V:
        """Return `first:last` of an axis; negative numbers count from the end."""
        return self._single(
            "Slice", x, self._integers(first), self._integers(last), self._integers(axis)
        )

    def roll(self, x: V, axis: int, by: int) -> V:
        """Roll along an axis, as a concatenation of two slices, the form that exporters emit."""
        return self.concat([self.slice(x, axis, -by), self.slice(x, axis, 0, -by)], axis)

    def pad_front(self, x: V, rank: int, axis: int, by: int) -> V:
        """Pad zeros before an axis of a value of this rank."""
        front = [by if n == axis else 0 for n in range(rank)]
        return self._single("Pad", x, self._integers(*front, *([0] * rank)))

    def pixel_shuffle(self, x: V, by: int) -> V:
        """Rearrange [n, c·by², h, w] → [n, c, h·by, w·by] (Shi et al. 2016)."""
        return self._single("DepthToSpace", x, blocksize=by, mode="CRD")

    def resize(self, x: V, height: int, width: int) -> V:
        """Resize [n, c, ...] → [n, c, height, width], bilinear between pixel centres."""
        sizes = self._integers(height, width)
        how = {"mode": "linear", "coordinate_transformation_mode": "half_pixel", "axes": [2, 3]}
        return self._single("Resize", x, None, None, sizes, **how)

    def repeat_for_each(self, x: V, like: V, *dims: int) -> V:
        """Return one copy of [1, *dims] for each entry of `like`."""
        (count,) = self.apply("Shape", like, start=0, end=1)
        return self._single("Expand", x, self.concat([count, self._integers(*dims)], 0))


# Weights drawn on demand, each from a stream of its own.


ALIGNMENT = 64  # bytes, for vector loads


@dataclass(frozen=True, slots=True)
class Weight:
    """A tensor of normal numbers with mean `centre` and standard deviation `spread`.

    `arranged` rearranges the drawn tensor.
    """

    name: str
    shape: tuple[int, ...]
    spread: float
    centre: float = 0.0
    arranged: Callable[[np.ndarray], np.ndarray] | None = None

    @property
    def count(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    def drawn(self, seed: int) -> np.ndarray:
        """Return the float32 array of a seed, aligned for vector loads."""
        entropy = int.from_bytes(blake2b(self.name.encode(), digest_size=16).digest())
        random = np.random.Generator(np.random.SFC64([seed, entropy]))
        values = aligned(self.count)
        random.standard_normal(dtype=np.float32, out=values)
        values *= np.float32(self.spread)
        if self.centre:
            values += np.float32(self.centre)
        drawn = values.reshape(self.shape)
        return self.arranged(drawn) if self.arranged else drawn


def aligned(count: int) -> np.ndarray:
    """Return an uninitialised float32 array, aligned for vector loads."""
    room = np.empty(4 * count + ALIGNMENT, np.uint8)
    skip = -room.ctypes.data % ALIGNMENT
    return room[skip : skip + 4 * count].view(np.float32)


# Blocks of layers shared by several models.


def conv_norm(
    net: Layers[V],
    name: str,
    x: V,
    channels: int,
    width: int,
    kernel: int | tuple[int, ...] = 1,
    stride: int | tuple[int, ...] = 1,
    groups: int = 1,
    activation: Callable[[V], V] | None = None,
) -> V:
    """Apply a convolution without a bias, batch norm, and an optional activation."""
    gain = 2 if activation else 1
    with net.inside(name):
        y = net.conv("conv", x, channels, width, kernel, stride, None, groups, gain, bias=False)
        y = net.batch_norm("norm", y, width)
        return activation(y) if activation else y


def attention(
    net: Layers[V],
    projected: Sequence[V],
    tokens: int,
    width: int,
    heads: int,
    biased: Callable[[V], V] | None = None,
) -> V:
    """Return `softmax(Q·Kᵀ / √d)·V` for `projected` = Q, K, V, each [n, tokens, width].

    Vaswani et al. 2017. `biased` transforms the scores before the softmax.
    """
    query, key, value = projected
    q, v = (heads_first(net, x, tokens, width, heads) for x in (query, value))
    k = net.transpose(net.reshape(key, 0, tokens, heads, width // heads), 0, 2, 3, 1)
    scores = net.scale(net.matmul(q, k), 1 / sqrt(width // heads))
    weights = net.softmax(biased(scores) if biased else scores)
    return heads_last(net, net.matmul(weights, v), tokens, width)


def heads_first(net: Layers[V], x: V, tokens: int, width: int, heads: int) -> V:
    """Transpose [n, tokens, width] → [n, heads, tokens, width / heads]."""
    return net.transpose(net.reshape(x, 0, tokens, heads, width // heads), 0, 2, 1, 3)


def heads_last(net: Layers[V], x: V, tokens: int, width: int) -> V:
    """Transpose [n, heads, tokens, width / heads] → [n, tokens, width]."""
    return net.reshape(net.transpose(x, 0, 2, 1, 3), 0, tokens, width)


def perceptron(net: Layers[V], x: V, width: int, inner: int) -> V:
    """Apply two linear layers with Gelu between them."""
    return net.linear("outer", net.gelu(net.linear("inner", x, width, inner)), inner, width)
