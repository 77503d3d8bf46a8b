"""Adam and AdamW with steps that data may skip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import explorer.np as enp
from explorer.training.optimizers.checks import at_least, below, numbers, working_dtype
from explorer.training.tree import each, map_to_trees


@dataclass(frozen=True, slots=True)
class Adam:
    """The Adam optimizer.

    Steps are the mean of gradients over the root of the mean of their squares, both bias-corrected.
    `weight_decay` is added to the gradient (L2); `amsgrad` divides by the largest mean of squares
    so far.

    The hyperparameters are data of each step (`numbers`), so changing them recompiles nothing;
    whether `weight_decay` is initially 0 decides what is computed. Moments and arithmetic are in
    float32 for narrower parameters, in which a decay of 0.999 is 1. Sources: Kingma and Ba 2015;
    Reddi et al. 2018; PyTorch's torch.optim.Adam.
    """

    learning_rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    amsgrad: bool = False
    maximize: bool = False

    def __post_init__(self) -> None:
        """Raise BadOption if a field is invalid."""
        at_least(0.0, learning_rate=self.learning_rate, weight_decay=self.weight_decay)
        at_least(0.0, beta1=self.beta1, beta2=self.beta2, epsilon=self.epsilon)
        below(1.0, beta1=self.beta1, beta2=self.beta2)

    @property
    def numbers(self) -> dict[str, np.ndarray]:
        """The hyperparameters that enter each step as data."""
        return numbers(self, "learning_rate", "beta1", "beta2", "epsilon", "weight_decay")

    def init(self, params: Any) -> dict[str, Any]:
        """Return the state before the first step."""
        kinds = ("mean", "square", *(("largest",) if self.amsgrad else ()))

        def zeros() -> Any:
            return each(lambda p: np.zeros(p.shape, working_dtype(p.dtype)), params)

        return {"step": np.zeros((), np.int64), **{kind: zeros() for kind in kinds}}

    def update(self, params: Any, gradients: Any, state: Any, numbers: Any, overflowed: Any) -> Any:
        """Return parameters and state after a step, unchanged where `overflowed` is True."""
        step = state["step"] + enp.where(overflowed, 0, 1)

        def update_parameter(p: Any, g: Any, m: Any, v: Any, *largest: Any) -> tuple[Any, ...]:
            dtype = working_dtype(p.dtype)
            rate, beta1, beta2, epsilon, decay = (numbers[n].astype(dtype) for n in _NUMBERS)
            count = step.astype(dtype)
            g = g.astype(dtype)
            g = -g if self.maximize else g
            p_new, g = self.decayed(p.astype(dtype), g, rate, decay)
            mean = beta1 * m + (1 - beta1) * g
            square = beta2 * v + (1 - beta2) * g * g
            top = [enp.maximum(largest[0], square)] if largest else []
            size = enp.sqrt(top[0] if largest else square) / enp.sqrt(1 - beta2**count) + epsilon
            p_new = (p_new - rate / (1 - beta1**count) * mean / size).astype(p.dtype)
            pairs = zip((p, m, v, *largest), (p_new, mean, square, *top), strict=True)
            return tuple(enp.where(overflowed, old, new) for old, new in pairs)

        kinds = [k for k in state if k != "step"]
        updated = map_to_trees(
            update_parameter, 1 + len(kinds), params, gradients, *(state[k] for k in kinds)
        )
        return updated[0], {"step": step, **dict(zip(kinds, updated[1:], strict=True))}

    def decayed(self, p: Any, g: Any, rate: Any, decay: Any) -> tuple[Any, Any]:
        """Return parameter and gradient, with the weight decay applied to one of them."""
        return p, g + decay * p if self.weight_decay else g


@dataclass(frozen=True, slots=True)
class AdamW(Adam):
    """Adam whose weight decay shrinks the parameters themselves (Loshchilov and Hutter 2019)."""

    weight_decay: float = 1e-2

    def decayed(self, p: Any, g: Any, rate: Any, decay: Any) -> tuple[Any, Any]:
        """Return the shrunken parameter and the gradient."""
        return p * (1 - rate * decay) if self.weight_decay else p, g


_NUMBERS = ("learning_rate", "beta1", "beta2", "epsilon", "weight_decay")
