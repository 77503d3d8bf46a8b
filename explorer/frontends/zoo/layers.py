"""The words that the built models are written in.

A model is written once, as a function of `Layers`: `net.linear("query", x, 768, 768)`. What `net`
is decides what comes of it: `OnnxLayers` writes the graph down, `NumpyLayers` computes. The words
mean what the ONNX operators of opset 20 mean; several of them together are in `blocks`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import sqrt
from typing import Any, Generic, TypeVar

import numpy as np

from explorer.frontends.zoo.weights import Weight

V = TypeVar("V")

Dims = Sequence[int | str]  # a string names a dim that is known when the model runs
BIAS = 0.1  # how wide biases are, and how far scales and variances are from 1


class Layers(ABC, Generic[V]):
    """The vocabulary over values of type V; a backend gives the first four."""

    def __init__(self) -> None:
        self._scope: tuple[str, ...] = ()

    @abstractmethod
    def input(self, name: str, dims: Dims, below: int | None = None) -> V:
        """An input of the model: float32, or where `below` is given int64 in [0, below)."""

    @abstractmethod
    def output(self, name: str, value: V, dims: Dims) -> None:
        """A value that the model answers with, and its dims."""

    @abstractmethod
    def constant(self, array: np.ndarray) -> V:
        """A value that stands in the model."""

    @abstractmethod
    def apply(self, op: str, *args: V | None, results: int = 1, **attributes: Any) -> tuple[V, ...]:
        """The results of an ONNX operator; None stands for an argument left out."""

    @abstractmethod
    def parameter(self, weight: Weight) -> V:
        """A weight."""

    # Names.

    @contextmanager
    def inside(self, name: str) -> Iterator[None]:
        """What is made meanwhile has names that start with this one."""
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
        """A weight of the part that is being made."""
        full = ".".join((*self._scope, name))
        return self.parameter(Weight(full, tuple(shape), spread, centre, arranged))

    def _one(self, op: str, *args: V | None, **attributes: Any) -> V:
        return self.apply(op, *args, **attributes)[0]

    def _scalar(self, value: float) -> V:
        return self.constant(np.array(value, np.float32))

    def _integers(self, *values: int) -> V:
        return self.constant(np.array(values, np.int64))

    # Elementwise.

    def add(self, x: V, y: V) -> V:
        return self._one("Add", x, y)

    def subtract(self, x: V, y: V) -> V:
        return self._one("Sub", x, y)

    def multiply(self, x: V, y: V) -> V:
        return self._one("Mul", x, y)

    def divide(self, x: V, y: V) -> V:
        return self._one("Div", x, y)

    def scale(self, x: V, by: float) -> V:
        return self._one("Mul", x, self._scalar(by))

    def shift(self, x: V, by: float) -> V:
        return self._one("Add", x, self._scalar(by))

    def square_root(self, x: V) -> V:
        return self._one("Sqrt", x)

    def clip(self, x: V, low: float, high: float) -> V:
        return self._one("Clip", x, self._scalar(low), self._scalar(high))

    def at_least(self, x: V, low: float) -> V:
        return self._one("Clip", x, self._scalar(low))

    def relu(self, x: V) -> V:
        return self._one("Relu", x)

    def sigmoid(self, x: V) -> V:
        return self._one("Sigmoid", x)

    def tanh(self, x: V) -> V:
        return self._one("Tanh", x)

    def gelu(self, x: V) -> V:
        """Hendrycks and Gimpel 2016, with the error function."""
        return self._one("Gelu", x)

    def silu(self, x: V) -> V:
        """`x * sigmoid(x)`."""
        return self.multiply(x, self.sigmoid(x))

    # Layers with weights.

    def linear(
        self, name: str, x: V, inputs: int, outputs: int, gain: float = 1.0, bias: bool = True
    ) -> V:
        """The last axis, of `inputs`, times a matrix; variance grows by `gain`."""
        with self.inside(name):
            y = self._one(
                "MatMul", x, self.weight("weight", (inputs, outputs), sqrt(gain / inputs))
            )
            return self._one("Add", y, self.weight("bias", (outputs,), BIAS)) if bias else y

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
        """A convolution of [batch, inputs, ...]; one number is a square kernel, or a stride on
        every axis.

        `pad` on every side keeps the size at stride 1 where it is not given.
        """
        window = (kernel, kernel) if isinstance(kernel, int) else kernel
        strides = [stride] * len(window) if isinstance(stride, int) else list(stride)
        pads = [k // 2 if pad is None else pad for k in window]
        depth = inputs // groups
        spread = sqrt(gain / (depth * int(np.prod(window))))
        with self.inside(name):
            args = [self.weight("weight", (outputs, depth, *window), spread)]
            args += [self.weight("bias", (outputs,), BIAS)] if bias else []
            return self._one(
                "Conv",
                x,
                *args,
                kernel_shape=list(window),
                strides=strides,
                pads=[*pads, *pads],
                group=groups,
            )

    def batch_norm(self, name: str, x: V, channels: int) -> V:
        """Ioffe and Szegedy 2015, with the statistics of training."""
        with self.inside(name):
            return self._one(
                "BatchNormalization",
                x,
                self.weight("weight", (channels,), BIAS, 1.0),
                self.weight("bias", (channels,), BIAS),
                self.weight("mean", (channels,), BIAS),
                self.weight("variance", (channels,), BIAS, 1.0),
                epsilon=1e-5,
            )

    def layer_norm(self, name: str, x: V, width: int, epsilon: float = 1e-5) -> V:
        """Ba et al. 2016, over the last axis."""
        with self.inside(name):
            scale = self.weight("weight", (width,), BIAS, 1.0)
            bias = self.weight("bias", (width,), BIAS)
            return self._one("LayerNormalization", x, scale, bias, axis=-1, epsilon=epsilon)

    def embedding(self, name: str, ids: V, count: int, width: int, spread: float = 1.0) -> V:
        """A row of a table for every id."""
        with self.inside(name):
            return self._one("Gather", self.weight("weight", (count, width), spread), ids, axis=0)

    def lstm(self, name: str, x: V, inputs: int, width: int, gain: float = 1.0) -> V:
        """[steps, batch, inputs] → [steps, batch, width], from a state of zeros on.

        Hochreiter and Schmidhuber 1997, as the one ONNX operator; `gain` is that of the inputs.
        """
        with self.inside(name):
            rows = self.weight("input", (1, 4 * width, inputs), sqrt(gain / inputs))
            state = self.weight("state", (1, 4 * width, width), 1 / sqrt(width))
            bias = self.weight("bias", (1, 8 * width), BIAS)
            y = self._one("LSTM", x, rows, state, bias, hidden_size=width)
            return self.reshape(y, 0, -1, width)  # there is one direction

    # Contractions and reductions.

    def matmul(self, x: V, y: V) -> V:
        return self._one("MatMul", x, y)

    def softmax(self, x: V) -> V:
        """Over the last axis."""
        return self._one("Softmax", x, axis=-1)

    def mean(self, x: V, *axes: int, keep: bool = True) -> V:
        return self._one("ReduceMean", x, self._integers(*axes), keepdims=int(keep))

    def norm(self, x: V, axis: int) -> V:
        """The Euclidean length along an axis, which stays."""
        return self._one("ReduceL2", x, self._integers(axis), keepdims=1)

    def global_pool(self, x: V) -> V:
        """The mean of each channel of [batch, channels, height, width]."""
        return self._one("GlobalAveragePool", x)

    def max_pool(self, x: V, kernel: int, stride: int, pad: int = 0) -> V:
        return self._pool("MaxPool", x, kernel, stride, pad)

    def average_pool(self, x: V, kernel: int, stride: int, pad: int = 0) -> V:
        """The mean of what a window sees of the image: padding counts for nothing."""
        return self._pool("AveragePool", x, kernel, stride, pad)

    def _pool(self, op: str, x: V, kernel: int, stride: int, pad: int) -> V:
        return self._one(op, x, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4)

    # Places.

    def reshape(self, x: V, *dims: int) -> V:
        """As ONNX has it: 0 keeps the dim of that place, -1 is what is left."""
        return self._one("Reshape", x, self._integers(*dims))

    def transpose(self, x: V, *order: int) -> V:
        return self._one("Transpose", x, perm=list(order))

    def concat(self, parts: Sequence[V], axis: int) -> V:
        return self._one("Concat", *parts, axis=axis)

    def split(self, x: V, parts: int, axis: int) -> tuple[V, ...]:
        """Equal parts."""
        return self.apply("Split", x, results=parts, axis=axis, num_outputs=parts)

    def slice(self, x: V, axis: int, first: int, last: int = 1 << 62) -> V:
        """From `first` up to before `last`; negative numbers count from the end."""
        return self._one(
            "Slice", x, self._integers(first), self._integers(last), self._integers(axis)
        )

    def roll(self, x: V, axis: int, by: int) -> V:
        """What leaves at one end comes in at the other, as exporters write it."""
        return self.concat([self.slice(x, axis, -by), self.slice(x, axis, 0, -by)], axis)

    def pad_front(self, x: V, rank: int, axis: int, by: int) -> V:
        """Zeros before an axis of a value of this rank."""
        front = [by if n == axis else 0 for n in range(rank)]
        return self._one("Pad", x, self._integers(*front, *([0] * rank)))

    def pixel_shuffle(self, x: V, by: int) -> V:
        """[n, c·by², h, w] → [n, c, h·by, w·by] (Shi et al. 2016)."""
        return self._one("DepthToSpace", x, blocksize=by, mode="CRD")

    def resize(self, x: V, height: int, width: int) -> V:
        """[n, c, ...] → [n, c, height, width], bilinear between the centres of pixels."""
        sizes = self._integers(height, width)
        how = {"mode": "linear", "coordinate_transformation_mode": "half_pixel", "axes": [2, 3]}
        return self._one("Resize", x, None, None, sizes, **how)

    def repeat_for_each(self, x: V, like: V, *dims: int) -> V:
        """One copy of [1, *dims] for each entry of `like`."""
        (count,) = self.apply("Shape", like, start=0, end=1)
        return self._one("Expand", x, self.concat([count, self._integers(*dims)], 0))
