"""NAFNet: image restoration without nonlinear activations (Chen et al. 2022)."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.frontends.zoo.layers import Layers, V

EPSILON = 1e-6


@dataclass(frozen=True, slots=True)
class NafNet:
    """Sizes of the model."""

    size: int = 256
    width: int = 16
    middle: int = 1
    encoders: tuple[int, ...] = (1, 1, 1)
    decoders: tuple[int, ...] = (1, 1, 1)

    def __call__(self, net: Layers[V]) -> None:
        """Build the model with the layers of `net`."""
        image = net.input("image", ("batch", 3, self.size, self.size))
        x, width, skips = net.conv("intro", image, 3, self.width, 3), self.width, []
        for n, blocks in enumerate(self.encoders):
            x = _blocks(net, f"encoders.{n}", x, width, blocks)
            skips.append(x)
            x = net.conv(f"downs.{n}", x, width, 2 * width, 2, stride=2, pad=0)
            width *= 2
        x = _blocks(net, "middle", x, width, self.middle)
        for n, blocks in enumerate(self.decoders):
            with net.inside(f"ups.{n}"):
                x = net.pixel_shuffle(net.conv("conv", x, width, 2 * width, bias=False), 2)
                x = net.add(x, skips.pop())
            width //= 2
            x = _blocks(net, f"decoders.{n}", x, width, blocks)
        clean = net.add(net.conv("ending", x, width, 3, 3), image)
        net.output("clean", clean, ("batch", 3, self.size, self.size))


def _blocks(net: Layers[V], name: str, x: V, width: int, blocks: int) -> V:
    for n in range(blocks):
        with net.inside(f"{name}.{n}"):
            x = _block(net, x, width)
    return x


def _block(net: Layers[V], x: V, width: int) -> V:
    """Apply the block of figure 2 (d) of the paper."""
    y = net.conv("conv1", _channel_norm(net, "norm1", x, width), width, 2 * width)
    y = _gate(net, net.conv("conv2", y, 2 * width, 2 * width, 3, groups=2 * width))
    y = net.multiply(y, net.conv("attention", net.global_pool(y), width, width))
    y = net.conv("conv3", y, width, width)
    x = net.add(x, net.multiply(y, net.weight("beta", (1, width, 1, 1), 0.1, 1.0)))
    y = net.conv("conv4", _channel_norm(net, "norm2", x, width), width, 2 * width)
    y = net.conv("conv5", _gate(net, y), width, width)
    return net.add(x, net.multiply(y, net.weight("gamma", (1, width, 1, 1), 0.1, 1.0)))


def _gate(net: Layers[V], x: V) -> V:
    """Return the product of both halves of the channels."""
    return net.multiply(*net.split(x, 2, axis=1))


def _channel_norm(net: Layers[V], name: str, x: V, width: int) -> V:
    """Apply a layer norm over the channels of [batch, channels, height, width].

    It is written in elementary operators.
    """
    with net.inside(name):
        deviation = net.subtract(x, net.mean(x, 1))
        variance = net.mean(net.multiply(deviation, deviation), 1)
        y = net.divide(deviation, net.square_root(net.shift(variance, EPSILON)))
        y = net.multiply(y, net.weight("weight", (1, width, 1, 1), 0.1, 1.0))
        return net.add(y, net.weight("bias", (1, width, 1, 1), 0.1))


SMALL = NafNet(size=16, width=4, encoders=(1,), decoders=(1,))
