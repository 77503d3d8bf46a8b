"""A mixture of experts: each token goes to the one of eight experts that its router prefers.

Fedus et al. 2022, a Switch layer of 256 with experts of 1024. The output of the expert is scaled by
the router's probability. The tokens of an expert are processed together, up to six at a time; a
binary search over branches selects the expert.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.frontends import arrays as xp
from explorer.frontends.tracing.annotations import tensor
from explorer.frontends.tracing.control.branches import cond
from explorer.frontends.zoo.control_flow.flow import Arrays, matrix, vector
from explorer.frontends.zoo.weights import Weight
from explorer.ir.types import Tensor


@dataclass(frozen=True, slots=True)
class Experts:
    """Sizes of the model."""

    count: int = 8
    width: int = 256
    inner: int = 1024
    most: int = 6  # tokens of an expert in one step

    @property
    def weights(self) -> tuple[Weight, ...]:
        """The weights."""
        weights = [matrix("router", self.width, self.count, gain=4.0)]
        for n in range(self.count):
            weights += (
                matrix(f"experts.{n}.in.weight", self.width, self.inner, gain=2.0),
                vector(f"experts.{n}.in.bias", self.inner),
                matrix(f"experts.{n}.out.weight", self.inner, self.width),
                vector(f"experts.{n}.out.bias", self.width),
            )
        return tuple(weights)

    @property
    def inputs(self) -> Mapping[str, Tensor]:
        """The annotation of each input."""
        return {"x": tensor("float32", "tokens", self.width)}

    def function(self, w: Arrays) -> Callable[..., Any]:
        """Return the model as a function over arrays, with weights `w`."""

        def expert(n: int, tokens: Any) -> Any:
            inner = tokens @ w[f"experts.{n}.in.weight"] + w[f"experts.{n}.in.bias"]
            return xp.relu(inner) @ w[f"experts.{n}.out.weight"] + w[f"experts.{n}.out.bias"]

        def chosen(which: Any, tokens: Any, first: int, last: int) -> Any:
            if last - first == 1:
                return expert(first, tokens)
            middle = (first + last) // 2
            return cond(
                which < middle,
                lambda t: chosen(which, t, first, middle),
                lambda t: chosen(which, t, middle, last),
                tokens,
            )

        def moe(x: Any) -> dict[str, Any]:
            likely, n = xp.softmax(x @ w["router"]), x.shape[0]
            which = xp.argmax(likely, axis=1)
            if n > 1:
                order = by_expert(which, self.count, self.most)
                tokens = xp.concatenate([x, xp.zeros((1, self.width), "float32")])
                choices = xp.concatenate([which, xp.full((1,), self.count, "int64")])
                outputs = xp.zeros((n + 1, self.width), "float32")
                at = 0
                while at < n:
                    rows = order[at + np.arange(self.most)]
                    is_same_expert = choices[rows] == choices[rows[0]]
                    answers = chosen(choices[rows[0]], tokens[rows], 0, self.count)
                    outputs[rows] = xp.where(is_same_expert[:, None], answers, outputs[rows])
                    at = at + xp.sum(is_same_expert)
                y = outputs[:n]
            else:
                y = chosen(which[0], x, 0, self.count)
            return {"y": x + y * xp.max(likely, axis=1)[:, None], "expert": which}

        return moe


def by_expert(which: Any, count: int, most: int) -> Any:
    """Return token indices grouped by expert, each group in order.

    They are followed by `most` - 1 copies of the index n, which no token has.
    """
    n = which.shape[0]
    one_hot = xp.astype(which[:, None] == np.arange(count), "int64")
    upto = xp.cumsum(one_hot, axis=0)
    before = xp.cumsum(upto[-1], axis=0) - upto[-1]
    order = xp.zeros((n + most - 1,), "int64") + n
    order[xp.sum(one_hot * (before + upto - 1), axis=1)] = xp.arange(n)
    return order


FULL = Experts()
SMALL = Experts(count=8, width=16, inner=32)
