"""The step of a decoder as a program: `n` more positions of each row, over a cache in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import sqrt
from typing import Any

import numpy as np

from explorer.frontends.decoders.decoder_config import DecoderConfig, LayerPositions, Rotary
from explorer.frontends.decoders.packed_operand import multiply_rows, operand, take_rows
from explorer.frontends.python import arrays as xp
from explorer.frontends.python.tracing.annotations import tensor
from explorer.frontends.python.tracing.emit import emit
from explorer.frontends.python.tracing.frames import attributed_to_call, named_part
from explorer.ir.types import Tensor

Weights = Mapping[str, Any]  # constants, or values of the program; matrices may be packed
MASKED = np.float32(-np.inf)
ACTIVATIONS: Mapping[str, Callable[[Any], Any]] = {
    "silu": xp.silu,
    "gelu": xp.gelu,
    "gelu_tanh": lambda x: xp.gelu(x, approximate="tanh"),
    "relu": xp.relu,
}


def step_inputs(config: DecoderConfig) -> dict[str, Any]:
    """Return the annotation of each input of the step.

    `ids` are tokens, and `at` is the position of a row's first one: as many as its cache holds. A
    row with fewer tokens than others starts below 0. Tokens at positions below 0 are padding.
    """
    cache = tensor("float32", "batch", config.groups, "room", config.each)
    caches: list[Tensor] = [cache] * len(config.layers)
    ids, at = tensor("int64", "batch", "n"), tensor("int64", "batch")
    return {"ids": ids, "at": at, "keys": caches, "values": caches}


def step_function(
    config: DecoderConfig, weights: Weights, names: Mapping[str, str]
) -> Callable[..., Any]:
    """Return the step as a function over arrays, with weights as constants of those names.

    It returns `scores`, float32[batch, vocabulary] after the last token of each row, and the
    caches. Padding is written nowhere: negative positions are outside of the cache.
    """

    def decoder_step(ids: Any, at: Any, keys: Any, values: Any) -> dict[str, Any]:
        w = {part: operand(names[part], weight) for part, weight in weights.items()}
        with named_part("positions"):
            positions = xp.maximum(at[:, None] + xp.arange(ids.shape[1]), 0)  # [batch, n]

        def append(i: int, k: Any, v: Any) -> tuple[Any, Any]:
            keys[i], values[i] = _append(keys[i], k, at), _append(values[i], v, at)
            return keys[i], values[i]

        x = _run_layers(config, w, ids, positions, keys[0].shape[2], append)
        with named_part("scores"):
            scores = _scores(config, w, x[:, -1])
        return {"scores": scores, "keys": keys, "values": values}

    return decoder_step


def text_function(config: DecoderConfig, w: Weights) -> Callable[[Any], Any]:
    """Return the function of texts without a cache, as a model is trained.

    It maps `ids`, int64[batch, n], to the scores after each token, float32[batch, n, vocabulary].
    """

    def decoder_text(ids: Any) -> Any:
        n = ids.shape[1]
        x = _run_layers(config, w, ids, xp.arange(n)[None], n, lambda i, k, v: (k, v))
        return _scores(config, w, x)

    return decoder_text


def _run_layers(
    config: DecoderConfig,
    w: Weights,
    ids: Any,
    positions: Any,
    room: Any,
    append: Callable[[int, Any, Any], tuple[Any, Any]],
) -> Any:
    """Return the last layer's output, [batch, n, width].

    `append` takes a layer's new keys and values and returns all `room` rows to attend to.
    """
    with named_part("positions"):
        windows = {p.window for p in config.layers}
        masks = {window: _mask(positions, room, window) for window in windows}
        turns = {r: _turns(r, positions) for r in {p.rotary for p in config.layers} if r}
    with named_part("embedding"):
        x = _embed(config, w, ids, positions)
    for i, layer in enumerate(config.layers):
        name = f"{i}."
        with named_part(f"layer {i}"):
            h = _norm(config, w, f"{name}attention.norm", x)
            q, k, v = _project_heads(config, w, name, layer, h, turns)
            read = _attend(config, q, *append(i, k, v), masks[layer.window])
            read = _project(config, w, f"{name}answer", read)
            if config.post_norms:
                read = _norm(config, w, f"{name}answer.norm", read)
            x = x + read
            h = _mlp(config, w, name, _norm(config, w, f"{name}inner.norm", x))
            if config.post_norms:
                h = _norm(config, w, f"{name}down.norm", h)
            x = x + h
    return x


def _mask(positions: Any, room: Any, window: int) -> Any:
    """Return which rows of a cache each token attends to, bool[batch, 1, n, room]."""
    places = xp.arange(room)
    here = positions[:, None, :, None]
    mask = places <= here
    return mask & (places > here - window) if window else mask


def _append(cache: Any, rows: Any, at: Any) -> Any:
    """Return a cache with `n` rows more of each text, from its position on."""
    with attributed_to_call("append"):
        return emit("TensorScatter", cache, rows, at, axis=2, mode="drop")


def _turns(rotary: Rotary, positions: Any) -> tuple[Any, Any]:
    """Return cosine and sine of each pair's angle, float32[batch, 1, n, width / 2]."""
    angles = xp.asarray(positions, "float32")[:, None, :, None] * rotary.frequencies
    return xp.cos(angles), xp.sin(angles)


def _embed(config: DecoderConfig, w: Weights, ids: Any, positions: Any) -> Any:
    """Return the first layer's input, [batch, n, width]."""
    x = take_rows(w["embedding"], ids)
    if config.embedding_scale != 1:
        x = x * np.float32(config.embedding_scale)
    if config.positions:
        x = x + xp.take(w["positions"], positions, axis=0)
    return x


def _project_heads(
    config: DecoderConfig,
    w: Weights,
    name: str,
    layer: LayerPositions,
    h: Any,
    turns: Mapping[Rotary, tuple[Any, Any]],
) -> tuple[Any, Any, Any]:
    """Return queries, keys and values of a layer, [batch, heads or groups, n, each]."""
    q, k, v = (
        _split(_project(config, w, f"{name}{part}", h), config.each)
        for part in ("query", "key", "value")
    )
    if config.head_norms:
        q = xp.rms_norm(q, w[f"{name}query.norm"], epsilon=config.epsilon)
        k = xp.rms_norm(k, w[f"{name}key.norm"], epsilon=config.epsilon)
    if layer.rotary is None:
        return q, k, v
    cos, sin = turns[layer.rotary]
    return _rotate(layer.rotary, q, cos, sin), _rotate(layer.rotary, k, cos, sin), v


def _split(x: Any, each: int) -> Any:
    """Reshape [batch, n, heads * each] to [batch, heads, n, each]."""
    return xp.swapaxes(xp.reshape(x, (*x.shape[:2], x.shape[2] // each, each)), 1, 2)


def _rotate(rotary: Rotary, x: Any, cos: Any, sin: Any) -> Any:
    """Rotate the pairs of each head by the angles of their positions."""
    turned, unturned = x[..., : rotary.width], x[..., rotary.width :]
    if rotary.interleaved:
        pairs = xp.reshape(turned, (*x.shape[:3], rotary.width // 2, 2))
        a, b = pairs[..., 0], pairs[..., 1]
        parts = xp.stack([a * cos - b * sin, b * cos + a * sin], axis=-1)
        turned = xp.reshape(parts, (*x.shape[:3], rotary.width))
    else:
        a, b = xp.split(turned, 2, axis=3)
        turned = xp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=3)
    if rotary.width == x.shape[3]:
        return turned
    return xp.concatenate([turned, unturned], axis=3)


def _attend(config: DecoderConfig, q: Any, keys: Any, values: Any, mask: Any) -> Any:
    """Return attention's output over the rows of the cache that `mask` allows, [batch, n, …]."""
    batch, heads, n, each = q.shape
    grouped = (batch, config.groups, heads // config.groups * n, each)
    scale = config.attention_scale or 1 / sqrt(each)
    scores = xp.reshape(q, grouped) @ xp.swapaxes(keys, 2, 3) * np.float32(scale)
    if config.attention_cap:
        scores = _capped(scores, config.attention_cap)
    by_head = xp.reshape(scores, (batch, heads, n, keys.shape[2]))
    shares = xp.softmax(xp.where(mask, by_head, MASKED))
    mixed = xp.reshape(xp.reshape(shares, scores.shape) @ values, (batch, heads, n, each))
    return xp.reshape(xp.swapaxes(mixed, 1, 2), (batch, n, heads * each))


def _mlp(config: DecoderConfig, w: Weights, name: str, h: Any) -> Any:
    """Return the output of a layer's MLP (gated: Shazeer 2020)."""
    activate = ACTIVATIONS[config.activation]
    up = _project(config, w, f"{name}up", h)
    if not config.gated:
        return _project(config, w, f"{name}down", activate(up))
    gate = activate(_project(config, w, f"{name}gate", h))
    return _project(config, w, f"{name}down", gate * up)


def _scores(config: DecoderConfig, w: Weights, x: Any) -> Any:
    """Return the score of each next token, [batch, vocabulary]."""
    x = _norm(config, w, "norm", x)
    scores = multiply_rows(x, w["embedding" if config.tied else "scores"])
    if "scores" in config.biases:
        scores = scores + w["scores.bias"]
    return _capped(scores, config.scores_cap) if config.scores_cap else scores


def _capped(scores: Any, cap: float) -> Any:
    """Limit scores to -cap … cap (Gemma Team 2024)."""
    return xp.tanh(scores * np.float32(1 / cap)) * np.float32(cap)


def _project(config: DecoderConfig, w: Weights, name: str, x: Any) -> Any:
    """Multiply rows by a matrix, [outputs, inputs], and add its bias if it has one."""
    part = name.rpartition(".")[2]
    with named_part(part):
        product = multiply_rows(x, w[name])
        return product + w[f"{name}.bias"] if part in config.biases else product


def _norm(config: DecoderConfig, w: Weights, name: str, x: Any) -> Any:
    """Normalise the rows of `x` and scale them."""
    if config.norm == "layer":
        return xp.layer_norm(x, w[name], w[f"{name}.bias"], epsilon=config.epsilon)
    return xp.rms_norm(x, w[name], epsilon=config.epsilon)
