"""BlockDrop: a small network looks at the image, and says which blocks of a large one run.

Wu et al. 2018, on images of 32 by 32: a ResNet-8 is the policy, a ResNet-32 of 15 blocks drops
those that it does not want. A block that no image of the batch wants does not run; of one that
runs, the images that do not want it keep what they had.
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
    size: int = 32
    stages: tuple[int, ...] = (16, 32, 64)  # channels
    blocks: int = 5  # of a stage
    classes: int = 10

    @property
    def count(self) -> int:
        """How many blocks may be dropped."""
        return len(self.stages) * self.blocks

    @property
    def weights(self) -> tuple[Weight, ...]:
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
        found = [*conv_weights(f"{name}.stem", 3, self.stages[0], 3)]
        channels = self.stages[0]
        for n, width in enumerate(self.stages):
            for m in range(blocks):
                found += conv_weights(f"{name}.{n}.{m}.first", channels, width, 3)
                found += conv_weights(f"{name}.{n}.{m}.second", width, width, 3, ADDED)
                channels = width
        return tuple(found)

    @property
    def inputs(self) -> Mapping[str, Tensor]:
        return {"image": tensor("float32", "batch", 3, self.size, self.size)}

    def function(self, w: Arrays) -> Callable[..., Any]:
        def blockdrop(image: Any) -> dict[str, Any]:
            wanted = self._policy(w, image)
            x = xp.relu(conv(w, "net.stem", image))
            run = 0
            for n in range(len(self.stages)):
                for m in range(self.blocks):
                    kept = shortcut(x) if n and not m else x
                    wants = wanted[:, n * self.blocks + m]
                    if wants.any():
                        y = block(w, f"net.{n}.{m}", x, kept)
                        x = xp.where(wants[:, None, None, None], y, kept)
                        run = run + 1
                    else:
                        x = kept
            scores = xp.mean(x, axis=(2, 3)) @ w["head.weight"] + w["head.bias"]
            return {"scores": scores, "wanted": wanted, "run": run}

        return blockdrop

    def _policy(self, w: Arrays, image: Any) -> Any:
        """Which blocks each image wants, [batch, count]."""
        x = xp.relu(conv(w, "policy.stem", image))
        for n in range(len(self.stages)):
            x = block(w, f"policy.{n}.0", x, shortcut(x) if n else x)
        pooled = xp.mean(x, axis=(2, 3))
        return pooled @ w["policy.head.weight"] + w["policy.head.bias"] > 0


def shortcut(x: Any) -> Any:
    """The mean of each two by two pixels, and as many channels of zeros again."""
    batch, channels, high, wide = x.shape
    halved = xp.mean(xp.reshape(x, (batch, channels, high // 2, 2, wide // 2, 2)), axis=(3, 5))
    return xp.concatenate([halved, xp.zeros_like(halved)], axis=1)


def block(w: Arrays, name: str, x: Any, kept: Any) -> Any:
    """Two convolutions, and what was kept added."""
    halves = w[f"{name}.first.weight"].shape[0] != w[f"{name}.first.weight"].shape[1]
    y = xp.relu(conv(w, f"{name}.first", x, stride=2 if halves else 1))
    return xp.relu(conv(w, f"{name}.second", y) + kept)


FULL = BlockDrop()
SMALL = BlockDrop(size=8, stages=(8, 16), blocks=2)
