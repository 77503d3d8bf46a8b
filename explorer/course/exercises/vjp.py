"""Exercise: the backward rule of an operator as a program, checked by finite differences."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from explorer.compiler import compile
from explorer.course.exercise import Check, Exercise, require
from explorer.frontends.load import load
from explorer.ir.program import Program
from explorer.ir.shapes.dims import evaluate_dim


def _loss(x: np.ndarray, g: np.ndarray) -> float:
    shifted = x - x.max(-1, keepdims=True)
    e = np.exp(shifted)
    return float((e / e.sum(-1, keepdims=True) * g).sum())


def _finite_differences(x: np.ndarray, g: np.ndarray, step: float = 1e-6) -> np.ndarray:
    gradient = np.zeros_like(x)
    for at in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[at] += step
        down[at] -= step
        gradient[at] = (_loss(up, g) - _loss(down, g)) / (2 * step)
    return gradient


def _check_gradient(c: Any, x: np.ndarray, g: np.ndarray) -> None:
    got = _gradient(c, x, g)
    require(got.shape == x.shape, f"the gradient is {got.shape}, and x is {x.shape}")
    off = float(np.abs(got - _finite_differences(x, g)).max())
    require(off < 1e-4, f"x of shape {x.shape}: off by {off:.2g} from finite differences")


def _gradient(c: Any, x: np.ndarray, g: np.ndarray) -> np.ndarray:
    return np.asarray(next(iter(c.run(x.astype(np.float32), g.astype(np.float32)).values())))


def _check_one_row(answer: Any, seed: int) -> None:
    c = compile(load(answer))
    _check_gradient(c, np.array([[0.0, 1.0, -1.0]]), np.array([[1.0, 0.0, 0.0]]))


def _check_random_rows(answer: Any, seed: int) -> None:
    c = compile(load(answer))
    rng = np.random.default_rng(seed)
    for shape in ((1, 1), (2, 3), (4, 7)):
        _check_gradient(c, rng.normal(size=shape), rng.normal(size=shape))


def _check_large_values(answer: Any, seed: int) -> None:
    c = compile(load(answer))
    x, g = np.array([[1000.0, 999.0, -1000.0]]), np.array([[1.0, -1.0, 2.0]])
    got = _gradient(c, x, g)
    require(bool(np.isfinite(got).all()), f"for x = {x[0].tolist()} it gives {got[0].tolist()}")
    _check_gradient(c, x, g)


def _check_work(answer: Any, seed: int) -> None:
    """Check the gradient, and that rows of twice the length take at most twice the work."""
    _check_one_row(answer, seed)
    program = compile(load(answer), until="planned").program
    rows, n = map(str, program.main.params[0].tensor.dims)
    once, twice = (_points(program, {rows: 3, n: long}) for long in (64, 128))
    require(
        twice <= 2 * once,
        f"the innermost lines run {once:,} times for rows of 64 and {twice:,} times for rows of "
        "128: more than twice as often",
    )


def _points(program: Program, sizes: dict[str, int]) -> int:
    """Return how often the innermost line of any loop nest runs."""
    return sum(
        prod(evaluate_dim(a.extent, sizes) for a in (*c.axes, *c.reduce))
        for call in program.kernel_calls
        for c in call.kernel_call.kernel.computes
    )


EXERCISE = Exercise(
    name="vjp",
    chapter="11_training",
    title="The backward rule of softmax",
    goal="Write `softmax_vjp(x, g)` as a program. For y = softmax(x) along the last axis and a "
    "gradient g of y, it returns the gradient of x. Rows of twice the length must not take "
    "more than twice the work, and large x must not overflow. It is compiled like any other "
    "program, for every size: `widgets.explore(softmax_vjp)` shows which of your operators "
    "became one kernel.",
    answer="softmax_vjp",
    stub='''\
import explorer
from explorer import np as enp
from explorer import tensor


@explorer.trace
def softmax_vjp(x: tensor("float32", "rows", "n"), g: tensor("float32", "rows", "n")):
    """Return the gradient of x, where g is that of y = softmax(x) along the last axis."""
    raise NotImplementedError
''',
    solution='''\
import explorer
from explorer import np as enp
from explorer import tensor


@explorer.trace
def softmax_vjp(x: tensor("float32", "rows", "n"), g: tensor("float32", "rows", "n")):
    """Return the gradient of x, where g is that of y = softmax(x) along the last axis."""
    e = enp.exp(x - x.max(axis=-1, keepdims=True))
    y = e / e.sum(axis=-1, keepdims=True)
    return y * (g - (g * y).sum(axis=-1, keepdims=True))
''',
    hints=(
        "dy_i / dx_j is y_i * ([i = j] - y_j).",
        "Multiply by g_i and sum over i. This gives two terms, and the second one contains one "
        "number per row.",
        "First subtract from each row its largest x: softmax does not change.",
    ),
    checks=(
        Check("one row by finite differences", 1, _check_one_row),
        Check("random rows by finite differences", 1, _check_random_rows),
        Check("large values", 1, _check_large_values),
        Check("work that grows as x does", 1, _check_work),
        Check("other rows", 1, lambda answer, seed: _check_random_rows(answer, seed + 1), True),
    ),
    exit_question="Which value of the forward pass must be kept for this, x or y?",
)
