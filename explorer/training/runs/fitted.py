"""Results of a training run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from explorer.compilation import Compilation
from explorer.printed import Printed
from explorer.training.runs.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Epoch:
    """One pass over the data: the mean loss of its steps, and the validation results after it."""

    number: int
    loss: float
    validated: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True, repr=False)
class Fitted(Printed):
    """Parameters and state after `step` steps, with the run's history.

    The last step was in epoch `epoch`, `batch` batches into it. `losses` has one entry a step;
    `epochs` holds validation results; `timeline` shows which thread did what when. `stopped` is why
    the run ended: "done", "cancelled" or "no better". `program` is the compiled step of the last
    batch, None before the first; it is the gradient program if the update is another one, and the
    first of these if a replica has several.
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
        """The number of steps that were skipped because a gradient was not finite."""
        return self.step - int(np.asarray(self.state["optimizer"]["step"]))

    @property
    def loss(self) -> float:
        """The loss of the last step; NaN before the first."""
        return self.losses[-1] if self.losses else float("nan")

    def __str__(self) -> str:
        """Return steps, epochs and the last loss in a line."""
        after = f"{self.step} steps, {self.epoch} epochs"
        return f"{after}: loss {self.loss:.6g}{f', {self.skipped} skipped' if self.skipped else ''}"
