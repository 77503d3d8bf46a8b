"""A step of training as one function: loss, gradients, and the update that data may skip."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol

import numpy as np

import explorer.np as enp
from explorer.errors import BadOption, ShapeError
from explorer.frontends.tracing.control.scans import scan
from explorer.gradients import value_and_grad
from explorer.training.optimizers.checks import at_least, counts, working_dtype
from explorer.training.optimizers.loss_scale import LossScale
from explorer.training.tree import each, leaves

FEW_BITS = ("bfloat16", "float16")
FLOATS = ("float32", "float64", *FEW_BITS)
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


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a step computes. `loss(params, *batch)` is a scalar; `scale` scales it, `clip_norm`
    bounds the norm of all gradients together. The batch is taken in `parts` of equal size, one
    after the other in one loop of the program; gradients are the mean of theirs. With a
    `precision` ("bfloat16" or "float16") the loss is computed of parameters and data of so few
    bits, and the parameters themselves keep theirs.
    """

    loss: Callable[..., Any]
    scale: LossScale | None = None
    clip_norm: float | None = None
    parts: int = 1
    precision: str = ""

    def __post_init__(self) -> None:
        counts(1, parts=self.parts)
        if self.clip_norm is not None:
            at_least(0.0, clip_norm=self.clip_norm)
        if self.precision not in ("", *FEW_BITS):
            raise BadOption(
                f"there is no precision {self.precision!r}",
                where="precision",
                expected=", ".join(FEW_BITS),
            )


def train_step(
    loss: Callable[..., Any],
    optimizer: Optimizer,
    scale: LossScale | None = None,
    clip_norm: float | None = None,
    parts: int = 1,
    precision: str = "",
) -> Callable[..., Any]:
    """A function of parameters, state, numbers and a batch, that gives parameters, state and loss
    after one step (`Recipe` says what the others mean). It is traced and compiled like any other.

    Where an element of a gradient is NaN or infinite, parameters, moments and the counter of steps
    stay as they were: by `where`, not by a read of the host or a product with 0. The first state is
    that of `first_state`, the numbers are `optimizer.numbers`; where they hold a "key", the loss is
    given it too, for `dropout`.
    """
    return step_of(Recipe(loss, scale, clip_norm, parts, precision), optimizer)


def step_of(recipe: Recipe, optimizer: Optimizer) -> Callable[..., Any]:
    """The same of a recipe."""

    def step(params: Any, state: Any, numbers: Any, *batch: Any) -> Any:
        factor = state["scale"]["scale"] if recipe.scale is not None else None
        value, made, found = gradients_of(recipe, params, factor, numbers, batch)
        after = dict(state)
        params, after["optimizer"] = optimizer.update(
            params, made, state["optimizer"], numbers, found
        )
        if recipe.scale is not None:
            after["scale"] = recipe.scale.update(state["scale"], found)
        return params, after, value

    return step


def gradients_of(
    recipe: Recipe, params: Any, factor: Any, numbers: Any, batch: tuple[Any, ...]
) -> tuple[Any, Any, Any]:
    """The loss, its gradients, and whether one of them is NaN or infinite; `factor` is that of the
    loss, where it is scaled.
    """
    value, made = scaled_gradients(recipe, params, factor, numbers, batch)
    made = unscaled(recipe, made, factor)
    found = not_finite(made)
    if recipe.clip_norm is not None:
        made = clipped(made, recipe.clip_norm)
    return value, made, found


def scaled_gradients(
    recipe: Recipe, params: Any, factor: Any, numbers: Any, batch: tuple[Any, ...]
) -> tuple[Any, Any]:
    """The loss, and the gradients of the scaled one."""
    if recipe.parts == 1:
        return _gradients(recipe, params, factor, numbers.get("key"), batch)
    return _in_parts(recipe, params, factor, numbers.get("key"), batch)


def unscaled(recipe: Recipe, made: Any, factor: Any) -> Any:
    """The gradients of the loss itself."""
    if recipe.scale is None:
        return made
    return each(lambda g: multiplied(g, 1 / factor), made)


def multiplied(g: Any, factor: Any) -> Any:
    """A gradient times a scalar that its own few bits may not hold."""
    dtype = working_dtype(g.dtype)
    return (g.astype(dtype) * factor.astype(dtype)).astype(g.dtype)


def _gradients(
    recipe: Recipe, params: Any, factor: Any, key: Any, batch: tuple[Any, ...]
) -> tuple[Any, Any]:
    """Of one batch: the loss, and the gradients of the scaled one."""

    def scaled_loss(params: Any, *batch: Any) -> Any:
        given = (params, *batch)
        if recipe.precision:
            given = each(lambda a: _cast(a, recipe.precision), given)
        value = recipe.loss(*given) if key is None else recipe.loss(*given, key=key)
        value = _cast(value, "float32") if recipe.precision else value
        scaled = value if recipe.scale is None else value * factor.astype(value.dtype)
        return scaled, value

    (_, value), made = value_and_grad(scaled_loss)(params, *batch)
    return value, made


def _in_parts(
    recipe: Recipe, params: Any, factor: Any, key: Any, batch: tuple[Any, ...]
) -> tuple[Any, Any]:
    """The mean over the parts of a batch, by one loop."""
    count = recipe.parts
    rows = each(lambda a: _split(a, count), batch)

    def one(so_far: Any, row: Any) -> Any:
        total, sums, at = so_far
        own = None if key is None else key * np.array([1, count]) + at * np.array([0, 1])
        value, made = _gradients(recipe, params, factor, own, row)
        sums = each(lambda s, g: s + g.astype(s.dtype), sums, made)
        return (total + value.astype(total.dtype), sums, at + 1), None

    zeros = each(lambda p: enp.zeros(p.shape, working_dtype(p.dtype)), params)
    widest = max(str(s.dtype) for s in leaves(zeros))
    (total, sums, _), _ = scan(one, (enp.zeros((), widest), zeros, 0), rows)
    return total / count, each(lambda s, p: (s / count).astype(p.dtype), sums, params)


def _split(array: Any, count: int) -> Any:
    if not array.shape or not isinstance(array.shape[0], int) or array.shape[0] % count:
        raise ShapeError(
            f"a batch is taken in {count} parts, and an array of it is {list(array.shape)}",
            expected=f"a first extent that is a multiple of {count}",
        )
    return array.reshape(count, array.shape[0] // count, *array.shape[1:])


def _cast(array: Any, dtype: str) -> Any:
    return array.astype(dtype) if str(array.dtype) in FLOATS else array


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
    wide = [g.astype(working_dtype(g.dtype)) for g in leaves(gradients)]
    norm = enp.sqrt(sum((g * g).sum() for g in wide))
    share = enp.minimum(1.0, most / (norm + LEAST_NORM))
    return each(lambda g: multiplied(g, share), gradients)
