"""A training step as one function: loss, gradients, and an update that data may skip."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol

import numpy as np

import explorer.np as enp
from explorer.errors import BadOption, ShapeError
from explorer.frontends.python.tracing.control_flow import scan
from explorer.gradients import value_and_grad
from explorer.training.optimizers import LossScale, at_least, counts, working_dtype
from explorer.training.tree import each, leaves

FEW_BITS = ("bfloat16", "float16")
FLOATS = ("float32", "float64", *FEW_BITS)
LEAST_NORM = 1e-6  # added to the norm in the divisor: PyTorch's clip_grad_norm_


class Optimizer(Protocol):
    """An optimizer: a state of arrays, and the hyperparameters of a step."""

    @property
    def numbers(self) -> dict[str, np.ndarray]:
        """The hyperparameters that enter each step as data."""
        ...

    def init(self, params: Any) -> dict[str, Any]:
        """Return the state before the first step."""
        ...

    def update(self, params: Any, gradients: Any, state: Any, numbers: Any, overflowed: Any) -> Any:
        """Return parameters and state after a step, unchanged where `overflowed` is True."""
        ...


@dataclass(frozen=True, slots=True)
class Recipe:
    """The computation of a step.

    `loss(params, *batch)` is a scalar; `scale` scales it, `clip_norm` bounds the global norm of the
    gradients. The batch is processed in `parts` of equal size in one loop of the program; gradients
    are the mean over the parts. With a `precision` ("bfloat16" or "float16") the loss is computed
    from parameters and data of that type; the parameters themselves keep theirs.
    """

    loss: Callable[..., Any]
    scale: LossScale | None = None
    clip_norm: float | None = None
    parts: int = 1
    precision: str = ""

    def __post_init__(self) -> None:
        """Raise BadOption if a field is invalid."""
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
    """Build a function of parameters, state, numbers and a batch that runs one training step.

    It returns parameters, state and loss, and is traced and compiled like any other function.
    `Recipe` describes the other arguments. If an element of a gradient is NaN or infinite,
    parameters, moments and the step counter stay unchanged: by `where`, not by a read of the host
    or a product with 0. The first state is that of `first_state`, the numbers are
    `optimizer.numbers`; a "key" among them is passed to the loss, for `dropout`.
    """
    return step_of(Recipe(loss, scale, clip_norm, parts, precision), optimizer)


def step_of(recipe: Recipe, optimizer: Optimizer) -> Callable[..., Any]:
    """Build the step function of a recipe."""

    def step(params: Any, state: Any, numbers: Any, *batch: Any) -> Any:
        factor = state["scale"]["scale"] if recipe.scale is not None else None
        value, gradients, overflowed = gradients_of(recipe, params, factor, numbers, batch)
        after = dict(state)
        params, after["optimizer"] = optimizer.update(
            params, gradients, state["optimizer"], numbers, overflowed
        )
        if recipe.scale is not None:
            after["scale"] = recipe.scale.update(state["scale"], overflowed)
        return params, after, value

    return step


def gradients_of(
    recipe: Recipe, params: Any, factor: Any, numbers: Any, batch: tuple[Any, ...]
) -> tuple[Any, Any, Any]:
    """Return the loss, its gradients, and whether one of them is NaN or infinite.

    `factor` is the loss scale, if the loss is scaled.
    """
    value, gradients = scaled_gradients(recipe, params, factor, numbers, batch)
    gradients = unscale(recipe, gradients, factor)
    overflowed = not_finite(gradients)
    if recipe.clip_norm is not None:
        gradients = clip_gradients(gradients, recipe.clip_norm)
    return value, gradients, overflowed


def scaled_gradients(
    recipe: Recipe, params: Any, factor: Any, numbers: Any, batch: tuple[Any, ...]
) -> tuple[Any, Any]:
    """Return the loss and the gradients of the scaled loss."""
    if recipe.parts == 1:
        return _gradients(recipe, params, factor, numbers.get("key"), batch)
    return _gradients_in_parts(recipe, params, factor, numbers.get("key"), batch)


def unscale(recipe: Recipe, gradients: Any, factor: Any) -> Any:
    """Divide gradients by the loss scale."""
    if recipe.scale is None:
        return gradients
    return each(lambda g: multiply(g, 1 / factor), gradients)


def multiply(g: Any, factor: Any) -> Any:
    """Multiply a gradient by a scalar that its dtype may not represent."""
    dtype = working_dtype(g.dtype)
    return (g.astype(dtype) * factor.astype(dtype)).astype(g.dtype)


def _gradients(
    recipe: Recipe, params: Any, factor: Any, key: Any, batch: tuple[Any, ...]
) -> tuple[Any, Any]:
    """Return the loss of one batch and the gradients of the scaled loss."""

    def scaled_loss(params: Any, *batch: Any) -> Any:
        args = (params, *batch)
        if recipe.precision:
            args = each(lambda a: _cast(a, recipe.precision), args)
        value = recipe.loss(*args) if key is None else recipe.loss(*args, key=key)
        value = _cast(value, "float32") if recipe.precision else value
        scaled = value if recipe.scale is None else value * factor.astype(value.dtype)
        return scaled, value

    (_, value), gradients = value_and_grad(scaled_loss)(params, *batch)
    return value, gradients


def _gradients_in_parts(
    recipe: Recipe, params: Any, factor: Any, key: Any, batch: tuple[Any, ...]
) -> tuple[Any, Any]:
    """Return the means over the parts of a batch, computed by one loop."""
    count = recipe.parts
    rows = each(lambda a: _split(a, count), batch)

    def add_part(so_far: Any, row: Any) -> Any:
        total, sums, at = so_far
        own = None if key is None else key * np.array([1, count]) + at * np.array([0, 1])
        value, gradients = _gradients(recipe, params, factor, own, row)
        sums = each(lambda s, g: s + g.astype(s.dtype), sums, gradients)
        return (total + value.astype(total.dtype), sums, at + 1), None

    zeros = each(lambda p: enp.zeros(p.shape, working_dtype(p.dtype)), params)
    widest = max(str(s.dtype) for s in leaves(zeros))
    (total, sums, _), _ = scan(add_part, (enp.zeros((), widest), zeros, 0), rows)
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
    """Return the state before the first step."""
    state = {"optimizer": optimizer.init(params)}
    return state if scale is None else {**state, "scale": scale.init()}


def not_finite(gradients: Any) -> Any:
    """Return one bool: True if an element of any gradient is NaN or infinite."""
    flags = [enp.any(enp.logical_not(enp.isfinite(g))) for g in leaves(gradients)]
    return reduce(enp.logical_or, flags)


def clip_gradients(gradients: Any, most: float) -> Any:
    """Scale gradients such that their global norm is at most `most`."""
    wide = [g.astype(working_dtype(g.dtype)) for g in leaves(gradients)]
    norm = enp.sqrt(sum((g * g).sum() for g in wide))
    share = enp.minimum(1.0, most / (norm + LEAST_NORM))
    return each(lambda g: multiply(g, share), gradients)
