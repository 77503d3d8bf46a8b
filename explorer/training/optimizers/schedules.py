"""Learning rate schedules by step number: data of each step, without recompilation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import cos, pi
from typing import TypeAlias

from explorer.training.optimizers.checks import at_least, counts

Schedule: TypeAlias = Callable[[int], float]  # the factor of the learning rate at a step, from 0


@dataclass(frozen=True, slots=True)
class Cosine:
    """A cosine schedule from 1 down to `last` over `steps`, after `warmup` linear steps up to 1.

    Source: Loshchilov and Hutter 2017, SGDR, equation 5.
    """

    steps: int
    warmup: int = 0
    last: float = 0.0

    def __post_init__(self) -> None:
        """Raise BadOption if a field is invalid."""
        counts(1, steps=self.steps)
        counts(0, warmup=self.warmup)
        at_least(0, last=self.last)

    def __call__(self, step: int) -> float:
        """Return the factor at a step."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        share = min(1.0, (step - self.warmup) / max(1, self.steps - self.warmup))
        return self.last + (1 - self.last) * (1 + cos(pi * share)) / 2


@dataclass(frozen=True, slots=True)
class Stairs:
    """A step schedule: multiplied by `factor` after every `steps` steps, as PyTorch's StepLR."""

    steps: int
    factor: float = 0.1

    def __post_init__(self) -> None:
        """Raise BadOption if a field is invalid."""
        counts(1, steps=self.steps)
        at_least(0, factor=self.factor)

    def __call__(self, step: int) -> float:
        """Return the factor at a step."""
        return float(self.factor ** (step // self.steps))
