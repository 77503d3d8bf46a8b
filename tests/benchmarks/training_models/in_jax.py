"""The models in JAX, jitted as one step; images with channels last, as its CPU code wants them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.benchmarks.training_models.shapes import BERT, GPT2, Encoder, blocks_of

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8  # PyTorch's


def mlp(p: Any, x: Any, y: Any) -> Any:
    for n in range(3):
        x = x @ p[f"w{n}"] + p[f"b{n}"]
        x = jax.nn.relu(x) if n < 2 else x
    return _entropy(x, y)


def cnn(p: Any, x: Any, y: Any) -> Any:
    x = jax.nn.relu(_conv(x, p["w0"], 2, 1) + p["b0"])
    x = jax.nn.relu(_conv(x, p["w1"], 2, 1) + p["b1"])
    return _entropy(x.reshape(32, -1) @ p["w2"], y)


def _conv(x: Any, w: Any, stride: int, padding: int) -> Any:
    pads = ((padding, padding),) * 2
    names = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, w, (stride, stride), pads, dimension_numbers=names)


def resnet18(p: Any, x: Any, y: Any) -> Any:
    def part(name: str, x: Any, stride: int, padding: int) -> Any:
        z = _conv(x, p[name], stride, padding)
        mean, variance = z.mean((0, 1, 2)), z.var((0, 1, 2))
        return (z - mean) * lax.rsqrt(variance + 1e-5) * p[f"{name}.scale"] + p[f"{name}.shift"]

    x = jax.nn.relu(part("stem", x, 2, 3))
    pads = ((0, 0), (1, 1), (1, 1), (0, 0))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), pads)
    for name, _, _, stride in blocks_of():
        z = jax.nn.relu(part(f"{name}.a", x, stride, 1))
        kept = part(f"{name}.short", x, stride, 0) if stride > 1 else x
        x = jax.nn.relu(part(f"{name}.b", z, 1, 1) + kept)
    return _entropy(x.mean((1, 2)) @ p["w"] + p["b"], y)


def lstm(p: Any, x: Any, y: Any) -> Any:
    def cell(state: Any, row: Any) -> Any:
        h, c = state
        i, f, g, o = jnp.split(row + h @ p["u"], 4, axis=1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

    zero = jnp.zeros((16, 64))
    (h, _), _ = lax.scan(cell, (zero, zero), x @ p["w"] + p["b"])
    return ((h @ p["v"] - y) ** 2).mean()


def bert(p: Any, x: Any, y: Any) -> Any:
    h = _norm(p, p["words"][x] + p["places"], "end")
    for n in range(BERT.layers):
        h = _norm(p, h + _attention(p, h, n, BERT, False), f"s{n}")
        h = _norm(p, h + _forward(p, h, n, False), f"t{n}")
    return _entropy(h[:, 0] @ p["w"] + p["b"], y)


def gpt2(p: Any, x: Any, y: Any) -> Any:
    h = p["words"][x] + p["places"]
    for n in range(GPT2.layers):
        h = h + _attention(p, _norm(p, h, f"s{n}"), n, GPT2, True)
        h = h + _forward(p, _norm(p, h, f"t{n}"), n, True)
    scores = jax.nn.log_softmax(_norm(p, h, "end") @ p["words"].T)
    return -jnp.take_along_axis(scores, y, axis=2).mean()


def _attention(p: Any, x: Any, n: int, shape: Encoder, causal: bool) -> Any:
    size = (shape.batch, shape.length, shape.heads, -1)
    parts = jnp.split(x @ p[f"qkv{n}"] + p[f"qkv{n}.b"], 3, axis=2)
    q, k, v = (a.reshape(size).transpose(0, 2, 1, 3) for a in parts)
    scores = q @ k.swapaxes(-1, -2) / np.float32(np.sqrt(shape.width / shape.heads))
    if causal:
        scores = jnp.where(np.tri(shape.length, dtype=bool), scores, -1e9)
    found = (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(x.shape)
    return found @ p[f"out{n}"] + p[f"out{n}.b"]


def _forward(p: Any, x: Any, n: int, approximate: bool) -> Any:
    inner = jax.nn.gelu(x @ p[f"up{n}"] + p[f"up{n}.b"], approximate=approximate)
    return inner @ p[f"down{n}"] + p[f"down{n}.b"]


def _norm(p: Any, x: Any, name: str) -> Any:
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * p[name] + p[f"{name}.b"]


def _entropy(scores: Any, y: Any) -> Any:
    return -(jax.nn.log_softmax(scores) * y).sum(1).mean()


def _adam(p: Any, g: Any, m: Any, v: Any, count: Any, rate: float) -> tuple[Any, Any, Any]:
    m, v = BETA1 * m + (1 - BETA1) * g, BETA2 * v + (1 - BETA2) * g * g
    size = jnp.sqrt(v) / jnp.sqrt(1 - BETA2**count) + EPSILON
    return p - rate / (1 - BETA1**count) * m / size, m, v


Arrays = dict[str, np.ndarray]


def _filters(array: np.ndarray) -> np.ndarray:
    """Filters, and what else is by channel, where these are last."""
    match array.shape:
        case (_, _, _, _):
            return array.transpose(2, 3, 1, 0)
        case (_, 1, 1):
            return array.reshape(-1)
        case (1568, 10):  # the product behind the CNN, by its 32 channels of 7 x 7
            return array.reshape(32, 7, 7, 10).transpose(1, 2, 0, 3).reshape(-1, 10)
    return array


def step_of(
    name: str, params: Arrays, batch: tuple[np.ndarray, ...], rate: float
) -> Callable[[], float]:
    """One step with Adam; parameters and moments are donated."""
    run: Any = globals()[name]

    def whole(p: Any, m: Any, v: Any, count: Any, *data: Any) -> Any:
        value, g = jax.value_and_grad(run)(p, *data)
        count = count + 1
        made = {n: _adam(p[n], g[n], m[n], v[n], count, rate) for n in p}
        p, m, v = ({n: parts[k] for n, parts in made.items()} for k in range(3))
        return p, m, v, count, value

    compiled = jax.jit(whole, donate_argnums=(0, 1, 2, 3))
    images = name in ("cnn", "resnet18")
    first = {n: jnp.array(_filters(a) if images else a) for n, a in params.items()}
    zeros = [{n: jnp.zeros_like(a) for n, a in first.items()} for _ in range(2)]
    state = [first, *zeros, jnp.zeros(())]
    data = [jnp.array(a.transpose(0, 2, 3, 1) if a.ndim == 4 else a) for a in batch]

    def step() -> float:
        *state[:], value = compiled(*state, *data)
        return float(value)

    return step
