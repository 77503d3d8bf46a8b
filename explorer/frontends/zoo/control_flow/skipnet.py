"""SkipNet: after each block of a ResNet, a recurrent gate decides if the next one runs.

Wang et al. 2018, on a ResNet-101 for images of 224 by 224: 33 bottlenecks, of which the first
always runs, and 32 gates. A gate pools the block's output to ten numbers, the input of one LSTM of
ten that all gates share. A skipped block passes its input on; the first block of a stage passes the
result of its shortcut. One image at a time decides: the batch is 1.
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
    """Sizes of the model."""

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


FULL = SkipNet()
SMALL = SkipNet(size=32, stem=8, blocks=(2, 3), memory=4, classes=10)
