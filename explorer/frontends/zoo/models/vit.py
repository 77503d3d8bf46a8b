"""ViT: an image as a sequence of patches (Dosovitskiy et al. 2021).

The small model of Touvron et al. 2021 (DeiT-S), with patches of 32 by 32.
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.frontends.zoo.blocks import attention, perceptron
from explorer.frontends.zoo.layers import Layers, V

EPSILON = 1e-6


@dataclass(frozen=True, slots=True)
class Vit:
    """Sizes of the model."""

    size: int = 224
    patch: int = 32
    width: int = 384
    heads: int = 6
    layers: int = 12
    classes: int = 1000

    def __call__(self, net: Layers[V]) -> None:
        """Build the model with the layers of `net`."""
        image = net.input("image", ("batch", 3, self.size, self.size))
        width, patches = self.width, (self.size // self.patch) ** 2
        x = net.conv("patches", image, 3, width, self.patch, stride=self.patch, pad=0)
        x = net.transpose(net.reshape(x, 0, width, patches), 0, 2, 1)
        token = net.repeat_for_each(net.weight("class", (1, 1, width), 1.0), image, 1, width)
        x = net.concat([token, x], axis=1)
        x = net.add(x, net.weight("position", (1, patches + 1, width), 0.5))
        for n in range(self.layers):
            with net.inside(f"layers.{n}"):
                x = self._layer(net, x, patches + 1)
        x = net.layer_norm("norm", x, width, EPSILON)
        first = net.reshape(net.slice(x, 1, 0, 1), 0, width)
        scores = net.linear("head", first, width, self.classes)
        net.output("scores", scores, ("batch", self.classes))

    def _layer(self, net: Layers[V], x: V, tokens: int) -> V:
        width = self.width
        with net.inside("attention"):
            y = net.layer_norm("norm", x, width, EPSILON)
            qkv = net.split(net.linear("qkv", y, width, 3 * width), 3, axis=-1)
            y = attention(net, qkv, tokens, width, self.heads)
            x = net.add(x, net.linear("output", y, width, width))
        with net.inside("mlp"):
            y = net.layer_norm("norm", x, width, EPSILON)
            return net.add(x, perceptron(net, y, width, 4 * width))


SMALL = Vit(size=24, patch=8, width=32, heads=2, layers=2, classes=10)
