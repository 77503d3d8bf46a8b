"""Networks for images: classification, restoration, and the rendering of a radiance field."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from explorer.frontends.zoo.layers import Layers, V, conv_norm

STAGES = (  # expansion, channels, blocks, stride of the first; table 2 of the paper
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


@dataclass(frozen=True, slots=True)
class MobileNetV2:
    """MobileNetV2: inverted residuals with linear bottlenecks (Sandler et al. 2018).

    The fields are its sizes.
    """

    size: int = 224
    stages: tuple[tuple[int, int, int, int], ...] = STAGES
    stem: int = 32
    last: int = 1280
    classes: int = 1000

    def __call__(self, net: Layers[V]) -> None:
        """Build the model with the layers of `net`."""
        x = net.input("image", ("batch", 3, self.size, self.size))
        x = conv_norm(net, "stem", x, 3, self.stem, 3, 2, activation=_relu6(net))
        channels = self.stem
        for n, (expansion, width, blocks, stride) in enumerate(self.stages):
            for m in range(blocks):
                with net.inside(f"stages.{n}.{m}"):
                    step = stride if m == 0 else 1
                    x = _inverted_residual(net, x, channels, width, expansion, step)
                    channels = width
        x = conv_norm(net, "last", x, channels, self.last, activation=_relu6(net))
        pooled = net.reshape(net.global_pool(x), 0, self.last)
        scores = net.linear("classifier", pooled, self.last, self.classes)
        net.output("scores", scores, ("batch", self.classes))


def _inverted_residual(
    net: Layers[V], x: V, channels: int, width: int, expansion: int, stride: int
) -> V:
    inner, relu6 = channels * expansion, _relu6(net)
    y = x if expansion == 1 else conv_norm(net, "expand", x, channels, inner, activation=relu6)
    y = conv_norm(net, "depthwise", y, inner, inner, 3, stride, inner, relu6)
    y = conv_norm(net, "project", y, inner, width)
    return net.add(x, y) if stride == 1 and channels == width else y


def _relu6(net: Layers[V]) -> Callable[[V], V]:
    return lambda x: net.clip(x, 0, 6)


SMALL_MOBILENETV2 = MobileNetV2(32, ((1, 8, 1, 1), (6, 12, 2, 2), (6, 16, 1, 1)), 8, 32, classes=10)


@dataclass(frozen=True, slots=True)
class ResNext:
    """ResNeXt-29 for images of 32 by 32: bottlenecks with a grouped middle convolution.

    Xie et al. 2017, table 7, at Rammer's cardinality (Ma et al. 2020, section 5.1): 16 groups of 64
    channels, 29 layers. The fields are its sizes.
    """

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


SMALL_RESNEXT29 = ResNext(size=8, cardinality=4, group=4, stem=8, stages=(16, 32), blocks=2)


COPIES = 4  # of the image, concatenated as the input


@dataclass(frozen=True, slots=True)
class Bsrn:
    """BSRN: blueprint separable convolutions and stepwise feature distillation (Li et al. 2022).

    Super-resolution, here to four times the height and width. The fields are its sizes.
    """

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


SMALL_BSRN = Bsrn(size=21, width=8, blocks=2, up=2, squeeze=4)


EPSILON = 1e-6


@dataclass(frozen=True, slots=True)
class NafNet:
    """NAFNet: image restoration without nonlinear activations (Chen et al. 2022).

    The fields are its sizes.
    """

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


SMALL_NAFNET = NafNet(size=16, width=4, encoders=(1,), decoders=(1,))


LEAST = 1e-12  # lower bound of a norm in a division


@dataclass(frozen=True, slots=True)
class Restormer:
    """Restormer: attention between channels, for images of any size (Zamir et al. 2022).

    The fields are the sizes of section 4 of the paper; blocks and heads start at the finest level.
    """

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


SMALL_RESTORMER = Restormer(16, 8, blocks=(1, 1, 1), heads=(1, 2, 4), refinement=1)


@dataclass(frozen=True, slots=True)
class Nerf:
    """The multi-layer perceptron of a neural radiance field, one row for each point on a ray.

    Mildenhall et al. 2020; the size is that of the Welder paper (section 5.1): a picture of 1920 by
    1080 points, 64 input features, seven layers, red, green and blue. The fields are its sizes.
    """

    points: int = 1920 * 1080
    width: int = 64
    layers: int = 7

    def __call__(self, net: Layers[V]) -> None:
        """Build the model with the layers of `net`."""
        x = net.input("features", (self.points, self.width))
        for n in range(self.layers - 1):
            with net.inside(f"layers.{n}"):
                x = net.relu(net.linear("linear", x, self.width, self.width, gain=2))
        colour = net.linear("colour", x, self.width, 3)
        net.output("rgb", colour, (self.points, 3))


SMALL_NERF = Nerf(points=1000, width=16, layers=3)
