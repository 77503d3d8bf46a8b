"""The models: parameters, a batch, and the loss over `explorer.np`."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

import explorer
import explorer.np as enp
from tests.benchmarks.training_models.shapes import BERT, GPT2, Encoder, blocks_of

Arrays = dict[str, np.ndarray]
Loss = Callable[..., Any]
Made = tuple[Loss, Arrays, tuple[np.ndarray, ...]]


def mlp(draw: np.random.Generator) -> Made:
    """784, 512, 256 and 10 wide, a batch of 64."""
    widths = (784, 512, 256, 10)
    params = {
        f"w{n}": draw.normal(size=(a, b)) / np.sqrt(a) for n, (a, b) in enumerate(pairwise(widths))
    }
    params |= {f"b{n}": np.zeros(b) for n, b in enumerate(widths[1:])}

    def loss(p: Any, x: Any, y: Any) -> Any:
        for n in range(3):
            x = x @ p[f"w{n}"] + p[f"b{n}"]
            x = enp.relu(x) if n < 2 else x
        return -(enp.log_softmax(x, axis=1) * y).sum(axis=1).mean()

    return loss, params, (draw.normal(size=(64, 784)), np.eye(10)[draw.integers(0, 10, 64)])


def cnn(draw: np.random.Generator) -> Made:
    """Two 3 x 3 convolutions of stride 2 and a product, on 32 images of 28 x 28."""
    params = {
        "w0": draw.normal(size=(16, 1, 3, 3)) / 3,
        "w1": draw.normal(size=(32, 16, 3, 3)) / 12,
        "w2": draw.normal(size=(32 * 49, 10)) / 40,
        "b0": np.zeros((16, 1, 1)),
        "b1": np.zeros((32, 1, 1)),
    }

    def loss(p: Any, x: Any, y: Any) -> Any:
        x = enp.relu(enp.conv(x, p["w0"], strides=2, padding=1) + p["b0"])
        x = enp.relu(enp.conv(x, p["w1"], strides=2, padding=1) + p["b1"])
        x = x.reshape(32, -1) @ p["w2"]
        return -(enp.log_softmax(x, axis=1) * y).sum(axis=1).mean()

    return loss, params, (draw.normal(size=(32, 1, 28, 28)), np.eye(10)[draw.integers(0, 10, 32)])


def resnet18(draw: np.random.Generator) -> Made:
    """ResNet-18 at its full widths with the statistics of the batch, on 8 images of 64 x 64."""
    params: Arrays = {}

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
    params["w"], params["b"] = draw.normal(size=(512, 10)) / 23, np.zeros(10)

    def loss(p: Any, x: Any, y: Any) -> Any:
        def part(name: str, x: Any, stride: int, padding: int) -> Any:
            z = enp.conv(x, p[name], strides=stride, padding=padding)
            mean = z.mean(axis=(0, 2, 3), keepdims=True)
            variance = ((z - mean) ** 2).mean(axis=(0, 2, 3), keepdims=True)
            scale, shift = (p[f"{name}.{n}"].reshape(-1, 1, 1) for n in ("scale", "shift"))
            return (z - mean) / enp.sqrt(variance + 1e-5) * scale + shift

        x = enp.max_pool(enp.relu(part("stem", x, 2, 3)), 3, strides=2, padding=1)
        for name, _, _, stride in blocks_of():
            z = enp.relu(part(f"{name}.a", x, stride, 1))
            kept = part(f"{name}.short", x, stride, 0) if stride > 1 else x
            x = enp.relu(part(f"{name}.b", z, 1, 1) + kept)
        scores = x.mean(axis=(2, 3)) @ p["w"] + p["b"]
        return -(enp.log_softmax(scores, axis=1) * y).sum(axis=1).mean()

    return loss, params, (draw.normal(size=(8, 3, 64, 64)), np.eye(10)[draw.integers(0, 10, 8)])


def lstm(draw: np.random.Generator) -> Made:
    """One layer of 64 over 32 steps, a batch of 16."""
    params = {
        "w": draw.normal(size=(64, 256)) / 8,
        "u": draw.normal(size=(64, 256)) / 8,
        "b": np.zeros(256),
        "v": draw.normal(size=(64, 1)) / 8,
    }

    def loss(p: Any, x: Any, y: Any) -> Any:
        def cell(state: Any, row: Any) -> Any:
            h, c = state
            i, f, g, o = enp.split(row + h @ p["u"], 4, axis=1)
            c = enp.sigmoid(f) * c + enp.sigmoid(i) * enp.tanh(g)
            return (enp.sigmoid(o) * enp.tanh(c), c), None

        zero = enp.zeros((16, 64), "float32")
        (h, _), _ = explorer.scan(cell, (zero, zero), x @ p["w"] + p["b"])
        return ((h @ p["v"] - y) ** 2).mean()

    return loss, params, (draw.normal(size=(32, 16, 64)), draw.normal(size=(16, 1)))


def _encoder(draw: np.random.Generator, shape: Encoder) -> Arrays:
    """Words, positions and layers."""
    wide = shape.width
    params: Arrays = {
        "words": draw.normal(size=(shape.words, wide)) * 0.1,
        "places": draw.normal(size=(shape.length, wide)) * 0.1,
    }
    for n in range(shape.layers):
        for name, a, b in (
            ("qkv", wide, 3 * wide),
            ("out", wide, wide),
            ("up", wide, 4 * wide),
            ("down", 4 * wide, wide),
        ):
            params |= {f"{name}{n}": draw.normal(size=(a, b)) / np.sqrt(a)}
            params |= {f"{name}{n}.b": np.zeros(b)}
    for norm in (f"{name}{n}" for name in "st" for n in range(shape.layers)):
        params |= {norm: np.ones(wide), f"{norm}.b": np.zeros(wide)}
    return params | {"end": np.ones(wide), "end.b": np.zeros(wide)}


def _attention(p: Any, x: Any, n: int, shape: Encoder, mask: np.ndarray | None) -> Any:
    size = (shape.batch, shape.length, shape.heads, -1)
    parts = enp.split(x @ p[f"qkv{n}"] + p[f"qkv{n}.b"], 3, axis=2)
    q, k, v = (enp.transpose(part.reshape(*size), (0, 2, 1, 3)) for part in parts)
    scores = q @ enp.swapaxes(k, -1, -2) / np.float32(np.sqrt(shape.width / shape.heads))
    found = enp.softmax(scores if mask is None else scores + mask, axis=-1) @ v
    back = enp.transpose(found, (0, 2, 1, 3)).reshape(shape.batch, shape.length, shape.width)
    return back @ p[f"out{n}"] + p[f"out{n}.b"]


def _forward(p: Any, x: Any, n: int, approximate: str) -> Any:
    inner = enp.gelu(x @ p[f"up{n}"] + p[f"up{n}.b"], approximate)
    return inner @ p[f"down{n}"] + p[f"down{n}.b"]


def _norm(p: Any, x: Any, name: str) -> Any:
    return enp.layer_norm(x, p[name], p[f"{name}.b"])


def bert(draw: np.random.Generator) -> Made:
    """Two layers 128 wide with 2 heads, 8 texts of 64 words of 1000, sorted by their first."""
    shape = BERT
    params = _encoder(draw, shape)
    params |= {"w": draw.normal(size=(shape.width, 2)) / 11, "b": np.zeros(2)}

    def loss(p: Any, x: Any, y: Any) -> Any:
        h = _norm(p, p["words"][x] + p["places"], "end")
        for n in range(shape.layers):
            h = _norm(p, h + _attention(p, h, n, shape, None), f"s{n}")
            h = _norm(p, h + _forward(p, h, n, "none"), f"t{n}")
        scores = enp.log_softmax(h[:, 0] @ p["w"] + p["b"], axis=1)
        return -(scores * y).sum(axis=1).mean()

    x = draw.integers(0, shape.words, (shape.batch, shape.length))
    return loss, params, (x, np.eye(2)[draw.integers(0, 2, shape.batch)])


def gpt2(draw: np.random.Generator) -> Made:
    """Two layers 64 wide with 4 heads, 8 texts of 64 words of 128."""
    shape = GPT2
    mask = np.where(np.tri(shape.length, dtype=bool), 0.0, -1e9).astype(np.float32)

    def loss(p: Any, x: Any, y: Any) -> Any:
        h = p["words"][x] + p["places"]
        for n in range(shape.layers):
            h = h + _attention(p, _norm(p, h, f"s{n}"), n, shape, mask)
            h = h + _forward(p, _norm(p, h, f"t{n}"), n, "tanh")
        scores = enp.log_softmax(_norm(p, h, "end") @ p["words"].T, axis=-1)
        return -enp.take_along_axis(scores, y, axis=2).mean()

    x = draw.integers(0, shape.words, (shape.batch, shape.length))
    return loss, _encoder(draw, shape), (x, np.roll(x, -1, 1)[..., None])


MODELS = {
    "mlp": mlp,
    "cnn": cnn,
    "resnet18": resnet18,
    "bert": bert,
    "gpt2": gpt2,
    "lstm": lstm,
}


def made(name: str) -> Made:
    """A model by its name: loss, parameters and a batch in single precision, always the same."""
    loss, params, batch = MODELS[name](np.random.default_rng(0))
    data = tuple(a.astype(np.float32) if a.dtype.kind == "f" else a for a in batch)
    return loss, {n: a.astype(np.float32) for n, a in params.items()}, data
