"""Dynamic loss scaling as data of each step: halved by overflows, grown by clean steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import explorer.np as enp
from explorer.training.optimizers.checks import at_least

LEAST = np.finfo(np.float32).tiny


@dataclass(frozen=True, slots=True)
class LossScale:
    """A dynamic loss scale.

    It starts at `first`, is multiplied by `backoff` after a step whose gradients overflow, and by
    `growth` after `interval` consecutive clean steps; it stays finite in float32 and at least its
    smallest normal number, whose inverse is finite. Source: PyTorch's torch.amp.GradScaler; in
    PyTorch/XLA its decisions are data (pull request 3119).
    """

    first: float = 65536.0
    growth: float = 2.0
    backoff: float = 0.5
    interval: int = 2000

    def __post_init__(self) -> None:
        """Raise BadOption if a field is invalid."""
        at_least(0.0, first=self.first, backoff=self.backoff)
        at_least(1.0, growth=self.growth, interval=self.interval)

    def init(self) -> dict[str, np.ndarray]:
        """Return the initial scale and a count of clean steps of 0."""
        return {"scale": np.array(self.first, np.float32), "clean": np.zeros((), np.int64)}

    def update(self, state: Any, overflowed: Any) -> dict[str, Any]:
        """Return the scale and the count of consecutive clean steps after a step."""
        clean = enp.where(overflowed, 0, state["clean"] + 1)
        grows = clean == self.interval
        grown = state["scale"] * np.float32(self.growth)
        grown = enp.where(enp.isfinite(grown), grown, state["scale"])
        unshrunk = enp.where(grows, grown, state["scale"])
        shrunk = enp.maximum(state["scale"] * np.float32(self.backoff), LEAST)
        return {
            "scale": enp.where(overflowed, shrunk, unshrunk),
            "clean": enp.where(grows, 0, clean),
        }
