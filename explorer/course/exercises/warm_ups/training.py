"""Warm-ups of chapter 11: backward rules, products of a gradient, checkpoints, skipped steps."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

import numpy as np

import explorer.np as enp
from explorer.compiler.pipeline import compile
from explorer.course.exercise import Check, Exercise, require
from explorer.frontends.load import load
from explorer.frontends.python.trace import trace
from explorer.frontends.python.tracing.annotations import tensor
from explorer.gradients import grad
from explorer.ir.text.program_text import print_program


def _check_centred(answer: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(6):
        size = int(rng.integers(2, 9))
        x, g = rng.normal(size=size), rng.normal(size=size)
        jacobian = np.eye(size) - 1 / size  # of x - x.mean(), row i: how y[i] depends on x
        right, got = jacobian.T @ g, answer(x, g)
        require(
            isinstance(got, np.ndarray) and got.shape == (size,),
            f"the gradient of {size} elements is {got!r}"[:200],
        )
        at = int(np.argmax(np.abs(got - right)))
        require(
            np.allclose(got, right, rtol=1e-6, atol=1e-9),
            f"{size} elements: the gradient of x[{at}] is {right[at]:.4f}, not {got[at]:.4f}",
        )


CENTRED = Exercise(
    name="centred_vjp",
    chapter="11_training",
    title="The backward rule of a mean that is subtracted",
    activity="fill in",
    minutes=4,
    goal="`y = x - x.mean()` for a vector `x`, and `g` is the gradient of `y`: how the loss "
    "changes with each `y[i]`. Each `x[j]` changes all of `y`, because it is part of the mean. "
    "Fill in the blank of this *backward rule* (a *vector-Jacobian product*): it returns the "
    "gradient of `x`.",
    answer="centred_vjp",
    stub='''\
import numpy as np


def centred_vjp(x, g):
    """Return the gradient of x, where g is that of y = x - x.mean()."""
    return g - ...
''',
    solution='''\
import numpy as np


def centred_vjp(x, g):
    """Return the gradient of x, where g is that of y = x - x.mean()."""
    return g - g.mean()
''',
    hints=(
        "If x[j] grows by a small d, y[j] grows by d - d / n, and every other y[i] falls by d / n. "
        "Multiply by g and add up.",
    ),
    checks=(Check("random vectors", 1, _check_centred),),
)


def _chain(weights: Any, x: Any) -> Any:
    for w in weights:
        x = enp.tanh(x @ w)
    return (x * x).sum()


@cache
def _count_products(layers: int, also_input: bool) -> int:
    """Return the matrix products of the gradient of a chain, after differentiation."""
    arguments: int | tuple[int, ...] = (0, 1) if also_input else 0
    types = [tensor("float32", 8, 8)] * layers, tensor("float32", 5, 8)
    model = load(trace(grad(_chain, argnums=arguments))(*types))
    text = print_program(compile(model, until="differentiated").program, digests=False)
    return sum("MatMul(" in x or ("sum[" in x and "*" in x) for x in text.splitlines())


def _check_products(answer: Any, seed: int) -> None:
    draw = Random(seed)
    for also_input in (False, True):
        for layers in draw.sample(range(1, 6), 2):
            right, got = _count_products(layers, also_input), answer(layers, also_input)
            what = "the weights and x" if also_input else "the weights"
            require(
                isinstance(got, int) and got == right,
                f"{layers} layers, gradient of {what}: {right} products, not {got!r}",
            )


PRODUCTS = Exercise(
    name="gradient_products",
    chapter="11_training",
    title="The products of a gradient",
    activity="predict",
    minutes=6,
    goal="A loss computes `x = tanh(x @ w)` for each of `layers` weights, and then the sum of "
    "`x * x`. Its gradient is taken for all weights, and if `also_input` is True for the first `x` "
    "as well. Predict how many matrix products the program of the gradient has, including the "
    "forward pass: write `product_count(layers, also_input)`. The check compiles these gradients.",
    answer="product_count",
    stub='''\
def product_count(layers, also_input):
    """Return the number of matrix products of the gradient's program."""
    raise NotImplementedError
''',
    solution='''\
def product_count(layers, also_input):
    """Return the number of matrix products of the gradient's program."""
    return 3 * layers if also_input else 3 * layers - 1
''',
    hints=(
        "A product has two factors, and the adjoint of each is a product. Which adjoints does "
        "nothing read?",
    ),
    checks=(Check("compiled gradients", 2, _check_products),),
)


def _most_live(values: int, every: int) -> int:
    """Return the most values that are live at once in the backward pass."""
    stored = set(range(0, values, every))
    most = len(stored)
    for start in sorted(stored, reverse=True):
        recomputed = range(start + 1, min(start + every, values))
        most = max(most, len(stored) + len(recomputed))
        stored.remove(start)
    return most


def _check_segments(answer: Any, seed: int) -> None:
    draw = Random(seed)
    for values in (12, 16, 36, *(draw.randint(1, 200) for _ in range(10))):
        steps = [n for n in range(1, values + 1) if values % n == 0]
        least, got = min(_most_live(values, n) for n in steps), answer(values)
        require(
            isinstance(got, int) and got in steps,
            f"{values} values: {got!r} is not one of the distances {steps}",
        )
        live = _most_live(values, got)
        require(
            live == least,
            f"{values} values, of which every {got}th is stored: {live} are live at once, and "
            f"{least} are possible",
        )


SEGMENTS = Exercise(
    name="checkpoint_distance",
    chapter="11_training",
    title="How far apart to store",
    activity="write",
    minutes=10,
    goal="The backward pass reads `values` values of the forward pass, from the last one to the "
    "first; all have the same size. Store the first and then every `d`-th of them; `d` divides "
    "`values`. The backward pass goes through the segments, from the last one to the first: it "
    "computes the `d - 1` values behind a stored one again, reads them all, and frees the "
    "segment. Write `stored_every(values)`: the `d` with the fewest values in memory at once. If "
    "several are best, return any of them.",
    answer="stored_every",
    stub='''\
def stored_every(values):
    """Return the d, a divisor of `values`, with the fewest values in memory at once."""
    raise NotImplementedError
''',
    solution='''\
def stored_every(values):
    """Return the d, a divisor of `values`, with the fewest values in memory at once."""
    divisors = [d for d in range(1, values + 1) if values % d == 0]
    return min(divisors, key=lambda d: values // d + d - 1)
''',
    hints=(
        "For 12 values and d = 4: how many are stored, and how many more are live while the last "
        "segment is read?",
        "There are `values // d` stored values, and `d - 1` computed ones of one segment.",
    ),
    checks=(Check("random numbers of values", 2, _check_segments),),
)


def _check_skipped(answer: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for trial in range(12):
        size = int(rng.integers(1, 6))
        parameter, momentum, gradient = (rng.normal(size=size) for _ in range(3))
        is_bad = trial == 0 or bool(rng.integers(2))
        if is_bad:
            gradient[rng.integers(size)] = rng.choice((np.nan, np.inf, -np.inf))
        grown = 0.9 * momentum + gradient
        right = (parameter, momentum) if is_bad else (parameter - 0.1 * grown, grown)
        got = answer(parameter, momentum, gradient)
        require(
            isinstance(got, (tuple, list))
            and len(got) == 2
            and all(isinstance(x, np.ndarray) and x.shape == (size,) for x in got),
            f"a step returns the new parameter and momentum of {size} elements, not {got!r}"[:200],
        )
        for name, before, new, want in zip(
            ("parameter", "momentum"), (parameter, momentum), got, right, strict=True
        ):
            case = f"the gradient is {_row(gradient)} and the {name} {_row(before)}"
            is_right = np.allclose(new, want, rtol=1e-9, atol=1e-12)
            require(is_right, f"{case}: it becomes {_row(new)}, and {_row(want)} is right")


def _row(array: np.ndarray) -> str:
    return f"[{', '.join(f'{x:.3f}' for x in array)}]"


SKIPPED = Exercise(
    name="skipped_step",
    chapter="11_training",
    title="A step that still counts",
    activity="find the fault",
    minutes=6,
    goal="If an element of the gradient is NaN or infinite, the step must not count: parameter and "
    "momentum stay as they were. This `guarded_step` of SGD with momentum replaces such elements "
    "by 0. The loss stays finite, but training is not the same as if the batch had been left out. "
    "Find the fault.",
    answer="guarded_step",
    stub='''\
import numpy as np


def guarded_step(parameter, momentum, gradient):
    """Return the parameter and the momentum after a step, which a bad gradient skips."""
    gradient = np.where(np.isfinite(gradient), gradient, 0)
    momentum = 0.9 * momentum + gradient
    return parameter - 0.1 * momentum, momentum
''',
    solution='''\
import numpy as np


def guarded_step(parameter, momentum, gradient):
    """Return the parameter and the momentum after a step, which a bad gradient skips."""
    is_good = np.isfinite(gradient).all()
    new = 0.9 * momentum + gradient
    updated = parameter - 0.1 * new
    return np.where(is_good, updated, parameter), np.where(is_good, new, momentum)
''',
    hints=(
        "What does a step with a gradient of 0 do to the momentum, and so to the parameter?",
        "Compute the step as if nothing had happened. Then select old or new values, all of them "
        "by the same flag.",
    ),
    checks=(Check("random steps, some of them bad", 1, _check_skipped),),
)


def _check_strided(answer: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for trial in range(12):
        stride, taps = int(rng.integers(1, 5)), int(rng.integers(1, 5))
        n = int(rng.integers(taps, taps + 12))
        if trial < 3:
            stride, taps, n = 2, 3, 7 + trial
        outputs = (n - taps) // stride + 1
        w, g = rng.normal(size=taps), rng.normal(size=outputs)
        jacobian = np.zeros((outputs, n))
        for h in range(outputs):
            jacobian[h, h * stride : h * stride + taps] = w
        right, got = g @ jacobian, answer(w, g, n, stride)
        case = f"{n} elements, {taps} weights, stride {stride}"
        require(
            isinstance(got, (list, np.ndarray))
            and len(got) == n
            and all(isinstance(x, (int, float, np.number)) for x in got),
            f"{case}: the gradient of x has {n} numbers, and it returns {got!r}"[:200],
        )
        at = int(np.argmax(np.abs(np.asarray(got, float) - right)))
        require(
            np.allclose(np.asarray(got, float), right, rtol=1e-9, atol=1e-12),
            f"{case}: the gradient of x[{at}] is {right[at]:.4f}, not {got[at]:.4f}",
        )


STRIDED = Exercise(
    name="strided_vjp",
    chapter="11_training",
    title="The gradient of a strided convolution",
    activity="write",
    minutes=20,
    goal="`y[h]` is the sum of `w[k] * x[stride * h + k]` over all `k`, for every `h` for which "
    "all these elements lie in `x`, which has `n` of them. `g` is the gradient of `y`. Write "
    "`strided_vjp(w, g, n, stride)`: the gradient of `x`, an array of `n` numbers. An element of "
    "`x` that no output reads has the gradient 0.",
    answer="strided_vjp",
    stub='''\
import numpy as np


def strided_vjp(w, g, n, stride):
    """Return the gradient of x, where g is that of y."""
    raise NotImplementedError
''',
    solution='''\
import numpy as np


def strided_vjp(w, g, n, stride):
    """Return the gradient of x, where g is that of y."""
    d_x = np.zeros(n)
    for h in range(len(g)):
        for k in range(len(w)):
            d_x[stride * h + k] += w[k] * g[h]
    return d_x
''',
    hints=(
        "Which x does y[h] read with which weight? There its g[h] goes, with the same weight.",
        "The transposed index map turns a read of x[stride * h + k] into an addition to "
        "d_x[stride * h + k].",
    ),
    checks=(Check("random convolutions", 2, _check_strided),),
)

WARM_UPS = (CENTRED, PRODUCTS, SEGMENTS, SKIPPED, STRIDED)
