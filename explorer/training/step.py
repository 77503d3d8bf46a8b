"""A step of training as one function: loss, gradients, and the update that data may skip."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, Protocol

import numpy as np

import explorer.np as enp
from explorer.gradients import value_and_grad
from explorer.training.optimizers.checks import at_least
from explorer.training.optimizers.loss_scale import LossScale
from explorer.training.tree import each, leaves

LEAST_NORM = 1e-6  # that gradients are divided by: PyTorch's clip_grad_norm_


class Optimizer(Protocol):
    """How parameters follow their gradients: a state of arrays, and the numbers of a step."""

    @property
    def numbers(self) -> dict[str, np.ndarray]:
        """What enters each step as data."""
        ...

    def init(self, params: Any) -> dict[str, Any]:
        """The state before the first step."""
        ...

    def update(self, params: Any, gradients: Any, state: Any, numbers: Any, found: Any) -> Any:
        """Parameters and state after a step; as they were where `found` holds."""
        ...


def train_step(
    loss: Callable[..., Any],
    optimizer: Optimizer,
    scale: LossScale | None = None,
    clip_norm: float | None = None,
) -> Callable[..., Any]:
    """A function of parameters, state, numbers and a batch, that gives parameters, state and loss
    after one step; `loss(params, *batch)` is a scalar. It is traced and compiled like any other.

    Where an element of a gradient is NaN or infinite, parameters, moments and the counter of steps
    stay as they were: by `where`, not by a read of the host or a product with 0. `scale` scales the
    loss; `clip_norm` bounds the norm of all gradients together. The first state is that of
    `first_state`, the numbers are `optimizer.numbers`; where they hold a "key", the loss is given
    it too, for `dropout`.
    """
    gradients = scaled_gradients(loss, scale is not None, clip_norm)

    def step(params: Any, state: Any, numbers: Any, *batch: Any) -> Any:
        factor = state["scale"]["scale"] if scale is not None else None
        value, made, found = gradients(params, factor, numbers, *batch)
        after = dict(state)
        params, after["optimizer"] = optimizer.update(
            params, made, state["optimizer"], numbers, found
        )
        if scale is not None:
            after["scale"] = scale.update(state["scale"], found)
        return params, after, value

    return step


def scaled_gradients(
    loss: Callable[..., Any], scaled: bool, clip_norm: float | None
) -> Callable[..., Any]:
    """A function of parameters, the factor of the loss, numbers and a batch, that gives the loss,
    its gradients, and whether one of them is NaN or infinite.
    """
    if clip_norm is not None:
        at_least(0.0, clip_norm=clip_norm)

    def gradients(params: Any, factor: Any, numbers: Any, *batch: Any) -> Any:
        keyed = {"key": numbers["key"]} if "key" in numbers else {}

        def multiplied(params: Any, *batch: Any) -> Any:
            value = loss(params, *batch, **keyed)
            return value * factor.astype(value.dtype) if scaled else value, value

        (_, value), made = value_and_grad(multiplied)(params, *batch)
        found = not_finite(made)
        if scaled:
            made = each(lambda g: g * (1 / factor).astype(g.dtype), made)
        if clip_norm is not None:
            made = clipped(made, clip_norm)
        return value, made, found

    return gradients


def first_state(optimizer: Optimizer, params: Any, scale: LossScale | None = None) -> Any:
    """The state before the first step."""
    state = {"optimizer": optimizer.init(params)}
    return state if scale is None else {**state, "scale": scale.init()}


def not_finite(gradients: Any) -> Any:
    """Whether an element of any of them is NaN or infinite: one bool."""
    flags = [enp.any(enp.logical_not(enp.isfinite(g))) for g in leaves(gradients)]
    return reduce(enp.logical_or, flags)


def clipped(gradients: Any, most: float) -> Any:
    """The gradients, scaled so that the norm of all together is at most so large."""
    norm = enp.sqrt(sum((g * g).sum() for g in leaves(gradients)))
    share = enp.minimum(1.0, most / (norm + LEAST_NORM))
    return each(lambda g: g * share.astype(g.dtype), gradients)
