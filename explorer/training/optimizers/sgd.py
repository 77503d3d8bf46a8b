"""Stochastic gradient descent with momentum and steps that data may skip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import explorer.np as enp
from explorer.training.optimizers.checks import at_least, numbers, working_dtype
from explorer.training.tree import each, map_to_trees


@dataclass(frozen=True, slots=True)
class SGD:
    """The SGD optimizer: `p - learning_rate * d`.

    `d` is the gradient with `weight_decay * p`, or its running sum by `momentum`, which starts at
    the first step that is not skipped. `nesterov` looks a step ahead, `maximize` ascends.

    The hyperparameters are data of each step (`numbers`), so changing them recompiles nothing;
    which of them are initially 0 decides what is computed. The running sum and arithmetic are in
    float32 for narrower parameters. Source: PyTorch's torch.optim.SGD.
    """

    learning_rate: float = 1e-3
    momentum: float = 0.0
    dampening: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False
    maximize: bool = False

    def __post_init__(self) -> None:
        """Raise BadOption if a field is invalid."""
        at_least(0.0, learning_rate=self.learning_rate, momentum=self.momentum)
        at_least(0.0, weight_decay=self.weight_decay)

    @property
    def numbers(self) -> dict[str, np.ndarray]:
        """The hyperparameters that enter each step as data."""
        return numbers(self, "learning_rate", "momentum", "dampening", "weight_decay")

    def init(self, params: Any) -> dict[str, Any]:
        """Return the state before the first step."""
        state: dict[str, Any] = {"step": np.zeros((), np.int64)}
        if self.momentum:
            state["sum"] = each(lambda p: np.zeros(p.shape, working_dtype(p.dtype)), params)
        return state

    def update(self, params: Any, gradients: Any, state: Any, numbers: Any, overflowed: Any) -> Any:
        """Return parameters and state after a step, unchanged where `overflowed` is True."""
        step = state["step"] + enp.where(overflowed, 0, 1)
        after = {"step": step}

        def direction(p: Any, g: Any) -> Any:
            dtype = working_dtype(p.dtype)
            up = -g.astype(dtype) if self.maximize else g.astype(dtype)
            if not self.weight_decay:
                return up
            return up + numbers["weight_decay"].astype(dtype) * p.astype(dtype)

        def moved(p: Any, by: Any) -> Any:
            rate = numbers["learning_rate"].astype(by.dtype)
            return enp.where(overflowed, p, (p.astype(by.dtype) - rate * by).astype(p.dtype))

        def plain(p: Any, g: Any) -> Any:
            return moved(p, direction(p, g))

        def summed(p: Any, g: Any, b: Any) -> tuple[Any, Any]:
            d = direction(p, g)
            share = numbers["momentum"].astype(d.dtype)
            less = 1 - numbers["dampening"].astype(d.dtype)
            total = enp.where(step > 1, b * share + d * less, d)
            ahead = d + share * total if self.nesterov else total
            return moved(p, ahead), enp.where(overflowed, b, total)

        if not self.momentum:
            return each(plain, params, gradients), after
        updated, after["sum"] = map_to_trees(summed, 2, params, gradients, state["sum"])
        return updated, after
