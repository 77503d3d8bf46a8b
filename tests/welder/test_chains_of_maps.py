"""Reductions with what stands before and after them: one kernel wherever each element is read
once, the same values, and no sum done twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import explorer
from explorer import np as xp
from explorer.frontends.model import Model
from explorer.frontends.python.arrays import nn
from explorer.ir.calls import KernelCall
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import evaluate_shape
from explorer.ir.kernels.contraction import contraction
from explorer.ops.interpreter.evaluate import evaluate_kernel
from explorer.welder import Options
from tests.codegen.running import run_kernel
from tests.roller.test_policy import DEVICE

SCALE, SHIFT = np.linspace(0.5, 2.0, 17, dtype=np.float32), np.full(17, 0.25, np.float32)


def moments(x: Any, axes: int | tuple[int, ...]) -> Any:
    """x less its mean over its deviation."""
    centred = x - x.mean(axis=axes, keepdims=True)
    variance = (centred * centred).mean(axis=axes, keepdims=True)
    return centred / xp.sqrt(variance + 1e-6)


def over_channels(x: Any) -> Any:
    return nn.gelu(moments(x, 1) * SCALE.reshape(1, 17, 1, 1)) + SHIFT.reshape(1, 17, 1, 1)


def over_images(x: Any) -> Any:
    return nn.relu(moments(x, (2, 3)))


def pooled(x: Any) -> Any:
    return nn.relu(x * 2.0 + 1.0).mean(axis=(2, 3))


def summed_over_rows(x: Any) -> Any:
    return xp.tanh((x * 2.0 + 1.0).sum(axis=0))


def normal_then_transposed(x: Any) -> Any:
    return xp.transpose(moments(x, -1), (0, 1, 3, 2))


CASES = [over_channels, over_images, pooled, summed_over_rows, normal_then_transposed]


@pytest.mark.few(3)
@pytest.mark.parametrize("run", CASES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_it_is_one_kernel_and_as_in_numpy(run: Callable[[Any], Any], dtype: str) -> None:
    x = np.random.default_rng(0).standard_normal((3, 17, 7, 19)).astype(dtype)
    compiled = explorer.compile(explorer.trace(run)(x=explorer.tensor(dtype, *x.shape)))
    assert len(compiled.program.kernel_calls) == 1
    (got,) = compiled.run(x).values()
    bound = 1e-5 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(got, run(x), rtol=bound, atol=bound)


def test_a_normalisation_over_channels_is_cut_along_images_and_rows() -> None:
    shape = (8, 64, 64, 64)
    model = explorer.trace(lambda x: moments(x, 1))(x=explorer.tensor("float32", *shape))
    (call,) = explorer.compile(model, DEVICE, until="ROLLED").program.kernel_calls
    assert isinstance(call.expr, KernelCall) and isinstance(call.expr.tiling, Tiling)
    channels = call.expr.kernel.computes[-1].axes[1].name
    assert call.expr.tiling.size(channels) is None


def layers(rows: int, wide: int = 16) -> Model:
    """Three products in a row, each with a shift and a clip."""
    rng = np.random.default_rng(2)
    weights = [rng.standard_normal((wide, wide)).astype(np.float32) / 4 for _ in range(3)]

    def run(x: Any) -> Any:
        for w in weights:
            x = nn.relu(x @ w + 0.5)
        return x

    model = explorer.trace(run)(x=explorer.tensor("float32", rows, wide))
    assert isinstance(model, Model)
    return model


def test_products_in_a_row_are_one_kernel_where_what_lies_between_would_go_to_memory() -> None:
    program = explorer.compile(layers(1 << 20), DEVICE, until="ROLLED").program
    (call,) = program.kernel_calls
    assert isinstance(call.expr, KernelCall)
    assert sum(contraction(c) is not None for c in call.expr.kernel.computes) == 3


def test_products_in_a_row_stay_apart_where_a_cache_holds_what_lies_between() -> None:
    program = explorer.compile(layers(1 << 10), DEVICE, until="WELDED").program
    assert len(program.kernel_calls) == 3
    graph = program.decisions.tile_graph
    assert graph is not None
    reasons = [s.why.condition for g in graph.groups for s in g.steps if s.why is not None]
    assert "near" in reasons


@pytest.mark.few(1)
@pytest.mark.parametrize("rows", [1, 50, 77])
def test_a_chain_of_products_is_as_in_numpy_for_any_rows(rows: int) -> None:
    (call,) = explorer.compile(layers(1 << 20), DEVICE, until="ROLLED").program.kernel_calls
    assert isinstance(call.expr, KernelCall) and isinstance(call.expr.tiling, Tiling)
    (small,) = explorer.compile(
        layers(rows),
        DEVICE,
        until="ROLLED",
        options=explorer.Options(welder=Options(connect=between(rows))),
    ).program.kernel_calls
    assert isinstance(small.expr, KernelCall) and isinstance(small.expr.tiling, Tiling)
    kernel = small.expr.kernel
    rng = np.random.default_rng(rows)
    given = {n: rng.standard_normal(evaluate_shape(kernel.shape(n), {})) for n in kernel.inputs}
    values = {n: v.astype(np.float32) for n, v in given.items()}
    want = evaluate_kernel(kernel, [values[n] for n in kernel.inputs], {})
    tile = tuple((a, min(n, 24)) for a, n in call.expr.tiling.tile)
    for tiling in (small.expr.tiling, replace(small.expr.tiling, tile=tile)):
        got = run_kernel(kernel, tiling, values)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def between(rows: int) -> tuple[tuple[str, str], ...]:
    """Every value of the layers, handed over in L2."""
    program = explorer.compile(layers(rows), DEVICE, until="WELDED").program
    return tuple((b.var.name, "L2") for b in program.kernel_calls[:-1])
