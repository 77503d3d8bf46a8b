"""Ten stacked LSTM layers over 64 steps: all layers of a step run before the next step.

The sizes are Cocktailer's (Zhang et al. 2023, section 6): 256 wide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from explorer.frontends import arrays as xp
from explorer.frontends.tracing.annotations import tensor
from explorer.frontends.tracing.control.scans import scan
from explorer.frontends.zoo.control_flow.flow import Arrays, lstm_cell, lstm_weights
from explorer.frontends.zoo.recurrent import GAIN
from explorer.frontends.zoo.weights import Weight
from explorer.ir.types import Tensor


@dataclass(frozen=True, slots=True)
class LoopedLstm:
    """Sizes of the model."""

    layers: int = 10
    width: int = 256
    steps: int = 64

    @property
    def weights(self) -> tuple[Weight, ...]:
        """The weights."""
        names = [f"layers.{n}" for n in range(self.layers)]
        return tuple(w for n in names for w in lstm_weights(n, self.width, self.width, GAIN))

    @property
    def inputs(self) -> Mapping[str, Tensor]:
        """The annotation of each input."""
        return {"x": tensor("float32", self.steps, "batch", self.width)}

    def function(self, w: Arrays) -> Callable[..., Any]:
        """Return the model as a function over arrays, with weights `w`."""

        def step(states: Any, x: Any) -> Any:
            after = []
            for n, (h, c) in enumerate(states):
                after.append(lstm_cell(w, f"layers.{n}", x, h, c))
                x = after[-1][0]
            return tuple(after), x

        def looped_lstm(x: Any) -> dict[str, Any]:
            zeros = xp.zeros((x.shape[1], self.width), "float32")
            last, answers = scan(step, ((zeros, zeros),) * self.layers, x)
            return {"answers": answers, "state": last[-1][0], "cell": last[-1][1]}

        return looped_lstm


FULL = LoopedLstm()
SMALL = LoopedLstm(layers=3, width=16, steps=5)
