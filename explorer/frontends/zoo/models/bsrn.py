"""BSRN: blueprint separable convolutions and stepwise feature distillation (Li et al. 2022).

Super-resolution, here to four times the height and width.
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.frontends.zoo.layers import Layers, V

COPIES = 4  # of the image, concatenated as the input


@dataclass(frozen=True, slots=True)
class Bsrn:
    """Sizes of the model."""

    size: int = 256
    width: int = 64
    blocks: int = 8
    up: int = 4
    squeeze: int = 16  # reduction factor of the channel attention

    def __call__(self, net: Layers[V]) -> None:
        """Build the model with the layers of `net`."""
        image = net.input("image", ("batch", 3, self.size, self.size))
        copies = net.concat([image] * COPIES, axis=1)
        first = x = _separable(net, "features", copies, 3 * COPIES, self.width)
        features = []
        for n in range(self.blocks):
            with net.inside(f"blocks.{n}"):
                x = self._block(net, x)
                features.append(x)
        x = net.conv("gather", net.concat(features, axis=1), self.blocks * self.width, self.width)
        x = net.add(_separable(net, "smooth", net.gelu(x), self.width, self.width), first)
        sharp = net.pixel_shuffle(net.conv("up", x, self.width, 3 * self.up**2, 3), self.up)
        extent = self.size * self.up
        net.output("sharp", sharp, ("batch", 3, extent, extent))

    def _block(self, net: Layers[V], x: V) -> V:
        """Apply the block of figure 3 of the paper, with three distillation steps."""
        width, half, coarse, distilled = self.width, self.width // 2, x, []
        for n in range(3):
            distilled.append(net.gelu(net.conv(f"distil.{n}", coarse, width, half, gain=2)))
            refined = _separable(net, f"refine.{n}", coarse, width, width)
            coarse = net.gelu(net.add(refined, coarse))
        distilled.append(net.gelu(_separable(net, "refine.3", coarse, width, half)))
        y = net.conv("mix", net.concat(distilled, axis=1), 4 * half, width)
        y = self._where_it_matters(net, y)
        return net.add(x, self._what_matters(net, y))

    def _where_it_matters(self, net: Layers[V], x: V) -> V:
        """Apply enhanced spatial attention (Liu et al. 2020): a coarse map, resized."""
        few = self.width // 4
        with net.inside("spatial"):
            narrow = net.conv("narrow", x, self.width, few)
            y = _separable(net, "coarser", narrow, few, few, stride=2, pad=0)
            y = net.max_pool(y, kernel=7, stride=3)
            for n in range(2):
                y = net.gelu(_separable(net, f"range.{n}", y, few, few))
            y = _separable(net, "range.2", y, few, few)
            y = net.resize(y, self.size, self.size)
            y = net.add(y, net.conv("skip", narrow, few, few))
            return net.multiply(x, net.sigmoid(net.conv("widen", y, few, self.width)))

    def _what_matters(self, net: Layers[V], x: V) -> V:
        """Apply contrast-aware channel attention (Hui et al. 2019), by mean plus deviation."""
        width, few = self.width, self.width // self.squeeze
        with net.inside("channel"):
            mean = net.mean(x, 2, 3)
            deviation = net.subtract(x, mean)
            contrast = net.square_root(net.mean(net.multiply(deviation, deviation), 2, 3))
            y = net.relu(net.conv("narrow", net.add(contrast, mean), width, few))
            return net.multiply(x, net.sigmoid(net.conv("widen", y, few, width)))


def _separable(
    net: Layers[V],
    name: str,
    x: V,
    channels: int,
    width: int,
    stride: int = 1,
    pad: int | None = None,
) -> V:
    """Apply a blueprint separable convolution: pointwise, then depthwise.

    Haase and Amthor 2020.
    """
    with net.inside(name):
        x = net.conv("pointwise", x, channels, width, bias=False)
        return net.conv("depthwise", x, width, width, 3, stride, pad, groups=width)


SMALL = Bsrn(size=21, width=8, blocks=2, up=2, squeeze=4)
