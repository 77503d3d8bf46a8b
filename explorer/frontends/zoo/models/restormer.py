"""Restormer: attention between channels, for images of any size (Zamir et al. 2022)."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.frontends.zoo.layers import Layers, V

LEAST = 1e-12  # lower bound of a norm in a division


@dataclass(frozen=True, slots=True)
class Restormer:
    """Sizes of section 4 of the paper; blocks and heads start at the finest level."""

    size: int = 256
    width: int = 48
    blocks: tuple[int, ...] = (4, 6, 6, 8)
    heads: tuple[int, ...] = (1, 2, 4, 8)
    refinement: int = 4
    expansion: float = 2.66

    def __call__(self, net: Layers[V]) -> None:
        """Build the model with the layers of `net`."""
        image = net.input("image", ("batch", 3, self.size, self.size))
        x = net.conv("embed", image, 3, self.width, 3, bias=False)
        width, extent, skips = self.width, self.size, []
        *finer, coarsest = zip(self.blocks, self.heads)
        for n, (blocks, heads) in enumerate(finer):
            x = self._blocks(net, f"encoder.{n}", x, width, extent, heads, blocks)
            skips.append(x)
            x = _down(net, f"down.{n}", x, width, extent)
            width, extent = 2 * width, extent // 2
        x = self._blocks(net, "latent", x, width, extent, coarsest[1], coarsest[0])
        for n, (blocks, heads) in reversed(list(enumerate(finer))):
            up = net.conv(f"up.{n}", x, width, 2 * width, 3, bias=False)
            x = net.concat([net.pixel_shuffle(up, 2), skips.pop()], axis=1)
            extent *= 2
            if n:  # the finest level keeps both halves
                x = net.conv(f"reduce.{n}", x, width, width // 2, bias=False)
                width //= 2
            x = self._blocks(net, f"decoder.{n}", x, width, extent, heads, blocks)
        x = self._blocks(net, "refinement", x, width, extent, self.heads[0], self.refinement)
        clean = net.add(net.conv("output", x, width, 3, 3, bias=False), image)
        net.output("clean", clean, ("batch", 3, self.size, self.size))

    def _blocks(
        self, net: Layers[V], name: str, x: V, width: int, extent: int, heads: int, blocks: int
    ) -> V:
        for n in range(blocks):
            with net.inside(f"{name}.{n}"):
                y = _channels_normal(net, "norm1", x, width, extent)
                x = net.add(x, _attention(net, y, width, extent, heads))
                y = _channels_normal(net, "norm2", x, width, extent)
                x = net.add(x, _feed_forward(net, y, width, int(width * self.expansion)))
        return x


def _channels_normal(net: Layers[V], name: str, x: V, width: int, extent: int) -> V:
    """Apply a layer norm over the channels of [batch, width, extent, extent]."""
    rows = net.transpose(net.reshape(x, 0, width, extent * extent), 0, 2, 1)
    rows = net.layer_norm(name, rows, width)
    return net.reshape(net.transpose(rows, 0, 2, 1), 0, width, extent, extent)


def _attention(net: Layers[V], x: V, width: int, extent: int, heads: int) -> V:
    """Apply the attention between channels of section 3.1, with normalised queries and keys."""
    with net.inside("attention"):
        x = net.conv("qkv", x, width, 3 * width, bias=False)
        x = net.conv("depthwise", x, 3 * width, 3 * width, 3, groups=3 * width, bias=False)
        q, k, v = (
            net.reshape(part, 0, heads, width // heads, extent * extent)
            for part in net.split(x, 3, axis=1)
        )
        q, k = (net.divide(y, net.at_least(net.norm(y, -1), LEAST)) for y in (q, k))
        scores = net.matmul(q, net.transpose(k, 0, 1, 3, 2))
        scores = net.multiply(scores, net.weight("temperature", (heads, 1, 1), 0.1, 1.0))
        mixed = net.reshape(net.matmul(net.softmax(scores), v), 0, width, extent, extent)
        return net.conv("output", mixed, width, width, bias=False)


def _feed_forward(net: Layers[V], x: V, width: int, inner: int) -> V:
    """Apply the gated feed-forward network of section 3.2."""
    with net.inside("feed_forward"):
        x = net.conv("inner", x, width, 2 * inner, bias=False)
        x = net.conv("depthwise", x, 2 * inner, 2 * inner, 3, groups=2 * inner, bias=False)
        gate, y = net.split(x, 2, axis=1)
        return net.conv("outer", net.multiply(net.gelu(gate), y), inner, width, bias=False)


def _down(net: Layers[V], name: str, x: V, width: int, extent: int) -> V:
    """Downsample [batch, width, extent, extent] → [batch, 2 · width, extent / 2, extent / 2]."""
    with net.inside(name):
        x = net.conv("conv", x, width, width // 2, 3, bias=False)
        x = net.reshape(x, 0, width // 2, extent // 2, 2, extent // 2, 2)
        return net.reshape(
            net.transpose(x, 0, 1, 3, 5, 2, 4), 0, 2 * width, extent // 2, extent // 2
        )


SMALL = Restormer(16, 8, blocks=(1, 1, 1), heads=(1, 2, 4), refinement=1)
