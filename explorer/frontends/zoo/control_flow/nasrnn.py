"""NASRNN: a recurrent cell found by architecture search (Zoph and Le 2017), run 1000 times.

A step computes eight gates of its input and eight of its state, each 256 wide, and combines them
pairwise. The sizes and the cell are Cocktailer's (Zhang et al. 2023, section 6): the fourth gate
multiplies where the others add.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from explorer.frontends import arrays as xp
from explorer.frontends.tracing.annotations import tensor
from explorer.frontends.tracing.control.scans import scan
from explorer.frontends.zoo.control_flow.flow import Arrays, matrix
from explorer.frontends.zoo.weights import Weight
from explorer.ir.types import Tensor

GATES = 8


@dataclass(frozen=True, slots=True)
class NasRnn:
    """Sizes of the model."""

    width: int = 256
    steps: int = 1000

    @property
    def weights(self) -> tuple[Weight, ...]:
        """The weights."""
        wide = GATES * self.width
        return matrix("input", self.width, wide, gain=2.0), matrix("state", self.width, wide)

    @property
    def inputs(self) -> Mapping[str, Tensor]:
        """The annotation of each input."""
        return {"x": tensor("float32", self.steps, "batch", self.width)}

    def function(self, w: Arrays) -> Callable[..., Any]:
        """Return the model as a function over arrays, with weights `w`."""

        def step(state: tuple[Any, Any], x: Any) -> tuple[Any, None]:
            m, c = state
            return cell(xp.split(x @ w["input"], GATES, 1), xp.split(m @ w["state"], GATES, 1), c)

        def nasrnn(x: Any) -> dict[str, Any]:
            zeros = xp.zeros((x.shape[1], self.width), "float32")
            (m, c), _ = scan(step, (zeros, zeros), x)
            return {"state": m, "cell": c}

        return nasrnn


def cell(i: Any, h: Any, c: Any) -> tuple[tuple[Any, Any], None]:
    """Return the next state and cell, from the gates of the input and of the state."""
    first = xp.tanh(xp.sigmoid(i[0] + h[0]) * xp.relu(i[1] + h[1]))
    second = xp.tanh(xp.sigmoid(i[2] + h[2]) + xp.relu(i[3] * h[3]))
    third = xp.tanh(xp.tanh(i[4] + h[4]) * xp.sigmoid(i[5] + h[5]))
    fourth = xp.sigmoid(xp.tanh(i[6] + h[6]) + xp.sigmoid(i[7] + h[7]))
    c = xp.tanh(first + c) * second
    return (xp.tanh(c * xp.tanh(third + fourth)), c), None


FULL = NasRnn()
SMALL = NasRnn(width=16, steps=7)
