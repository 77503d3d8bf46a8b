"""MobileNetV2: inverted residuals with linear bottlenecks (Sandler et al. 2018)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from explorer.frontends.zoo.blocks import conv_norm
from explorer.frontends.zoo.layers import Layers, V

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
    """Sizes of the model."""

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


SMALL = MobileNetV2(32, ((1, 8, 1, 1), (6, 12, 2, 2), (6, 16, 1, 1)), 8, 32, classes=10)
