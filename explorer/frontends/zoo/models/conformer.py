"""Conformer: attention for global context, convolution for local context (Gulati et al. 2020).

The encoder's blocks, at the Welder paper's size: 12 of them over 512 frames of 512 features. The
attention is Transformer-XL's, with relative positions; the sinusoids of the positions times their
projection are one weight, as after constant folding.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from explorer.frontends.zoo.blocks import heads_first, heads_last
from explorer.frontends.zoo.layers import Layers, V


@dataclass(frozen=True, slots=True)
class Conformer:
    """Sizes of the model."""

    frames: int = 512
    width: int = 512
    heads: int = 8
    kernel: int = 31
    layers: int = 12

    def __call__(self, net: Layers[V]) -> None:
        """Build the model with the layers of `net`."""
        dims = ("batch", self.frames, self.width)
        x = net.input("frames", dims)
        for n in range(self.layers):
            with net.inside(f"layers.{n}"):
                x = self._layer(net, x)
        net.output("hidden", x, dims)

    def _layer(self, net: Layers[V], x: V) -> V:
        x = net.add(x, net.scale(self._feed_forward(net, "first", x), 0.5))
        x = net.add(x, self._attention(net, x))
        x = net.add(x, self._convolution(net, x))
        x = net.add(x, net.scale(self._feed_forward(net, "second", x), 0.5))
        return net.layer_norm("norm", x, self.width)

    def _feed_forward(self, net: Layers[V], name: str, x: V) -> V:
        inner = 4 * self.width
        with net.inside(name):
            x = net.layer_norm("norm", x, self.width)
            x = net.silu(net.linear("inner", x, self.width, inner, gain=2))
            return net.linear("outer", x, inner, self.width)

    def _attention(self, net: Layers[V], x: V) -> V:
        width, heads, each = self.width, self.heads, self.width // self.heads
        with net.inside("attention"):
            x = net.layer_norm("norm", x, width)
            query, key, value = (
                heads_first(net, net.linear(name, x, width, width), self.frames, width, heads)
                for name in ("query", "key", "value")
            )
            content = net.add(query, net.weight("content_bias", (heads, 1, each), 0.1))
            position = net.add(query, net.weight("position_bias", (heads, 1, each), 0.1))
            places = net.weight("positions", (heads, each, 2 * self.frames - 1), 1.0)
            near = self._shifted(net, net.matmul(position, places))
            scores = net.add(net.matmul(content, net.transpose(key, 0, 1, 3, 2)), near)
            weights = net.softmax(net.scale(scores, 1 / sqrt(each)))
            mixed = heads_last(net, net.matmul(weights, value), self.frames, width)
            return net.linear("output", mixed, width, width)

    def _shifted(self, net: Layers[V], x: V) -> V:
        """Reindex scores from distances to positions.

        [n, heads, frames, 2 · frames - 1] → [n, heads, frames, frames] (Dai et al. 2019, appendix
        B).
        """
        t = self.frames
        x = net.reshape(net.pad_front(x, 4, 3, 1), 0, self.heads, 2 * t, t)
        x = net.reshape(net.slice(x, 2, 1), 0, self.heads, t, 2 * t - 1)
        return net.slice(x, 3, 0, t)

    def _convolution(self, net: Layers[V], x: V) -> V:
        width, window = self.width, (self.kernel,)
        with net.inside("convolution"):
            x = net.transpose(net.layer_norm("norm", x, width), 0, 2, 1)
            x, gate = net.split(net.conv("wide", x, width, 2 * width, (1,)), 2, axis=1)
            x = net.multiply(x, net.sigmoid(gate))
            x = net.conv("depthwise", x, width, width, window, groups=width, gain=2)
            x = net.silu(net.batch_norm("batch_norm", x, width))
            return net.transpose(net.conv("narrow", x, width, width, (1,)), 0, 2, 1)


SMALL = Conformer(frames=20, width=32, heads=2, kernel=5, layers=2)
