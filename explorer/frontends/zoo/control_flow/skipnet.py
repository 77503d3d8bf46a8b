"""SkipNet: after each block of a ResNet, a gate with a memory says whether the next one runs.

Wang et al. 2018, on a ResNet-101 for images of 224 by 224: 33 bottlenecks, of which the first
always runs, and 32 gates. A gate pools what it sees, makes ten numbers of it, and one LSTM of ten
goes through all of them. A block that is skipped hands on what it was given, a stage's first one
what its shortcut makes of it. One image at a time decides: the batch is 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from explorer.frontends import arrays as xp
from explorer.frontends.tracing.annotations import tensor
from explorer.frontends.zoo.control_flow.flow import (
    ADDED,
    Arrays,
    conv,
    conv_weights,
    lstm_cell,
    lstm_weights,
    matrix,
    vector,
)
from explorer.frontends.zoo.weights import Weight
from explorer.ir.types import Tensor

GROWS = 4  # a bottleneck's channels over those of its middle


@dataclass(frozen=True, slots=True)
class Part:
    """A bottleneck: its name, what it reads, its width in the middle, and its stride."""

    name: str
    channels: int
    width: int
    stride: int

    @property
    def is_first(self) -> bool:
        """Whether it changes the channels, so that its shortcut is a convolution."""
        return self.channels != GROWS * self.width


@dataclass(frozen=True, slots=True)
class SkipNet:
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
        last = GROWS * (self.stem << len(self.blocks) - 1)
        found = [*conv_weights("stem", 3, self.stem, 7)]
        for part in self.parts:
            out = GROWS * part.width
            found += conv_weights(f"{part.name}.reduce", part.channels, part.width, 1)
            found += conv_weights(f"{part.name}.middle", part.width, part.width, 3)
            found += conv_weights(f"{part.name}.expand", part.width, out, 1, ADDED)
            if part.is_first:
                found += conv_weights(f"{part.name}.shortcut", part.channels, out, 1)
            found += (
                matrix(f"{part.name}.gate.weight", out, self.memory),
                vector(f"{part.name}.gate.bias", self.memory),
            )
        return (
            *found,
            *lstm_weights("memory", self.memory, self.memory, gain=8.0),
            matrix("decide.weight", self.memory, 1, gain=64.0),
            vector("decide.bias", 1),
            matrix("head.weight", last, self.classes),
            vector("head.bias", self.classes),
        )

    @property
    def inputs(self) -> Mapping[str, Tensor]:
        return {"image": tensor("float32", 1, 3, self.size, self.size)}

    def function(self, w: Arrays) -> Callable[..., Any]:
        def skipnet(image: Any) -> dict[str, Any]:
            x = halved(xp.relu(conv(w, "stem", image, stride=2)))
            h = c = xp.zeros((1, self.memory), "float32")
            first, *others = self.parts
            x = bottleneck(w, first, x, conv(w, f"{first.name}.shortcut", x))
            run, before = 1, first
            for part in others:
                runs, h, c = self._gate(w, before, x, h, c)
                kept = conv(w, f"{part.name}.shortcut", x, part.stride) if part.is_first else x
                if runs:
                    x = bottleneck(w, part, x, kept)
                    run = run + 1
                else:
                    x = kept
                before = part
            scores = xp.mean(x, axis=(2, 3)) @ w["head.weight"] + w["head.bias"]
            return {"scores": scores, "run": run}

        return skipnet

    def _gate(self, w: Arrays, part: Part, x: Any, h: Any, c: Any) -> tuple[Any, Any, Any]:
        """Whether the next block runs, after this one gave x."""
        seen = xp.mean(x, axis=(2, 3)) @ w[f"{part.name}.gate.weight"] + w[f"{part.name}.gate.bias"]
        h, c = lstm_cell(w, "memory", seen, h, c)
        return (h @ w["decide.weight"] + w["decide.bias"])[0, 0] > 0, h, c


def bottleneck(w: Arrays, part: Part, x: Any, kept: Any) -> Any:
    """Three convolutions, and what was kept added."""
    y = xp.relu(conv(w, f"{part.name}.reduce", x))
    y = xp.relu(conv(w, f"{part.name}.middle", y, part.stride))
    return xp.relu(conv(w, f"{part.name}.expand", y) + kept)


def halved(x: Any) -> Any:
    """The largest of each two by two pixels."""
    batch, channels, high, wide = x.shape
    return xp.max(xp.reshape(x, (batch, channels, high // 2, 2, wide // 2, 2)), axis=(3, 5))


FULL = SkipNet()
SMALL = SkipNet(size=32, stem=8, blocks=(2, 3), memory=4, classes=10)
