"""Optimizers, learning rate schedules and loss scaling, as data of each step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import cos, isfinite, pi
from typing import Any, TypeAlias

import numpy as np

import explorer.np as enp
from explorer.errors import BadOption
from explorer.training.tree import each, map_to_trees

Schedule: TypeAlias = Callable[[int], float]  # the factor of the learning rate at a step, from 0
ADAM_NUMBERS = ("learning_rate", "beta1", "beta2", "epsilon", "weight_decay")
LEAST_SCALE = np.finfo(np.float32).tiny


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
        return numbers(self, *ADAM_NUMBERS)

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
            rate, beta1, beta2, epsilon, decay = (numbers[n].astype(dtype) for n in ADAM_NUMBERS)
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
        shrunk = enp.maximum(state["scale"] * np.float32(self.backoff), LEAST_SCALE)
        return {
            "scale": enp.where(overflowed, shrunk, unshrunk),
            "clean": enp.where(grows, 0, clean),
        }


def numbers(optimizer: Any, *names: str) -> dict[str, np.ndarray]:
    """Return fields as float64 scalars: data that is exact for parameters of any dtype."""
    return {n: np.array(getattr(optimizer, n), np.float64) for n in names}


def working_dtype(dtype: Any) -> str:
    """Return the dtype of a step's arithmetic and moments.

    It is float32 for narrower parameters, in which 0.999 is 1.
    """
    return "float64" if str(dtype) == "float64" else "float32"


def at_least(low: float, **fields: float) -> None:
    """Raise BadOption unless each value is a finite number of at least `low`."""
    for name, value in fields.items():
        if not isinstance(value, (int, float)) or not isfinite(value) or value < low:
            raise BadOption(f"{name} must be a number of at least {low}, not {value!r}", where=name)


def counts(low: int, **fields: int) -> None:
    """Raise BadOption unless each value is an integer of at least `low`."""
    for name, value in fields.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < low:
            raise BadOption(
                f"{name} must be an integer of at least {low}, not {value!r}", where=name
            )


def below(high: float, **fields: float) -> None:
    """Raise BadOption unless each value is less than `high`."""
    for name, value in fields.items():
        if value >= high:
            raise BadOption(f"{name} must be less than {high}, not {value!r}", where=name)
