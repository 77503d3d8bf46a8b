"""ResNeXt-29 for images of 32 by 32: bottlenecks with a grouped middle convolution.

Xie et al. 2017, table 7, at Rammer's cardinality (Ma et al. 2020, section 5.1): 16 groups of 64
channels, 29 layers.
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.frontends.zoo.blocks import conv_norm
from explorer.frontends.zoo.layers import Layers, V


@dataclass(frozen=True, slots=True)
class ResNext:
    """Sizes of the model."""

    size: int = 32
    cardinality: int = 16
    group: int = 64  # channels of a group, in the first stage
    stem: int = 64
    stages: tuple[int, ...] = (256, 512, 1024)  # channels
    blocks: int = 3  # of a stage
    classes: int = 10

    def __call__(self, net: Layers[V]) -> None:
        """Build the model with the layers of `net`."""
        x = net.input("image", ("batch", 3, self.size, self.size))
        x = conv_norm(net, "stem", x, 3, self.stem, 3, activation=net.relu)
        channels, inner = self.stem, self.cardinality * self.group
        for n, width in enumerate(self.stages):
            for m in range(self.blocks):
                with net.inside(f"stages.{n}.{m}"):
                    x = self._bottleneck(net, x, channels, inner, width, 2 if n and not m else 1)
                channels = width
            inner *= 2
        pooled = net.reshape(net.global_pool(x), 0, channels)
        scores = net.linear("classifier", pooled, channels, self.classes)
        net.output("scores", scores, ("batch", self.classes))

    def _bottleneck(
        self, net: Layers[V], x: V, channels: int, inner: int, width: int, stride: int
    ) -> V:
        """Apply the bottleneck of figure 3 (c) of the paper."""
        y = conv_norm(net, "reduce", x, channels, inner, activation=net.relu)
        y = conv_norm(net, "groups", y, inner, inner, 3, stride, self.cardinality, net.relu)
        y = conv_norm(net, "expand", y, inner, width)
        if channels != width:
            x = conv_norm(net, "shortcut", x, channels, width, stride=stride)
        return net.relu(net.add(x, y))


SMALL = ResNext(size=8, cardinality=4, group=4, stem=8, stages=(16, 32), blocks=2)
