"""A sequence to sequence model of LSTM layers, unrolled over time (Sutskever et al. 2014).

The sizes are Rammer's (Ma et al. 2020, section 5.1): an encoder of 8 layers over 100 steps, a
decoder of 4 layers over 30. The decoder's layers start in the states of the encoder's last four.
Its first input is the encoder's output, and each later one its own output of the step before, so
that steps cannot overlap. There is no vocabulary: a step outputs its state. The input holds the
steps one after the other, [steps · batch, width].
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.frontends.zoo.layers import Layers, V
from explorer.frontends.zoo.recurrent import State, by_layer, stack, step, zero_states


@dataclass(frozen=True, slots=True)
class Seq2Seq:
    """Sizes of the model."""

    encoder_layers: int = 8
    encoder_steps: int = 100
    decoder_layers: int = 4
    decoder_steps: int = 30
    width: int = 128
    batch: int = 1
    layered: bool = False  # in the encoder, an ONNX operator for each layer in place of its cells

    def __call__(self, net: Layers[V]) -> None:
        """Build the model with the layers of `net`."""
        x = net.input("x", (self.encoder_steps * self.batch, self.width))
        with net.inside("encoder"):
            states = self._encoded(net, x)
        with net.inside("decoder"):
            answers = self._decoded(net, states)
        net.output("answers", answers, (self.decoder_steps * self.batch, self.width))

    def _encoded(self, net: Layers[V], x: V) -> list[State[V]]:
        if self.layered:
            steps = net.reshape(x, self.encoder_steps, self.batch, self.width)
            return by_layer(net, self.encoder_layers, steps, self.width)
        cells = stack(net, self.encoder_layers, self.width)
        states = zero_states(net, cells, self.batch, self.width)
        for n, row in enumerate(net.split(x, self.encoder_steps, axis=0)):
            with net.inside(f"steps.{n}"):
                states = step(net, cells, row, states)
        return states

    def _decoded(self, net: Layers[V], states: list[State[V]]) -> V:
        cells = stack(net, self.decoder_layers, self.width)
        states = states[-self.decoder_layers :]
        outputs: list[V] = []
        for n in range(self.decoder_steps):
            with net.inside(f"steps.{n}"):
                states = step(net, cells, states[-1].h, states)
            outputs.append(states[-1].h)
        return net.concat(outputs, 0)


SMALL = Seq2Seq(3, 5, 2, 3, 16)
