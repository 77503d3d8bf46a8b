"""BlockDrop: a policy network selects which blocks of a large network run for an image.

Wu et al. 2018, on images of 32 by 32: a ResNet-8 is the policy, for a ResNet-32 of 15 blocks. A
block that no image of the batch selects does not run. In a block that runs, the other images keep
their values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from explorer.frontends import arrays as xp
from explorer.frontends.tracing.annotations import tensor
from explorer.frontends.zoo.control_flow.flow import (
    ADDED,
    Arrays,
    conv,
    conv_weights,
    matrix,
    vector,
)
from explorer.frontends.zoo.weights import Weight
from explorer.ir.types import Tensor


@dataclass(frozen=True, slots=True)
class BlockDrop:
    """Sizes of the model."""

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


FULL = BlockDrop()
SMALL = BlockDrop(size=8, stages=(8, 16), blocks=2)
