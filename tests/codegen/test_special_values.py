"""Infinities, NaN and accuracy: generated code means what NumPy means."""

from __future__ import annotations

import math

import numpy as np
import pytest

from explorer.ir.decisions.tiling import Tiling
from explorer.ir.kernel import Apply, Axis, Compute, Const, Kernel, TensorSpec, at, axes
from explorer.ops.interpreter.evaluate import evaluate_kernel
from tests.codegen.cases import softmax_computes
from tests.codegen.running import run_kernel

SPECIAL = np.array(
    [
        np.nan,
        np.inf,
        -np.inf,
        0.0,
        -0.0,
        1.0,
        -1.0,
        88.7,
        88.8,
        -87.3,
        -87.4,
        104,
        -104,
        1e30,
        -1e30,
    ]
    + [x / 7 for x in range(-700, 700, 3)],
    np.float32,
)
ERF = np.vectorize(math.erf, otypes=[np.float64])
EXACT = {
    "exp": np.exp,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "erf": ERF,
    "sqrt": np.sqrt,
    "log": np.log,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.round,
    "abs": np.abs,
    "neg": np.negative,
    "sign": np.sign,
    "sin": np.sin,
    "cos": np.cos,
}


def pointwise(op: str, *consts: float) -> Kernel:
    a = axes("a", (len(SPECIAL),))
    value = Apply(op, (at("x", a), *(Const(c) for c in consts)))
    tensors = (TensorSpec("x", (len(SPECIAL),)), TensorSpec("y", (len(SPECIAL),)))
    return Kernel(op, tensors, (Compute("y", a, value),), ("x",), ("y",))


@pytest.mark.parametrize("op", EXACT)
def test_functions_keep_infinities_and_nan_and_are_accurate(op: str) -> None:
    got = run_kernel(pointwise(op), Tiling(), {"x": SPECIAL}).astype(np.float64)
    x = SPECIAL.astype(np.float64)
    if op in ("sin", "cos"):
        x = np.where(np.abs(x) < 1e6, x, 0.0)
        got = np.where(np.abs(SPECIAL) < 1e6, got, EXACT[op](np.zeros(1))[0])
    with np.errstate(all="ignore"):
        want = EXACT[op](x).astype(np.float32).astype(np.float64)
    assert np.array_equal(np.isnan(got), np.isnan(want))
    assert np.array_equal(np.isinf(got), np.isinf(want))
    fine = np.isfinite(want)
    tiny = np.finfo(np.float32).tiny
    bound = 4 * np.spacing(np.abs(want[fine]).astype(np.float32)) + 2 * tiny
    if op in ("tanh", "erf", "sigmoid"):
        bound = bound + 1e-7
    assert (np.abs(got[fine] - want[fine]) <= bound).all()


@pytest.mark.parametrize("op", ["max", "min"])
@pytest.mark.parametrize("limit", [0.0, 6.0])
def test_a_bound_keeps_nan(op: str, limit: float) -> None:
    got = run_kernel(pointwise(op, limit), Tiling(), {"x": SPECIAL})
    want = (np.maximum if op == "max" else np.minimum)(SPECIAL, np.float32(limit))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("combiner", ["max", "min", "sum", "prod"])
def test_a_reduction_means_what_numpy_means(combiner: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((6, 37)).astype(np.float32)
    x[1, 5], x[2, 7], x[3, 36], x[4] = np.nan, np.inf, -np.inf, -np.inf
    a, r = axes("a", (6,)), Axis("r", 37)
    tensors = (TensorSpec("x", (6, 37)), TensorSpec("y", (6,)))
    kernel = Kernel(
        "r", tensors, (Compute("y", a, at("x", (*a, r)), (r,), combiner),), ("x",), ("y",)
    )
    got = run_kernel(kernel, Tiling((("a0", 2),)), {"x": x})
    with np.errstate(all="ignore"):
        want = getattr(np, combiner)(x, axis=1)
    np.testing.assert_allclose(got, want, rtol=1e-4)


def test_masked_rows_of_a_softmax_are_exact_zeros() -> None:
    x = np.random.default_rng(0).standard_normal((5, 33)).astype(np.float32)
    x[:, 20:] = -np.inf
    x[4] = -np.inf
    lead, r = axes("s", (5,)), Axis("r", 33)
    shapes = {"x": (5, 33), "y_max": (5,), "y_exp": (5, 33), "y_sum": (5,), "y": (5, 33)}
    tensors = tuple(TensorSpec(n, s) for n, s in shapes.items())
    kernel = Kernel("softmax", tensors, softmax_computes("x", "y", lead, r), ("x",), ("y",))
    got = run_kernel(kernel, Tiling((("s0", 2),)), {"x": x})
    assert (got[:4, 20:] == 0).all()
    assert np.isnan(got[4]).all()  # as in NumPy: the maximum is -inf, and -inf - -inf is NaN
    with np.errstate(all="ignore"):
        want = evaluate_kernel(kernel, [x], {})
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-7)
