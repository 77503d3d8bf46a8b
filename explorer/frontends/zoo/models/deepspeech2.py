"""Deep Speech 2: convolutions over a spectrogram, then LSTM layers, one output for each frame.

Amodei et al. 2016, at Rammer's sizes (Ma et al. 2020, section 5.1): 300 frames of 171 frequencies,
2 convolutions, 7 LSTM layers 256 wide in one direction, 29 letters. The LSTM layers are ONNX
operators; frames are the first dim of their inputs and outputs.
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.frontends.zoo.blocks import conv_norm
from explorer.frontends.zoo.layers import Layers, V
from explorer.frontends.zoo.recurrent import GAIN

CEILING = 20.0  # of activations; section 3.1 of the paper


@dataclass(frozen=True, slots=True)
class DeepSpeech2:
    """Sizes of the model."""

    frames: int = 300
    frequencies: int = 171
    channels: int = 32
    kernels: tuple[tuple[int, int], tuple[int, int]] = ((41, 11), (21, 11))
    layers: int = 7
    width: int = 256
    letters: int = 29

    def __call__(self, net: Layers[V]) -> None:
        """Build the model with the layers of `net`."""
        x = net.input("spectrogram", ("batch", 1, self.frames, self.frequencies))
        x, frames, features = self._frames(net, x)
        for n in range(self.layers):
            x = net.lstm(f"layers.{n}", x, features, self.width, GAIN)
            features = self.width
        scores = net.linear("letters", x, features, self.letters)
        net.output("scores", scores, (frames, "batch", self.letters))

    def _frames(self, net: Layers[V], x: V) -> tuple[V, int, int]:
        """Return [batch, 1, frames, frequencies] → [frames / 4, batch, features], and both dims."""
        frames, frequencies, inputs = self.frames, self.frequencies, 1
        for n, (kernel, stride) in enumerate(zip(self.kernels, ((2, 2), (2, 1)))):
            x = conv_norm(
                net,
                f"convolutions.{n}",
                x,
                inputs,
                self.channels,
                kernel,
                stride,
                activation=lambda y: net.clip(y, 0, CEILING),
            )
            frames, frequencies = -(-frames // stride[0]), -(-frequencies // stride[1])
            inputs = self.channels
        features = frequencies * inputs
        return net.reshape(net.transpose(x, 2, 0, 1, 3), 0, 0, features), frames, features


SMALL = DeepSpeech2(20, 11, 4, ((5, 3), (3, 3)), 2, 16, 7)
