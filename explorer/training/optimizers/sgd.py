"""Stochastic gradient descent with momentum, whose steps data may skip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import explorer.np as enp
from explorer.training.optimizers.checks import at_least, numbers, working_dtype
from explorer.training.tree import each, several


@dataclass(frozen=True, slots=True)
class SGD:
    """`p - learning_rate * d`, where `d` is the gradient with `weight_decay * p`, or its running
    sum by `momentum`; the first step that is not skipped begins the sum. `nesterov` looks a step
    ahead, `maximize` goes up.

    The numbers are data of each step (`numbers`), so that changing them compiles nothing; which of
    them are 0 at first decides what is computed. The running sum and arithmetic are in float32 for
    parameters of fewer bits. Source: PyTorch's torch.optim.SGD.
    """

    learning_rate: float = 1e-3
    momentum: float = 0.0
    dampening: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False
    maximize: bool = False

    def __post_init__(self) -> None:
        at_least(0.0, learning_rate=self.learning_rate, momentum=self.momentum)
        at_least(0.0, weight_decay=self.weight_decay)

    @property
    def numbers(self) -> dict[str, np.ndarray]:
        """What enters each step as data."""
        return numbers(self, "learning_rate", "momentum", "dampening", "weight_decay")

    def init(self, params: Any) -> dict[str, Any]:
        """The state before the first step."""
        state: dict[str, Any] = {"step": np.zeros((), np.int64)}
        if self.momentum:
            state["sum"] = each(lambda p: np.zeros(p.shape, working_dtype(p.dtype)), params)
        return state

    def update(self, params: Any, gradients: Any, state: Any, numbers: Any, found: Any) -> Any:
        """Parameters and state after a step; as they were where `found` holds."""
        step = state["step"] + enp.where(found, 0, 1)
        after = {"step": step}

        def direction(p: Any, g: Any) -> Any:
            dtype = working_dtype(p.dtype)
            up = -g.astype(dtype) if self.maximize else g.astype(dtype)
            if not self.weight_decay:
                return up
            return up + numbers["weight_decay"].astype(dtype) * p.astype(dtype)

        def moved(p: Any, by: Any) -> Any:
            rate = numbers["learning_rate"].astype(by.dtype)
            return enp.where(found, p, (p.astype(by.dtype) - rate * by).astype(p.dtype))

        def plain(p: Any, g: Any) -> Any:
            return moved(p, direction(p, g))

        def summed(p: Any, g: Any, b: Any) -> tuple[Any, Any]:
            d = direction(p, g)
            share = numbers["momentum"].astype(d.dtype)
            less = 1 - numbers["dampening"].astype(d.dtype)
            total = enp.where(step > 1, b * share + d * less, d)
            ahead = d + share * total if self.nesterov else total
            return moved(p, ahead), enp.where(found, b, total)

        if not self.momentum:
            return each(plain, params, gradients), after
        made, after["sum"] = several(summed, 2, params, gradients, state["sum"])
        return made, after
