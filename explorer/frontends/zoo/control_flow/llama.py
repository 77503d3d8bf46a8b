"""A language model that continues a text: a prefill over the prompt, then a step for each word.

A step reads the cached keys and values of all words before it and appends its own in place. The
model is LLaMA's (Touvron et al. 2023: rotary positions, RMSNorm, SwiGLU) at the size of llama2.c's
stories15M; several heads may share keys and values (Ainslie et al. 2023). The best word is taken.
With `temperature` more than 0, it is drawn from the likeliest words whose probabilities sum to
`top_p` (Holtzman et al. 2020), by a random number of `noise` for each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from explorer.frontends import arrays as xp
from explorer.frontends.tracing.annotations import tensor
from explorer.frontends.tracing.control.loops import while_loop
from explorer.frontends.zoo.control_flow.flow import Arrays, matrix
from explorer.frontends.zoo.weights import Weight
from explorer.ir.types import Tensor

SMALLEST = 1e-5  # epsilon of the norms, as in all sizes of LLaMA
TURN = 10000.0  # base of the rotary frequencies
NEAR = np.float32(1e-7)  # precision of the bisection of probabilities
NEVER = np.float32(-np.inf)


@dataclass(frozen=True, slots=True)
class Llama:
    """Sizes of the model."""

    words: int = 32000
    width: int = 288
    layers: int = 6
    heads: int = 6
    shared: int = 1  # heads that share keys and values
    inner: int = 768
    most: int = 256  # words of the prompt and of the answer

    @property
    def each(self) -> int:
        """The width of a head."""
        return self.width // self.heads

    @property
    def groups(self) -> int:
        """The number of heads of keys and values."""
        return self.heads // self.shared

    @property
    def weights(self) -> tuple[Weight, ...]:
        """The weights."""
        group_width = self.groups * self.each
        weights = [Weight("embedding", (self.words, self.width), 1.0)]
        for n in range(self.layers):
            weights += [
                Weight(f"{n}.attention.norm", (self.width,), 0.1, 1.0),
                matrix(f"{n}.query", self.width, self.width),
                matrix(f"{n}.key", self.width, group_width),
                matrix(f"{n}.value", self.width, group_width),
                matrix(f"{n}.answer", self.width, self.width, gain=0.2),
                Weight(f"{n}.inner.norm", (self.width,), 0.1, 1.0),
                matrix(f"{n}.gate", self.width, self.inner),
                matrix(f"{n}.up", self.width, self.inner),
                matrix(f"{n}.down", self.inner, self.width, gain=0.2),
            ]
        return (
            *weights,
            Weight("norm", (self.width,), 0.1, 1.0),
            matrix("scores", self.width, self.words, gain=4.0),
        )

    @property
    def inputs(self) -> Mapping[str, Tensor]:
        """The annotation of each input."""
        return {
            "prompt": tensor("int64", "batch", "n"),
            "steps": tensor("int64"),
            "temperature": tensor("float32"),
            "top_p": tensor("float32"),
            "noise": tensor("float32", self.most, "batch"),
        }

    def function(self, w: Arrays) -> Callable[..., Any]:
        """Return the model as a function over arrays, with weights `w`."""
        waves = TURN ** -(np.arange(0, self.each, 2) / self.each)
        angles = np.arange(self.most)[:, None] * waves
        cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
        places = np.arange(self.most)

        def project_qkv(n: int, x: Any, c: Any, s: Any) -> tuple[Any, Any, Any]:
            """Return queries, keys and values of a layer, [batch, heads, n, each]."""
            h = xp.rms_norm(x, w[f"{n}.attention.norm"], epsilon=SMALLEST)
            q, k, v = (split(h @ w[f"{n}.{name}"], self.each) for name in ("query", "key", "value"))
            return rotate_pairs(q, c, s), rotate_pairs(k, c, s), v

        def attention(q: Any, keys: Any, values: Any, seen: Any) -> Any:
            """Return attention over the positions that `seen` allows."""
            batch, _, count, each = q.shape
            q = xp.reshape(q, (batch, self.groups, self.shared * count, each))
            scores = q @ xp.swapaxes(keys, 2, 3) * np.float32(1 / sqrt(each))
            by_head = xp.reshape(scores, (batch, self.heads, count, keys.shape[2]))
            mixed = xp.softmax(xp.where(seen, by_head, NEVER))
            mixed = xp.reshape(mixed, scores.shape) @ values
            mixed = xp.swapaxes(xp.reshape(mixed, (batch, self.heads, count, each)), 1, 2)
            return xp.reshape(mixed, (batch, count, self.width))

        def after(n: int, x: Any, read: Any) -> Any:
            """Return a layer's output, given its attention output `read`."""
            x = x + read @ w[f"{n}.answer"]
            h = xp.rms_norm(x, w[f"{n}.inner.norm"], epsilon=SMALLEST)
            return x + (xp.silu(h @ w[f"{n}.gate"]) * (h @ w[f"{n}.up"])) @ w[f"{n}.down"]

        def scored(x: Any) -> Any:
            """Return the score of each next word, [batch, words], from the last position."""
            return xp.rms_norm(x[:, -1], w["norm"], epsilon=SMALLEST) @ w["scores"]

        def llama(
            prompt: Any, steps: Any, temperature: Any, top_p: Any, noise: Any
        ) -> dict[str, Any]:
            batch, n = prompt.shape
            room = xp.zeros((batch, self.groups, self.most - n, self.each), "float32")
            seen = xp.arange(n)[:, None] >= xp.arange(n)
            keys, values = [], []
            x = xp.take(w["embedding"], prompt, axis=0)
            for m in range(self.layers):
                q, k, v = project_qkv(m, x, xp.asarray(cos)[:n], xp.asarray(sin)[:n])
                keys += [xp.concatenate([k, room], axis=2)]
                values += [xp.concatenate([v, room], axis=2)]
                x = after(m, x, attention(q, k, v, seen))
            scores = scored(x)

            decoded = xp.zeros((batch, self.most), "int64")
            count = xp.minimum(steps, self.most - n)
            for i in range(count):
                at = i + n
                if temperature > 0:
                    word = draw_word(scores / temperature, top_p, noise[i])
                else:
                    word = xp.argmax(scores, axis=1)
                decoded[:, i] = word
                x = xp.take(w["embedding"], word, axis=0)[:, None]
                for m in range(self.layers):
                    q, k, v = project_qkv(m, x, xp.take(cos, at, axis=0), xp.take(sin, at, axis=0))
                    keys[m][:, :, at] = k[:, :, 0]
                    values[m][:, :, at] = v[:, :, 0]
                    x = after(m, x, attention(q, keys[m], values[m], places <= at))
                scores = scored(x)
            return {"words": decoded, "count": count}

        return llama


def split(x: Any, each: int) -> Any:
    """Reshape [batch, n, heads * each] to [batch, heads, n, each]."""
    return xp.swapaxes(xp.reshape(x, (*x.shape[:2], x.shape[2] // each, each)), 1, 2)


def rotate_pairs(x: Any, cos: Any, sin: Any) -> Any:
    """Rotate pairs of elements by the angles of their positions (Su et al. 2021)."""
    a, b = xp.split(x, 2, axis=3)
    return xp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=3)


def draw_word(scores: Any, top_p: Any, noise: Any) -> Any:
    """Draw a word of each row from the likeliest whose probabilities sum to `top_p`.

    The least probability that is admitted is determined by bisection.
    """
    p = xp.softmax(scores)

    def halved(low: Any, high: Any) -> tuple[Any, Any]:
        middle = (low + high) * np.float32(0.5)
        enough = xp.where(p >= middle, p, 0).sum(axis=1, keepdims=True) >= top_p
        return xp.where(enough, middle, low), xp.where(enough, high, middle)

    low, high = xp.zeros((p.shape[0], 1), "float32"), p.max(axis=1, keepdims=True)
    low, _ = while_loop(lambda low, high: (high - low).max() > NEAR, halved, low, high)
    nucleus = xp.where(p >= low, p, 0)
    so_far = xp.cumsum(nucleus, axis=1)
    return xp.argmax(so_far > noise[:, None] * so_far[:, -1:], axis=1)


FULL = Llama()
SMALL = Llama(words=61, width=32, layers=2, heads=4, shared=2, inner=48, most=24)
