"""Swin Transformer: attention in windows, shifted in every other block (Liu et al. 2021)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explorer.frontends.zoo.blocks import attention, perceptron
from explorer.frontends.zoo.layers import Layers, V

APART = -100.0  # added to the score of two positions that are not neighbours


@dataclass(frozen=True, slots=True)
class Swin:
    """Sizes of the model."""

    size: int = 224
    patch: int = 4
    window: int = 7
    width: int = 128
    depths: tuple[int, ...] = (2, 2, 18, 2)
    heads: tuple[int, ...] = (4, 8, 16, 32)
    classes: int = 1000

    def __call__(self, net: Layers[V]) -> None:
        """Build the model with the layers of `net`."""
        x = net.input("image", ("batch", 3, self.size, self.size))
        extent, width = self.size // self.patch, self.width
        with net.inside("patches"):
            x = net.conv("conv", x, 3, width, self.patch, stride=self.patch, pad=0)
            x = net.transpose(x, 0, 2, 3, 1)
            x = net.layer_norm("norm", x, width)
        for n, (depth, heads) in enumerate(zip(self.depths, self.heads)):
            if n:
                with net.inside(f"stages.{n}.merge"):
                    x = _merged(net, x, extent, width)
                extent, width = extent // 2, 2 * width
            for m in range(depth):
                with net.inside(f"stages.{n}.{m}"):
                    x = self._block(net, x, extent, width, heads, shifted=m % 2 == 1)
        pooled = net.mean(net.layer_norm("norm", x, width), 1, 2, keep=False)
        scores = net.linear("head", pooled, width, self.classes)
        net.output("scores", scores, ("batch", self.classes))

    def _block(self, net: Layers[V], x: V, extent: int, width: int, heads: int, shifted: bool) -> V:
        """Apply a block to [batch, extent, extent, width]; a single window is not shifted."""
        by = self.window // 2 if shifted and extent > self.window else 0
        with net.inside("attention"):
            y = net.layer_norm("norm", x, width)
            y = _rolled(net, y, -by)
            y = self._in_windows(net, y, extent, width, heads, by)
            x = net.add(x, _rolled(net, y, by))
        with net.inside("mlp"):
            y = net.layer_norm("norm", x, width)
            return net.add(x, perceptron(net, y, width, 4 * width))

    def _in_windows(self, net: Layers[V], x: V, extent: int, width: int, heads: int, by: int) -> V:
        window, rows = self.window, extent // self.window
        places = window * window
        x = net.reshape(x, 0, rows, window, rows, window, width)
        x = net.reshape(net.transpose(x, 0, 1, 3, 2, 4, 5), -1, places, width)
        qkv = net.split(net.linear("qkv", x, width, 3 * width), 3, axis=-1)
        near = net.weight("near", (1, heads, places, places), 0.5)

        def biased(scores: V) -> V:
            scores = net.add(scores, near)
            if not by:
                return scores
            mask = net.constant(_mask(extent, window, by))
            scores = net.reshape(scores, -1, rows * rows, heads, places, places)
            return net.reshape(net.add(scores, mask), -1, heads, places, places)

        x = attention(net, qkv, places, width, heads, biased)
        x = net.linear("output", x, width, width)
        x = net.transpose(net.reshape(x, -1, rows, rows, window, window, width), 0, 1, 3, 2, 4, 5)
        return net.reshape(x, -1, extent, extent, width)


def _rolled(net: Layers[V], x: V, by: int) -> V:
    return net.roll(net.roll(x, 1, by), 2, by) if by else x


def _mask(extent: int, window: int, by: int) -> np.ndarray:
    """Return the mask [windows, 1, places, places] that separates regions joined by the shift."""
    region = np.zeros(extent, np.int64)
    region[extent - window : extent - by], region[extent - by :] = 1, 2
    label = region[:, None] * 3 + region
    rows = extent // window
    tiles = label.reshape(rows, window, rows, window).transpose(0, 2, 1, 3)
    flat = tiles.reshape(rows * rows, window * window)
    is_separate = flat[:, None, :] != flat[:, :, None]
    return np.where(is_separate, np.float32(APART), np.float32(0))[:, None]


def _merged(net: Layers[V], x: V, extent: int, width: int) -> V:
    """Merge [batch, extent, extent, width] → [batch, extent / 2, extent / 2, 2 · width]."""
    x = net.reshape(x, 0, extent // 2, 2, extent // 2, 2, width)
    x = net.reshape(net.transpose(x, 0, 1, 3, 4, 2, 5), 0, extent // 2, extent // 2, 4 * width)
    x = net.layer_norm("norm", x, 4 * width)
    return net.linear("reduce", x, 4 * width, 2 * width, bias=False)


SMALL = Swin(56, width=16, depths=(2, 1), heads=(2, 4), classes=10)
