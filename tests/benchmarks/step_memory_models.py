"""Losses whose forward pass leaves much to the backward pass, for any batch, in arrays of ours,
in PyTorch and in JAX: `np` is `Ours`, `Torch` or `Jax`, with the same names.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

import explorer
from tests.benchmarks.training_models.shapes import blocks_of

Arrays = dict[str, np.ndarray]
Loss = Callable[[Any, Any, Any, Any], Any]  # of the functions, parameters, data and targets
LAYERS, WIDTH, WORDS, LENGTH, HEADS, UNITS = 4, 128, 512, 128, 4, 128


class Torch:
    """PyTorch's functions under the names that the models use."""

    def __init__(self, torch: ModuleType) -> None:
        f = torch.nn.functional
        self.relu, self.gelu = f.relu, f.gelu
        self.conv = lambda x, w, stride=1, padding=1: f.conv2d(x, w, None, stride, padding)
        self.max_pool = lambda x: f.max_pool2d(x, 3, 2, 1)
        self.batch_norm = lambda x, scale, shift: f.batch_norm(
            x, None, None, scale, shift, training=True
        )
        self.norm = lambda x, s: f.rms_norm(x, (WIDTH,), s, 1e-5)
        self.log_softmax = lambda x: f.log_softmax(x, -1)
        self.picked = lambda x, y: x.gather(-1, y)
        self.attention = lambda q, k, v, causal: f.scaled_dot_product_attention(
            q, k, v, is_causal=causal
        )
        self.swapped = lambda x: x.transpose(1, 2)
        self.torch = torch

    def lstm(self, x: Any, w: Any, u: Any, b: Any) -> Any:
        zero = self.torch.zeros(1, x.shape[1], UNITS)
        weights = w.T, u.T, b, self.torch.zeros(4 * UNITS)
        return self.torch.lstm(x, (zero, zero), weights, True, 1, 0.0, True, False, False)[1][0]


class Like:
    """What is written alike for ours and JAX, over their functions named as NumPy's."""

    def __init__(self, enp: Any, root: Callable[[Any], Any], softmax: Callable[..., Any]) -> None:
        self.enp, self.root, self.softmax = enp, root, softmax

    def attention(self, q: Any, k: Any, v: Any, causal: bool) -> Any:
        scores = q @ self.enp.swapaxes(k, -1, -2) / np.float32(np.sqrt(WIDTH // HEADS))
        if causal:
            mask = np.tri(LENGTH, dtype=bool)
            scores = scores + np.where(mask, 0.0, -1e9).astype(np.float32)
        return self.softmax(scores, axis=-1) @ v

    def batch_norm(self, x: Any, scale: Any, shift: Any) -> Any:
        mean = x.mean(axis=(0, 2, 3), keepdims=True)
        variance = ((x - mean) ** 2).mean(axis=(0, 2, 3), keepdims=True)
        scale, shift = (a.reshape((-1, 1, 1)) for a in (scale, shift))
        return (x - mean) / self.root(variance + 1e-5) * scale + shift


class Jax(Like):
    """The same in JAX, images with channels first as the models have them."""

    def __init__(self, jax: ModuleType) -> None:
        jnp, lax, nn = jax.numpy, jax.lax, jax.nn
        super().__init__(jnp, jnp.sqrt, nn.softmax)
        self.jax, self.relu = jax, nn.relu
        self.gelu = partial(nn.gelu, approximate=False)
        self.conv = lambda x, w, stride=1, padding=1: lax.conv_general_dilated(
            x, w, (stride, stride), ((padding, padding),) * 2
        )
        self.max_pool = lambda x: lax.reduce_window(
            x, -np.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), ((0, 0), (0, 0), (1, 1), (1, 1))
        )
        self.norm = lambda x, s: x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * s
        self.log_softmax = lambda x: nn.log_softmax(x, -1)
        self.picked = lambda x, y: jnp.take_along_axis(x, y, -1)
        self.swapped = lambda x: jnp.swapaxes(x, 1, 2)

    def lstm(self, x: Any, w: Any, u: Any, b: Any) -> Any:
        jnp, sigmoid = self.jax.numpy, self.jax.nn.sigmoid

        def cell(state: Any, row: Any) -> Any:
            h, c = state
            i, f, g, o = jnp.split(row + h @ u, 4, axis=1)
            c = sigmoid(f) * c + sigmoid(i) * jnp.tanh(g)
            return (sigmoid(o) * jnp.tanh(c), c), None

        zero = jnp.zeros((x.shape[1], UNITS), "float32")
        return self.jax.lax.scan(cell, (zero, zero), x @ w + b)[0][0]


class Ours(Like):
    """The same in arrays of ours."""

    def __init__(self, enp: ModuleType) -> None:
        super().__init__(enp, enp.sqrt, enp.softmax)
        self.relu, self.gelu = enp.relu, enp.gelu
        self.conv = lambda x, w, stride=1, padding=1: enp.conv(
            x, w, strides=stride, padding=padding
        )
        self.max_pool = lambda x: enp.max_pool(x, 3, strides=2, padding=1)
        self.norm = enp.rms_norm
        self.log_softmax = lambda x: enp.log_softmax(x, axis=-1)
        self.picked = lambda x, y: enp.take_along_axis(x, y, axis=-1)
        self.swapped = lambda x: enp.swapaxes(x, 1, 2)

    def lstm(self, x: Any, w: Any, u: Any, b: Any) -> Any:
        def cell(state: Any, row: Any) -> Any:
            h, c = state
            i, f, g, o = self.enp.split(row + h @ u, 4, axis=1)
            c = self.enp.sigmoid(f) * c + self.enp.sigmoid(i) * self.enp.tanh(g)
            return (self.enp.sigmoid(o) * self.enp.tanh(c), c), None

        zero = self.enp.zeros((x.shape[1], UNITS), "float32")
        return explorer.scan(cell, (zero, zero), x @ w + b)[0][0]


def mlp(draw: np.random.Generator, batch: int) -> tuple[Loss, Arrays, tuple[np.ndarray, ...]]:
    """16 layers, 256 wide."""
    params = {f"w{n}": draw.normal(size=(256, 256)) / 11 for n in range(16)}

    def loss(np_: Any, p: Any, x: Any, y: Any) -> Any:
        for n in range(16):
            x = np_.relu(x @ p[f"w{n}"])
        return ((x - y) ** 2).mean()

    return loss, params, (draw.normal(size=(batch, 256)), draw.normal(size=(batch, 256)))


def cnn(draw: np.random.Generator, batch: int) -> tuple[Loss, Arrays, tuple[np.ndarray, ...]]:
    """10 convolutions of 3 x 3 over 16 channels of 32 x 32."""
    params = {f"w{n}": draw.normal(size=(16, 16 if n else 3, 3, 3)) / 9 for n in range(10)}

    def loss(np_: Any, p: Any, x: Any, y: Any) -> Any:
        for n in range(10):
            x = np_.relu(np_.conv(x, p[f"w{n}"]))
        return ((x.mean((2, 3)) - y) ** 2).mean()

    return loss, params, (draw.normal(size=(batch, 3, 32, 32)), draw.normal(size=(batch, 16)))


def transformer(
    causal: bool, draw: np.random.Generator, batch: int
) -> tuple[Loss, Arrays, tuple[np.ndarray, ...]]:
    """4 layers, 128 wide with 4 heads, 128 words of 512."""
    params: Arrays = {"words": draw.normal(size=(WORDS, WIDTH)) * 0.1}
    for n in range(LAYERS):
        sizes = {"qkv": (1, 3), "out": (1, 1), "up": (1, 4), "down": (4, 1)}
        for name, (rows, columns) in sizes.items():
            shape = rows * WIDTH, columns * WIDTH
            params[f"{name}{n}"] = draw.normal(size=shape) / np.sqrt(shape[0])
        params |= {f"{name}{n}": np.ones(WIDTH) for name in "st"}

    def loss(np_: Any, p: Any, x: Any, y: Any) -> Any:
        h = p["words"][x]
        for n in range(LAYERS):
            z = np_.norm(h, p[f"s{n}"]) @ p[f"qkv{n}"]
            parts = (z[..., k * WIDTH : (k + 1) * WIDTH] for k in range(3))
            heads = (batch, LENGTH, HEADS, WIDTH // HEADS)
            q, k, v = (np_.swapped(part.reshape(heads)) for part in parts)
            a = np_.swapped(np_.attention(q, k, v, causal)).reshape((batch, LENGTH, WIDTH))
            h = h + a @ p[f"out{n}"]
            h = h + np_.gelu(np_.norm(h, p[f"t{n}"]) @ p[f"up{n}"]) @ p[f"down{n}"]
        return -np_.picked(np_.log_softmax(h @ p["words"].T), y).mean()

    x = draw.integers(0, WORDS, (batch, LENGTH))
    return loss, params, (x, np.roll(x, -1, 1)[..., None])


def resnet18(draw: np.random.Generator, batch: int) -> tuple[Loss, Arrays, tuple[np.ndarray, ...]]:
    """At its full widths with the statistics of the batch, on images of 64 x 64."""
    params: Arrays = {"w": draw.normal(size=(512, 10)) / 23, "b": np.zeros(10)}

    def add(name: str, inputs: int, outputs: int, size: int) -> None:
        scale = np.sqrt(2 / (outputs * size * size))
        params[name] = draw.normal(size=(outputs, inputs, size, size)) * scale
        params[f"{name}.scale"], params[f"{name}.shift"] = np.ones(outputs), np.zeros(outputs)

    add("stem", 3, 64, 7)
    for name, inputs, outputs, stride in blocks_of():
        add(f"{name}.a", inputs, outputs, 3)
        add(f"{name}.b", outputs, outputs, 3)
        if stride > 1:
            add(f"{name}.short", inputs, outputs, 1)

    def loss(np_: Any, p: Any, x: Any, y: Any) -> Any:
        def part(name: str, x: Any, stride: int, padding: int) -> Any:
            z = np_.conv(x, p[name], stride, padding)
            return np_.batch_norm(z, p[f"{name}.scale"], p[f"{name}.shift"])

        x = np_.max_pool(np_.relu(part("stem", x, 2, 3)))
        for name, _, _, stride in blocks_of():
            z = np_.relu(part(f"{name}.a", x, stride, 1))
            kept = part(f"{name}.short", x, stride, 0) if stride > 1 else x
            x = np_.relu(part(f"{name}.b", z, 1, 1) + kept)
        return -np_.picked(np_.log_softmax(x.mean((2, 3)) @ p["w"] + p["b"]), y).mean()

    x = draw.normal(size=(batch, 3, 64, 64))
    return loss, params, (x, draw.integers(0, 10, (batch, 1)))


def lstm(draw: np.random.Generator, batch: int) -> tuple[Loss, Arrays, tuple[np.ndarray, ...]]:
    """One layer of 128 units over 128 steps."""
    params = {name: draw.normal(size=(UNITS, 4 * UNITS)) / 11 for name in "wu"}
    params |= {"b": np.zeros(4 * UNITS), "v": draw.normal(size=(UNITS, 1)) / 11}

    def loss(np_: Any, p: Any, x: Any, y: Any) -> Any:
        last = np_.lstm(x, p["w"], p["u"], p["b"]).reshape((batch, UNITS))
        return ((last @ p["v"] - y) ** 2).mean()

    return loss, params, (draw.normal(size=(128, batch, UNITS)), draw.normal(size=(batch, 1)))


MODELS = {
    "mlp": mlp,
    "cnn": cnn,
    "resnet18": resnet18,
    "lstm": lstm,
    "gpt": partial(transformer, True),
    "bert": partial(transformer, False),
}
BATCHES = {"mlp": 4096, "cnn": 64, "resnet18": 32, "lstm": 64, "gpt": 16, "bert": 16}
