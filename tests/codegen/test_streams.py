"""Results larger than the caches go past them, and rows are asked for ahead: the values stay."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from explorer.codegen.build import build_kernel, print_kernel
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import ShapeEnv
from explorer.ir.dtypes import numpy_dtype
from explorer.ir.kernel import Compute, Kernel, TensorSpec, apply, at, axes
from explorer.ops.interpreter.evaluate import evaluate_kernel
from tests.codegen.cases import layer_norm
from tests.codegen.running import run_kernel
from tests.tile.programs import HERE

SMALL = replace(
    HERE,
    levels=tuple(replace(m, capacity_bytes=m.capacity_bytes and 8) for m in HERE.levels),
)


def doubled(rows: int, columns: int, dtype: str) -> Kernel:
    """y[i, j] = x[i, j] + x[i, j]."""
    over = axes("a", (rows, columns))
    tensors = (TensorSpec("x", (rows, columns), dtype), TensorSpec("y", (rows, columns), dtype))
    compute = Compute("y", over, apply("add", at("x", over), at("x", over)))
    return Kernel("doubled", tensors, (compute,), ("x",), ("y",))


def test_only_what_no_cache_holds_goes_past_the_caches() -> None:
    large = print_kernel(
        doubled(HERE.cached_bytes >> 12, 1 << 11, "float32"), Tiling(), ShapeEnv(), HERE
    )[0]
    small = print_kernel(doubled(1 << 8, 1 << 11, "float32"), Tiling(), ShapeEnv(), HERE)[0]
    assert "past=True" in large and "fence()" in large
    assert "past=True" not in small and "fence()" not in small


@pytest.mark.parametrize("caches", [1 << 16, 1 << 20])
def test_how_large_that_is_is_what_the_largest_cache_of_the_device_holds(caches: int) -> None:
    levels = tuple(replace(m, capacity_bytes=m.capacity_bytes and caches) for m in HERE.levels)
    device = replace(HERE, levels=levels)
    assert device.cached_bytes == caches
    fits = print_kernel(doubled(1, caches // 4, "float32"), Tiling(), ShapeEnv(), device)[0]
    not_quite = print_kernel(doubled(1, caches // 4 + 1, "float32"), Tiling(), ShapeEnv(), device)
    assert "past=True" not in fits and "past=True" in not_quite[0]


def test_rows_that_are_folded_are_asked_for_a_row_ahead() -> None:
    case = layer_norm(HERE.cached_bytes >> 11, 1024, {"s0": 64})
    source = print_kernel(case.kernel, case.tiling, ShapeEnv(), HERE)[0]
    assert "ahead=4096" in source and "past=True" in source


@pytest.mark.few(8)
@pytest.mark.parametrize("columns", [1, 15, 16, 48, 61, 160])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32"])
def test_every_width_is_stored_whole(columns: int, dtype: str) -> None:
    kernel = doubled(7, columns, dtype)
    x = (10 * np.random.default_rng(0).standard_normal((7, columns))).astype(numpy_dtype(dtype))
    assert "past=True" in build_kernel(kernel, Tiling((("a0", 3),)), ShapeEnv(), SMALL).source
    got = run_kernel(kernel, Tiling((("a0", 3),)), {"x": x}, device=SMALL)
    np.testing.assert_array_equal(got, x + x)


@pytest.mark.parametrize("columns", [5, 64, 100])
def test_a_normalisation_streams_its_result(columns: int) -> None:
    case = layer_norm(9, columns, {"s0": 4})
    rng = np.random.default_rng(columns)
    values = {
        n: rng.standard_normal(tuple(map(int, case.kernel.shape(n)))).astype(np.float32)
        for n in case.kernel.inputs
    }
    values["x"][3, 0] = np.nan
    want = evaluate_kernel(case.kernel, [values[n] for n in case.kernel.inputs], {})
    got = run_kernel(case.kernel, case.tiling, values, device=SMALL)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
