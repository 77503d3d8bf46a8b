"""The backward rule of an operator, held against finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.course.exercise import Check, Exercise, require


def _loss(x: np.ndarray, g: np.ndarray) -> float:
    shifted = x - x.max(-1, keepdims=True)
    e = np.exp(shifted)
    return float((e / e.sum(-1, keepdims=True) * g).sum())


def _differences(x: np.ndarray, g: np.ndarray, step: float = 1e-6) -> np.ndarray:
    found = np.zeros_like(x)
    for at in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[at] += step
        down[at] -= step
        found[at] = (_loss(up, g) - _loss(down, g)) / (2 * step)
    return found


def _hold(answer: Any, x: np.ndarray, g: np.ndarray) -> None:
    got = np.asarray(answer(x, g))
    require(got.shape == x.shape, f"the gradient is {got.shape}, and x is {x.shape}")
    off = float(np.abs(got - _differences(x, g)).max())
    require(off < 1e-5, f"x of shape {x.shape}: off by {off:.2g} from finite differences")


def _row(answer: Any, seed: int) -> None:
    _hold(answer, np.array([[0.0, 1.0, -1.0]]), np.array([[1.0, 0.0, 0.0]]))


def _random(answer: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for shape in ((1, 1), (2, 3), (4, 7)):
        _hold(answer, rng.normal(size=shape), rng.normal(size=shape))


def _large(answer: Any, seed: int) -> None:
    x, g = np.array([[1000.0, 999.0, -1000.0]]), np.array([[1.0, -1.0, 2.0]])
    with np.errstate(all="ignore"):
        got = np.asarray(answer(x, g))
    require(bool(np.isfinite(got).all()), f"for x = {x[0].tolist()} it gives {got[0].tolist()}")
    _hold(answer, x, g)


EXERCISE = Exercise(
    name="vjp",
    chapter="11_training",
    title="The backward rule of softmax",
    goal="Write `softmax_vjp(x, g)`: for y = softmax(x) along the last axis and a gradient "
    "g of y, the "
    "gradient of x, in NumPy. Nothing of the size of rows times rows is made, and large x do not "
    "overflow.",
    answer="softmax_vjp",
    stub='''\
import numpy as np


def softmax_vjp(x, g):
    """The gradient of x, where g is that of y = softmax(x) along the last axis."""
    raise NotImplementedError
''',
    solution='''\
import numpy as np


def softmax_vjp(x, g):
    """The gradient of x, where g is that of y = softmax(x) along the last axis."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    y = e / e.sum(axis=-1, keepdims=True)
    return y * (g - (g * y).sum(axis=-1, keepdims=True))
''',
    hints=(
        "dy_i / dx_j is y_i * ([i = j] - y_j).",
        "Multiply by g_i and sum over i: two terms, and the second one has a number per row.",
        "Take the largest x of a row from all of them first: softmax does not change.",
    ),
    checks=(
        Check("one row by finite differences", 1, _row),
        Check("random rows by finite differences", 2, _random),
        Check("large values", 1, _large),
        Check("other rows", 1, lambda answer, seed: _random(answer, seed + 1), True),
    ),
    exit_question="Which values of the forward pass must be kept for this, x or y?",
)
