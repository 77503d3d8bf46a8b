"""Networks that choose at run time which of their blocks or experts run (see `flow`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.frontends.python import arrays as xp
from explorer.frontends.python.tracing.annotations import tensor
from explorer.frontends.python.tracing.control_flow import cond
from explorer.frontends.zoo.flow import (
    ADDED,
    Arrays,
    conv,
    conv_weights,
    lstm_cell,
    lstm_weights,
    matrix,
    vector,
)
from explorer.frontends.zoo.layers import Weight
from explorer.ir.types import Tensor


@dataclass(frozen=True, slots=True)
class BlockDrop:
    """BlockDrop: a policy network selects which blocks of a large network run for an image.

    Wu et al. 2018, on images of 32 by 32: a ResNet-8 is the policy, for a ResNet-32 of 15 blocks. A
    block that no image of the batch selects does not run. In a block that runs, the other images
    keep their values. The fields are its sizes.
    """

    size: int = 32
    stages: tuple[int, ...] = (16, 32, 64)  # channels
    blocks: int = 5  # of a stage
    classes: int = 10

    @property
    def count(self) -> int:
        """The number of blocks that may be dropped."""
        return len(self.stages) * self.blocks

    @property
    def weights(self) -> tuple[Weight, ...]:
        """The weights."""
        last = self.stages[-1]
        return (
            *self._net("policy", 1),
            matrix("policy.head.weight", last, self.count, gain=8.0),
            vector("policy.head.bias", self.count),
            *self._net("net", self.blocks),
            matrix("head.weight", last, self.classes),
            vector("head.bias", self.classes),
        )

    def _net(self, name: str, blocks: int) -> tuple[Weight, ...]:
        weights = [*conv_weights(f"{name}.stem", 3, self.stages[0], 3)]
        channels = self.stages[0]
        for n, width in enumerate(self.stages):
            for m in range(blocks):
                weights += conv_weights(f"{name}.{n}.{m}.first", channels, width, 3)
                weights += conv_weights(f"{name}.{n}.{m}.second", width, width, 3, ADDED)
                channels = width
        return tuple(weights)

    @property
    def inputs(self) -> Mapping[str, Tensor]:
        """The annotation of each input."""
        return {"image": tensor("float32", "batch", 3, self.size, self.size)}

    def function(self, w: Arrays) -> Callable[..., Any]:
        """Return the model as a function over arrays, with weights `w`."""

        def blockdrop(image: Any) -> dict[str, Any]:
            selected = self._policy(w, image)
            x = xp.relu(conv(w, "net.stem", image))
            run = 0
            for n in range(len(self.stages)):
                for m in range(self.blocks):
                    residual = shortcut(x) if n and not m else x
                    is_selected = selected[:, n * self.blocks + m]
                    if is_selected.any():
                        y = block(w, f"net.{n}.{m}", x, residual)
                        x = xp.where(is_selected[:, None, None, None], y, residual)
                        run = run + 1
                    else:
                        x = residual
            scores = xp.mean(x, axis=(2, 3)) @ w["head.weight"] + w["head.bias"]
            return {"scores": scores, "wanted": selected, "run": run}

        return blockdrop

    def _policy(self, w: Arrays, image: Any) -> Any:
        """Return which blocks each image selects, [batch, count]."""
        x = xp.relu(conv(w, "policy.stem", image))
        for n in range(len(self.stages)):
            x = block(w, f"policy.{n}.0", x, shortcut(x) if n else x)
        pooled = xp.mean(x, axis=(2, 3))
        return pooled @ w["policy.head.weight"] + w["policy.head.bias"] > 0


def shortcut(x: Any) -> Any:
    """Return the mean of each two by two pixels, with as many channels of zeros appended."""
    batch, channels, high, wide = x.shape
    halved = xp.mean(xp.reshape(x, (batch, channels, high // 2, 2, wide // 2, 2)), axis=(3, 5))
    return xp.concatenate([halved, xp.zeros_like(halved)], axis=1)


def block(w: Arrays, name: str, x: Any, residual: Any) -> Any:
    """Apply two convolutions and add the residual."""
    halves = w[f"{name}.first.weight"].shape[0] != w[f"{name}.first.weight"].shape[1]
    y = xp.relu(conv(w, f"{name}.first", x, stride=2 if halves else 1))
    return xp.relu(conv(w, f"{name}.second", y) + residual)


BLOCKDROP = BlockDrop()
SMALL_BLOCKDROP = BlockDrop(size=8, stages=(8, 16), blocks=2)


GROWS = 4  # ratio of a bottleneck's output channels to its inner ones


@dataclass(frozen=True, slots=True)
class Part:
    """A bottleneck: its name, input channels, inner width, and stride."""

    name: str
    channels: int
    width: int
    stride: int

    @property
    def is_first(self) -> bool:
        """True if it changes the channels, so that its shortcut is a convolution."""
        return self.channels != GROWS * self.width


@dataclass(frozen=True, slots=True)
class SkipNet:
    """SkipNet: after each block of a ResNet, a recurrent gate decides if the next one runs.

    Wang et al. 2018, on a ResNet-101 for images of 224 by 224: 33 bottlenecks, of which the first
    always runs, and 32 gates. A gate pools the block's output to ten numbers, the input of one LSTM
    of ten that all gates share. A skipped block passes its input on; the first block of a stage
    passes the result of its shortcut. One image at a time decides: the batch is 1. The fields are
    its sizes.
    """

    size: int = 224
    stem: int = 64
    blocks: tuple[int, ...] = (3, 4, 23, 3)
    memory: int = 10
    classes: int = 1000

    @property
    def parts(self) -> Iterator[Part]:
        """All blocks, in order."""
        channels = self.stem
        for n, count in enumerate(self.blocks):
            for m in range(count):
                width = self.stem << n
                yield Part(f"stages.{n}.{m}", channels, width, 2 if n and not m else 1)
                channels = GROWS * width

    @property
    def weights(self) -> tuple[Weight, ...]:
        """The weights."""
        last = GROWS * (self.stem << len(self.blocks) - 1)
        weights = [*conv_weights("stem", 3, self.stem, 7)]
        for part in self.parts:
            out = GROWS * part.width
            weights += conv_weights(f"{part.name}.reduce", part.channels, part.width, 1)
            weights += conv_weights(f"{part.name}.middle", part.width, part.width, 3)
            weights += conv_weights(f"{part.name}.expand", part.width, out, 1, ADDED)
            if part.is_first:
                weights += conv_weights(f"{part.name}.shortcut", part.channels, out, 1)
            weights += (
                matrix(f"{part.name}.gate.weight", out, self.memory),
                vector(f"{part.name}.gate.bias", self.memory),
            )
        return (
            *weights,
            *lstm_weights("memory", self.memory, self.memory, gain=8.0),
            matrix("decide.weight", self.memory, 1, gain=64.0),
            vector("decide.bias", 1),
            matrix("head.weight", last, self.classes),
            vector("head.bias", self.classes),
        )

    @property
    def inputs(self) -> Mapping[str, Tensor]:
        """The annotation of each input."""
        return {"image": tensor("float32", 1, 3, self.size, self.size)}

    def function(self, w: Arrays) -> Callable[..., Any]:
        """Return the model as a function over arrays, with weights `w`."""

        def skipnet(image: Any) -> dict[str, Any]:
            x = halved(xp.relu(conv(w, "stem", image, stride=2)))
            h = c = xp.zeros((1, self.memory), "float32")
            first, *others = self.parts
            x = bottleneck(w, first, x, conv(w, f"{first.name}.shortcut", x))
            run, before = 1, first
            for part in others:
                runs, h, c = self._gate(w, before, x, h, c)
                residual = conv(w, f"{part.name}.shortcut", x, part.stride) if part.is_first else x
                if runs:
                    x = bottleneck(w, part, x, residual)
                    run = run + 1
                else:
                    x = residual
                before = part
            scores = xp.mean(x, axis=(2, 3)) @ w["head.weight"] + w["head.bias"]
            return {"scores": scores, "run": run}

        return skipnet

    def _gate(self, w: Arrays, part: Part, x: Any, h: Any, c: Any) -> tuple[Any, Any, Any]:
        """Return if the next block runs, after this one returned x, and the gate's state."""
        pooled = (
            xp.mean(x, axis=(2, 3)) @ w[f"{part.name}.gate.weight"] + w[f"{part.name}.gate.bias"]
        )
        h, c = lstm_cell(w, "memory", pooled, h, c)
        return (h @ w["decide.weight"] + w["decide.bias"])[0, 0] > 0, h, c


def bottleneck(w: Arrays, part: Part, x: Any, residual: Any) -> Any:
    """Apply three convolutions and add the residual."""
    y = xp.relu(conv(w, f"{part.name}.reduce", x))
    y = xp.relu(conv(w, f"{part.name}.middle", y, part.stride))
    return xp.relu(conv(w, f"{part.name}.expand", y) + residual)


def halved(x: Any) -> Any:
    """Return the maximum of each two by two pixels."""
    batch, channels, high, wide = x.shape
    return xp.max(xp.reshape(x, (batch, channels, high // 2, 2, wide // 2, 2)), axis=(3, 5))


SKIPNET = SkipNet()
SMALL_SKIPNET = SkipNet(size=32, stem=8, blocks=(2, 3), memory=4, classes=10)


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture of experts: each token goes to the one of eight experts that its router prefers.

    Fedus et al. 2022, a Switch layer of 256 with experts of 1024. The output of the expert is
    scaled by the router's probability. The tokens of an expert are processed together, up to six at
    a time; a binary search over branches selects the expert. The fields are its sizes.
    """

    count: int = 8
    width: int = 256
    inner: int = 1024
    most: int = 6  # tokens of an expert in one step

    @property
    def weights(self) -> tuple[Weight, ...]:
        """The weights."""
        weights = [matrix("router", self.width, self.count, gain=4.0)]
        for n in range(self.count):
            weights += (
                matrix(f"experts.{n}.in.weight", self.width, self.inner, gain=2.0),
                vector(f"experts.{n}.in.bias", self.inner),
                matrix(f"experts.{n}.out.weight", self.inner, self.width),
                vector(f"experts.{n}.out.bias", self.width),
            )
        return tuple(weights)

    @property
    def inputs(self) -> Mapping[str, Tensor]:
        """The annotation of each input."""
        return {"x": tensor("float32", "tokens", self.width)}

    def function(self, w: Arrays) -> Callable[..., Any]:
        """Return the model as a function over arrays, with weights `w`."""

        def expert(n: int, tokens: Any) -> Any:
            inner = tokens @ w[f"experts.{n}.in.weight"] + w[f"experts.{n}.in.bias"]
            return xp.relu(inner) @ w[f"experts.{n}.out.weight"] + w[f"experts.{n}.out.bias"]

        def chosen(which: Any, tokens: Any, first: int, last: int) -> Any:
            if last - first == 1:
                return expert(first, tokens)
            middle = (first + last) // 2
            return cond(
                which < middle,
                lambda t: chosen(which, t, first, middle),
                lambda t: chosen(which, t, middle, last),
                tokens,
            )

        def moe(x: Any) -> dict[str, Any]:
            likely, n = xp.softmax(x @ w["router"]), x.shape[0]
            which = xp.argmax(likely, axis=1)
            if n > 1:
                order = by_expert(which, self.count, self.most)
                tokens = xp.concatenate([x, xp.zeros((1, self.width), "float32")])
                choices = xp.concatenate([which, xp.full((1,), self.count, "int64")])
                outputs = xp.zeros((n + 1, self.width), "float32")
                at = 0
                while at < n:
                    rows = order[at + np.arange(self.most)]
                    is_same_expert = choices[rows] == choices[rows[0]]
                    answers = chosen(choices[rows[0]], tokens[rows], 0, self.count)
                    outputs[rows] = xp.where(is_same_expert[:, None], answers, outputs[rows])
                    at = at + xp.sum(is_same_expert)
                y = outputs[:n]
            else:
                y = chosen(which[0], x, 0, self.count)
            return {"y": x + y * xp.max(likely, axis=1)[:, None], "expert": which}

        return moe


def by_expert(which: Any, count: int, most: int) -> Any:
    """Return token indices grouped by expert, each group in order.

    They are followed by `most` - 1 copies of the index n, which no token has.
    """
    n = which.shape[0]
    one_hot = xp.astype(which[:, None] == np.arange(count), "int64")
    upto = xp.cumsum(one_hot, axis=0)
    before = xp.cumsum(upto[-1], axis=0) - upto[-1]
    order = xp.zeros((n + most - 1,), "int64") + n
    order[xp.sum(one_hot * (before + upto - 1), axis=1)] = xp.arange(n)
    return order


MOE = Experts()
SMALL_MOE = Experts(count=8, width=16, inner=32)
