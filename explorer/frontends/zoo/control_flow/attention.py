"""Decoding with attention: each step reads all cached rows and appends one.

12 heads of 64, from 32 cached rows to 64 in 32 steps (Zhang et al. 2023, section 6). Each head has
its own matrices for queries, keys and values; a step's output is the next one's input. The caches
have their final length: rows that are not yet written are masked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from explorer.frontends import arrays as xp
from explorer.frontends.tracing.annotations import tensor
from explorer.frontends.tracing.control.scans import scan
from explorer.frontends.zoo.control_flow.flow import Arrays
from explorer.frontends.zoo.weights import Weight
from explorer.ir.types import Tensor


@dataclass(frozen=True, slots=True)
class Attention:
    """Sizes of the model."""

    heads: int = 12
    width: int = 64  # of a head
    first: int = 32  # cached rows before the first step
    steps: int = 32

    @property
    def rows(self) -> int:
        """The capacity of a cache, in rows."""
        return self.first + self.steps

    @property
    def weights(self) -> tuple[Weight, ...]:
        """The weights."""
        shape = (self.heads, self.width, self.width)
        return tuple(Weight(n, shape, 1 / sqrt(self.width)) for n in ("query", "key", "value"))

    @property
    def inputs(self) -> Mapping[str, Tensor]:
        """The annotation of each input."""
        cache = tensor("float32", "batch", self.heads, self.first, self.width)
        return {
            "x": tensor("float32", "batch", self.heads, 1, self.width),
            "keys": cache,
            "values": cache,
        }

    def function(self, w: Arrays) -> Callable[..., Any]:
        """Return the model as a function over arrays, with weights `w`."""
        places = np.arange(self.rows)

        def step(state: Any, at: Any) -> Any:
            x, keys, values = state
            query, key, value = (x @ w[name] for name in ("query", "key", "value"))
            keys[:, :, at] = key[:, :, 0]
            values[:, :, at] = value[:, :, 0]
            scores = query @ xp.swapaxes(keys, 2, 3) * np.float32(1 / sqrt(self.width))
            scores = xp.where(places <= at, scores, np.float32(-np.inf))
            answer = xp.softmax(scores) @ values
            return (answer, keys, values), answer

        def attention_decoding(x: Any, keys: Any, values: Any) -> dict[str, Any]:
            room = xp.zeros((x.shape[0], self.heads, self.steps, self.width), "float32")
            caches = [xp.concatenate([rows, room], axis=2) for rows in (keys, values)]
            (_, *caches), answers = scan(step, (x, *caches), np.arange(self.first, self.rows))
            return {"answers": answers, "keys": caches[0], "values": caches[1]}

        return attention_decoding


FULL = Attention()
SMALL = Attention(heads=2, width=16, first=3, steps=4)
