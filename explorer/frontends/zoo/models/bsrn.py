"""BSRN: blueprint separable convolutions, and features distilled step by step (Li et al. 2022).

Super-resolution, here to four times the height and width.
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.frontends.zoo.layers import Layers, V

COPIES = 4  # of the image, side by side at the entrance


@dataclass(frozen=True, slots=True)
class Bsrn:
    size: int = 256
    width: int = 64
    blocks: int = 8
    up: int = 4
    squeeze: int = 16  # the channel attention's

    def __call__(self, net: Layers[V]) -> None:
        image = net.input("image", ("batch", 3, self.size, self.size))
        copies = net.concat([image] * COPIES, axis=1)
        first = x = _separable(net, "features", copies, 3 * COPIES, self.width)
        found = []
        for n in range(self.blocks):
            with net.inside(f"blocks.{n}"):
                x = self._block(net, x)
                found.append(x)
        x = net.conv("gather", net.concat(found, axis=1), self.blocks * self.width, self.width)
        x = net.add(_separable(net, "smooth", net.gelu(x), self.width, self.width), first)
        sharp = net.pixel_shuffle(net.conv("up", x, self.width, 3 * self.up**2, 3), self.up)
        side = self.size * self.up
        net.output("sharp", sharp, ("batch", 3, side, side))

    def _block(self, net: Layers[V], x: V) -> V:
        """Figure 3 of the paper: three times half of the channels are set aside."""
        width, half, rest, aside = self.width, self.width // 2, x, []
        for n in range(3):
            aside.append(net.gelu(net.conv(f"distil.{n}", rest, width, half, gain=2)))
            refined = _separable(net, f"refine.{n}", rest, width, width)
            rest = net.gelu(net.add(refined, rest))
        aside.append(net.gelu(_separable(net, "refine.3", rest, width, half)))
        y = net.conv("mix", net.concat(aside, axis=1), 4 * half, width)
        y = self._where_it_matters(net, y)
        return net.add(x, self._what_matters(net, y))

    def _where_it_matters(self, net: Layers[V], x: V) -> V:
        """Enhanced spatial attention (Liu et al. 2020): a map at a coarse size, drawn large."""
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
        """Contrast-aware channel attention (Hui et al. 2019): mean plus standard deviation."""
        width, few = self.width, self.width // self.squeeze
        with net.inside("channel"):
            mean = net.mean(x, 2, 3)
            apart = net.subtract(x, mean)
            contrast = net.square_root(net.mean(net.multiply(apart, apart), 2, 3))
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
    """A blueprint separable convolution: first across channels, then in each (Haase and Amthor
    2020).
    """
    with net.inside(name):
        x = net.conv("pointwise", x, channels, width, bias=False)
        return net.conv("depthwise", x, width, width, 3, stride, pad, groups=width)


SMALL = Bsrn(size=21, width=8, blocks=2, up=2, squeeze=4)
