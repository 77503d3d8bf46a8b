"""Transformers for text, images and speech."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from explorer.frontends.zoo.layers import (
    Layers,
    V,
    attention,
    conv_norm,
    heads_first,
    heads_last,
    perceptron,
)

BERT_EPSILON = 1e-12


@dataclass(frozen=True, slots=True)
class Bert:
    """BERT: an encoder with layer norm after each residual connection (Devlin et al. 2019).

    The base model at 128 tokens, from ids to the last hidden state. The fields are its sizes; the
    defaults are BERT base.
    """

    tokens: int = 128
    vocabulary: int = 30_522
    width: int = 768
    heads: int = 12
    layers: int = 12

    def __call__(self, net: Layers[V]) -> None:
        """Build the model with the layers of `net`."""
        ids = net.input("ids", ("batch", self.tokens), below=self.vocabulary)
        with net.inside("embeddings"):
            words = net.embedding("word", ids, self.vocabulary, self.width)
            x = net.add(words, net.weight("position", (1, self.tokens, self.width), 1.0))
            x = net.layer_norm("norm", x, self.width, BERT_EPSILON)
        for n in range(self.layers):
            with net.inside(f"layer.{n}"):
                x = self._layer(net, x)
        net.output("hidden", x, ("batch", self.tokens, self.width))

    def _layer(self, net: Layers[V], x: V) -> V:
        with net.inside("attention"):
            parts = [net.linear(n, x, self.width, self.width) for n in ("query", "key", "value")]
            mixed = attention(net, parts, self.tokens, self.width, self.heads)
            mixed = net.linear("output", mixed, self.width, self.width)
            x = net.layer_norm("norm", net.add(mixed, x), self.width, BERT_EPSILON)
        with net.inside("feed_forward"):
            outer = perceptron(net, x, self.width, 4 * self.width)
            return net.layer_norm("norm", net.add(outer, x), self.width, BERT_EPSILON)


SMALL_BERT = Bert(tokens=16, vocabulary=500, width=32, heads=2, layers=2)


VIT_EPSILON = 1e-6


@dataclass(frozen=True, slots=True)
class Vit:
    """ViT: an image as a sequence of patches (Dosovitskiy et al. 2021).

    The small model of Touvron et al. 2021 (DeiT-S), with patches of 32 by 32. The fields are its
    sizes.
    """

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
        x = net.layer_norm("norm", x, width, VIT_EPSILON)
        first = net.reshape(net.slice(x, 1, 0, 1), 0, width)
        scores = net.linear("head", first, width, self.classes)
        net.output("scores", scores, ("batch", self.classes))

    def _layer(self, net: Layers[V], x: V, tokens: int) -> V:
        width = self.width
        with net.inside("attention"):
            y = net.layer_norm("norm", x, width, VIT_EPSILON)
            qkv = net.split(net.linear("qkv", y, width, 3 * width), 3, axis=-1)
            y = attention(net, qkv, tokens, width, self.heads)
            x = net.add(x, net.linear("output", y, width, width))
        with net.inside("mlp"):
            y = net.layer_norm("norm", x, width, VIT_EPSILON)
            return net.add(x, perceptron(net, y, width, 4 * width))


SMALL_VIT = Vit(size=24, patch=8, width=32, heads=2, layers=2, classes=10)


APART = -100.0  # added to the score of two positions that are not neighbours


@dataclass(frozen=True, slots=True)
class Swin:
    """Swin Transformer: attention in windows, shifted in every other block (Liu et al. 2021).

    The fields are its sizes.
    """

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


SMALL_SWIN = Swin(56, width=16, depths=(2, 1), heads=(2, 4), classes=10)


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
    """MobileViT-S: inverted residuals, and transformers over unfolded patches between them.

    A transformer attends between pixels at the same position of their patches (Mehta and Rastegari
    2022). The fields are its sizes.
    """

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


SMALL_MOBILEVIT = MobileVit(32, (Stage(8, 2, 1), Stage(12, 1, 2, 2, 16)), 8, last=32, classes=10)


@dataclass(frozen=True, slots=True)
class Conformer:
    """Conformer: attention for global context, convolution for local context (Gulati et al. 2020).

    The encoder's blocks, at the Welder paper's size: 12 of them over 512 frames of 512 features.
    The attention is Transformer-XL's, with relative positions; the sinusoids of the positions times
    their projection are one weight, as after constant folding. The fields are its sizes.
    """

    frames: int = 512
    width: int = 512
    heads: int = 8
    kernel: int = 31
    layers: int = 12

    def __call__(self, net: Layers[V]) -> None:
        """Build the model with the layers of `net`."""
        dims = ("batch", self.frames, self.width)
        x = net.input("frames", dims)
        for n in range(self.layers):
            with net.inside(f"layers.{n}"):
                x = self._layer(net, x)
        net.output("hidden", x, dims)

    def _layer(self, net: Layers[V], x: V) -> V:
        x = net.add(x, net.scale(self._feed_forward(net, "first", x), 0.5))
        x = net.add(x, self._attention(net, x))
        x = net.add(x, self._convolution(net, x))
        x = net.add(x, net.scale(self._feed_forward(net, "second", x), 0.5))
        return net.layer_norm("norm", x, self.width)

    def _feed_forward(self, net: Layers[V], name: str, x: V) -> V:
        inner = 4 * self.width
        with net.inside(name):
            x = net.layer_norm("norm", x, self.width)
            x = net.silu(net.linear("inner", x, self.width, inner, gain=2))
            return net.linear("outer", x, inner, self.width)

    def _attention(self, net: Layers[V], x: V) -> V:
        width, heads, each = self.width, self.heads, self.width // self.heads
        with net.inside("attention"):
            x = net.layer_norm("norm", x, width)
            query, key, value = (
                heads_first(net, net.linear(name, x, width, width), self.frames, width, heads)
                for name in ("query", "key", "value")
            )
            content = net.add(query, net.weight("content_bias", (heads, 1, each), 0.1))
            position = net.add(query, net.weight("position_bias", (heads, 1, each), 0.1))
            places = net.weight("positions", (heads, each, 2 * self.frames - 1), 1.0)
            near = self._shifted(net, net.matmul(position, places))
            scores = net.add(net.matmul(content, net.transpose(key, 0, 1, 3, 2)), near)
            weights = net.softmax(net.scale(scores, 1 / sqrt(each)))
            mixed = heads_last(net, net.matmul(weights, value), self.frames, width)
            return net.linear("output", mixed, width, width)

    def _shifted(self, net: Layers[V], x: V) -> V:
        """Reindex scores from distances to positions.

        [n, heads, frames, 2 · frames - 1] → [n, heads, frames, frames] (Dai et al. 2019, appendix
        B).
        """
        t = self.frames
        x = net.reshape(net.pad_front(x, 4, 3, 1), 0, self.heads, 2 * t, t)
        x = net.reshape(net.slice(x, 2, 1), 0, self.heads, t, 2 * t - 1)
        return net.slice(x, 3, 0, t)

    def _convolution(self, net: Layers[V], x: V) -> V:
        width, window = self.width, (self.kernel,)
        with net.inside("convolution"):
            x = net.transpose(net.layer_norm("norm", x, width), 0, 2, 1)
            x, gate = net.split(net.conv("wide", x, width, 2 * width, (1,)), 2, axis=1)
            x = net.multiply(x, net.sigmoid(gate))
            x = net.conv("depthwise", x, width, width, window, groups=width, gain=2)
            x = net.silu(net.batch_norm("batch_norm", x, width))
            return net.transpose(net.conv("narrow", x, width, width, (1,)), 0, 2, 1)


SMALL_CONFORMER = Conformer(frames=20, width=32, heads=2, kernel=5, layers=2)
