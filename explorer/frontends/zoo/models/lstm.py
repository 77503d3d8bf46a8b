"""LSTM layers unrolled over time to cells: `/steps.0/layers.0` reads the first input.

`lstm` is the one of Rammer's tutorial, 8 layers by 8 steps. `lstm_tc` classifies a text by the last
state of 10 layers after 100 steps (Ma et al. 2020, section 5.1, which leaves the number of classes
open: ten here). The input holds the steps one after the other, [steps · batch, width]: with a batch
of 1, a row for each.
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.frontends.zoo.layers import Layers, V
from explorer.frontends.zoo.recurrent import State, by_layer, stack, step, zero_states


@dataclass(frozen=True, slots=True)
class Lstm:
    """Sizes of the model."""

    layers: int = 8
    steps: int = 8
    width: int = 256
    classes: int = 0  # 0: the output is the last state of the last layer
    batch: int = 1
    layered: bool = False  # an ONNX operator for each layer, in place of its cells

    def __call__(self, net: Layers[V]) -> None:
        """Build the model with the layers of `net`."""
        x = net.input("x", (self.steps * self.batch, self.width))
        last = self._states(net, x)[-1].h
        if not self.classes:
            net.output("state", last, (self.batch, self.width))
            return
        scores = net.linear("classifier", last, self.width, self.classes)
        net.output("scores", scores, (self.batch, self.classes))

    def _states(self, net: Layers[V], x: V) -> list[State[V]]:
        if self.layered:
            steps = net.reshape(x, self.steps, self.batch, self.width)
            return by_layer(net, self.layers, steps, self.width)
        cells = stack(net, self.layers, self.width)
        states = zero_states(net, cells, self.batch, self.width)
        for n, row in enumerate(net.split(x, self.steps, axis=0)):
            with net.inside(f"steps.{n}"):
                states = step(net, cells, row, states)
        return states


TUTORIAL = Lstm()
SMALL = Lstm(layers=3, steps=4, width=16)
CLASSIFIER = Lstm(layers=10, steps=100, classes=10)
SMALL_CLASSIFIER = Lstm(layers=4, steps=6, width=16, classes=5)
