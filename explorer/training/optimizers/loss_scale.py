"""The scale of a loss of few bits: data of each step, halved by overflows, grown by clean steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import explorer.np as enp
from explorer.training.optimizers.checks import at_least

LEAST = np.finfo(np.float32).tiny


@dataclass(frozen=True, slots=True)
class LossScale:
    """The loss is scaled by `first`, by `backoff` times that after a step whose gradients overflow,
    by `growth` times that after `interval` clean steps in a row; never beyond what float32 holds,
    nor below its least normal number, of which the inverse is finite.

    Source: PyTorch's torch.amp.GradScaler; in PyTorch/XLA its decisions are data (pull request
    3119).
    """

    first: float = 65536.0
    growth: float = 2.0
    backoff: float = 0.5
    interval: int = 2000

    def __post_init__(self) -> None:
        at_least(0.0, first=self.first, backoff=self.backoff)
        at_least(1.0, growth=self.growth, interval=self.interval)

    def init(self) -> dict[str, np.ndarray]:
        """The scale, and how many clean steps there were in a row."""
        return {"scale": np.array(self.first, np.float32), "clean": np.zeros((), np.int64)}

    def update(self, state: Any, found: Any) -> dict[str, Any]:
        """The same after a step."""
        clean = enp.where(found, 0, state["clean"] + 1)
        grows = clean == self.interval
        grown = state["scale"] * np.float32(self.growth)
        grown = enp.where(enp.isfinite(grown), grown, state["scale"])
        kept = enp.where(grows, grown, state["scale"])
        shrunk = enp.maximum(state["scale"] * np.float32(self.backoff), LEAST)
        return {
            "scale": enp.where(found, shrunk, kept),
            "clean": enp.where(grows, 0, clean),
        }
