"""What a training run has come to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from explorer.compilation import Compilation
from explorer.printed import Printed
from explorer.training.runs.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Epoch:
    """One pass over the data: the mean loss of its steps, and what validation found after it."""

    number: int
    loss: float
    validated: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True, repr=False)
class Fitted(Printed):
    """Parameters and state after `step` steps, of which the last were in epoch `epoch` and `batch`
    batches into it; the loss of every step; what validation found; which thread did what when.

    `stopped` is why it ended: "done", "cancelled" or "no better". `program` is the compiled step of
    the last batch, None before there was one; that of its gradients where the update is another,
    and the first of these where a replica's are several.
    """

    params: Any
    state: Any
    losses: list[float] = field(default_factory=list)
    epochs: list[Epoch] = field(default_factory=list)
    step: int = 0
    epoch: int = 0
    batch: int = 0
    stopped: str = ""
    timeline: Timeline = field(default_factory=Timeline)
    program: Compilation | None = None

    @property
    def skipped(self) -> int:
        """Steps whose gradients were not finite, so that nothing moved."""
        return self.step - int(np.asarray(self.state["optimizer"]["step"]))

    @property
    def loss(self) -> float:
        """The loss of the last step; NaN before the first."""
        return self.losses[-1] if self.losses else float("nan")

    def __str__(self) -> str:
        after = f"{self.step} steps, {self.epoch} epochs"
        return f"{after}: loss {self.loss:.6g}{f', {self.skipped} skipped' if self.skipped else ''}"
