"""MobileViT-S: inverted residuals, and transformers over unfolded patches between them.

A transformer attends between pixels at the same position of their patches (Mehta and Rastegari
2022).
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.frontends.zoo.blocks import attention, conv_norm
from explorer.frontends.zoo.layers import Layers, V

PATCH = 2  # pixels, width and height


@dataclass(frozen=True, slots=True)
class Stage:
    """Inverted residuals, the first with `stride`, then a transformer of `depth` layers, if any."""

    channels: int
    residuals: int
    stride: int
    depth: int = 0
    width: int = 0


STAGES = (
    Stage(32, 1, 1),
    Stage(64, 3, 2),
    Stage(96, 1, 2, 2, 144),
    Stage(128, 1, 2, 4, 192),
    Stage(160, 1, 2, 3, 240),
)


@dataclass(frozen=True, slots=True)
class MobileVit:
    """Sizes of the model."""

    size: int = 256
    stages: tuple[Stage, ...] = STAGES
    stem: int = 16
    expansion: int = 4
    heads: int = 4
    last: int = 640
    classes: int = 1000

    def __call__(self, net: Layers[V]) -> None:
        """Build the model with the layers of `net`."""
        x = net.input("image", ("batch", 3, self.size, self.size))
        x = conv_norm(net, "stem", x, 3, self.stem, 3, 2, activation=net.silu)
        channels, extent = self.stem, self.size // 2
        for n, stage in enumerate(self.stages):
            extent //= stage.stride
            for m in range(stage.residuals):
                with net.inside(f"stages.{n}.{m}"):
                    stride = stage.stride if m == 0 else 1
                    x = self._residual(net, x, channels, stage.channels, stride)
                    channels = stage.channels
            if stage.depth:
                with net.inside(f"stages.{n}.transformer"):
                    x = self._transformer(net, x, stage, extent)
        x = conv_norm(net, "last", x, channels, self.last, activation=net.silu)
        pooled = net.reshape(net.global_pool(x), 0, self.last)
        scores = net.linear("classifier", pooled, self.last, self.classes)
        net.output("scores", scores, ("batch", self.classes))

    def _residual(self, net: Layers[V], x: V, channels: int, width: int, stride: int) -> V:
        inner = channels * self.expansion
        y = conv_norm(net, "expand", x, channels, inner, activation=net.silu)
        y = conv_norm(net, "depthwise", y, inner, inner, 3, stride, inner, net.silu)
        y = conv_norm(net, "project", y, inner, width)
        return net.add(x, y) if stride == 1 and channels == width else y

    def _transformer(self, net: Layers[V], x: V, stage: Stage, extent: int) -> V:
        """Apply the block of figure 1 (b) of the paper."""
        channels, width = stage.channels, stage.width
        y = conv_norm(net, "near", x, channels, channels, 3, activation=net.silu)
        y = net.conv("widen", y, channels, width, bias=False)
        y = _unfolded(net, y, width, extent)
        for n in range(stage.depth):
            with net.inside(f"layers.{n}"):
                y = self._layer(net, y, (extent // PATCH) ** 2, width)
        y = _folded(net, net.layer_norm("norm", y, width), width, extent)
        y = conv_norm(net, "narrow", y, width, channels, activation=net.silu)
        both = net.concat([x, y], 1)
        return conv_norm(net, "fuse", both, 2 * channels, channels, 3, activation=net.silu)

    def _layer(self, net: Layers[V], x: V, tokens: int, width: int) -> V:
        y = net.linear("qkv", net.layer_norm("norm1", x, width), width, 3 * width)
        y = attention(net, net.split(y, 3, axis=-1), tokens, width, self.heads)
        x = net.add(x, net.linear("output", y, width, width))
        y = net.linear("inner", net.layer_norm("norm2", x, width), width, 2 * width)
        return net.add(x, net.linear("outer", net.silu(y), 2 * width, width))


def _unfolded(net: Layers[V], x: V, width: int, extent: int) -> V:
    """Reshape [batch, width, extent, extent] → [batch · PATCH², patches, width]."""
    rows = extent // PATCH
    x = net.reshape(x, 0, width, rows, PATCH, rows, PATCH)
    x = net.transpose(x, 0, 3, 5, 2, 4, 1)
    return net.reshape(x, -1, rows * rows, width)


def _folded(net: Layers[V], x: V, width: int, extent: int) -> V:
    """Invert `_unfolded`."""
    rows = extent // PATCH
    x = net.reshape(x, -1, PATCH, PATCH, rows, rows, width)
    return net.reshape(net.transpose(x, 0, 5, 3, 1, 4, 2), 0, width, extent, extent)


SMALL = MobileVit(32, (Stage(8, 2, 1), Stage(12, 1, 2, 2, 16)), 8, last=32, classes=10)
