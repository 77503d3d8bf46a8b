"""Maps that read along one axis and store along another: blocks transposed in registers agree with
element-by-element code.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.codegen.build import print_kernel
from explorer.ir.affine import var
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import Dim, ShapeEnv
from explorer.ir.dtypes import numpy_dtype
from explorer.ir.kernel import Apply, Axis, Compute, Expr, IndexValue, Kernel, Read, TensorSpec
from explorer.ops.interpreter.evaluate import evaluate_kernel
from tests.codegen.cases import BATCH, ENV, SEQ
from tests.codegen.running import run_kernel
from tests.examples import examples
from tests.tile.programs import HERE

X, BY_ROW, BY_COLUMN = (
    Read("x", (var("i"), var("j"))),
    Read("r", (var("i"),)),
    Read("c", (var("j"),)),
)


def mixed(expr: Expr, rows: Dim, columns: Dim, dtype: str = "float32") -> Kernel:
    """`y[j, i]` of `x[i, j]`, `r[i]`, `c[j]` and `z[j, i]`."""
    axes = (Axis("j", columns), Axis("i", rows))
    tensors = (
        TensorSpec("x", (rows, columns), dtype),
        TensorSpec("r", (rows,), dtype),
        TensorSpec("c", (columns,), dtype),
        TensorSpec("z", (columns, rows), dtype),
        TensorSpec("y", (columns, rows), dtype),
    )
    return Kernel("turned", tensors, (Compute("y", axes, expr),), ("x", "r", "c", "z"), ("y",))


def values(kernel: Kernel, rows: int, columns: int, dtype: str) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(rows * 100 + columns)
    shapes = {"x": (rows, columns), "r": (rows,), "c": (columns,), "z": (columns, rows)}
    found = {n: (rng.standard_normal(s) * 3).astype(numpy_dtype(dtype)) for n, s in shapes.items()}
    if not dtype.startswith("int"):
        found["x"].flat[-1], found["r"][0] = np.nan, np.inf
    return found


def scaled() -> Expr:
    """Everything at once: what turns, what is the same for a row or a column, what is dense."""
    inner = Apply("mul", (Apply("sub", (X, BY_ROW)), BY_COLUMN))
    return Apply("add", (inner, Apply("max", (X, Read("z", (var("j"), var("i")))))))


@pytest.mark.exhaustive
@settings(deadline=None, max_examples=examples(20, few=8))
@given(st.integers(1, 50), st.integers(1, 50), st.sampled_from(["float32", "float64", "int32"]))
def test_any_shape_is_as_in_numpy(rows: int, columns: int, dtype: str) -> None:
    kernel = mixed(scaled(), rows, columns, dtype)
    given_ = values(kernel, rows, columns, dtype)
    want = evaluate_kernel(kernel, [given_[n] for n in kernel.inputs], {})
    for tile in ((), (("j", 7),), (("j", 24),)):
        got = run_kernel(kernel, Tiling(tile), given_)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_elements_of_other_widths_turn(dtype: str) -> None:
    kernel = mixed(Apply("mul", (X, BY_COLUMN)), 37, 21, dtype)
    given_ = values(kernel, 37, 21, dtype)
    want = evaluate_kernel(kernel, [given_[n] for n in kernel.inputs], {})
    got = run_kernel(kernel, Tiling((("j", 9),)), given_)
    bound = {"float16": 2e-3, "bfloat16": 2e-2}.get(dtype, 1e-12)
    np.testing.assert_allclose(got.astype(float), want.astype(float), rtol=bound)


@pytest.mark.parametrize("sizes", [{"batch": 1, "seq": 1}, {"batch": 5, "seq": 33}])
def test_lengths_that_a_run_decides_have_masked_blocks(sizes: dict[str, int]) -> None:
    kernel = mixed(scaled(), SEQ, BATCH)
    given_ = values(kernel, sizes["seq"], sizes["batch"], "float32")
    want = evaluate_kernel(kernel, [given_[n] for n in kernel.inputs], sizes)
    got = run_kernel(kernel, Tiling(), given_, sizes, ENV)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_the_place_of_an_element_is_a_number_in_a_block_too() -> None:
    place = Apply("cast_float32", (IndexValue(var("i") * 100 + var("j")),))
    kernel = mixed(Apply("add", (X, place)), 20, 33)
    given_ = values(kernel, 20, 33, "float32")
    want = evaluate_kernel(kernel, [given_[n] for n in kernel.inputs], {})
    np.testing.assert_allclose(run_kernel(kernel, Tiling(), given_), want)


def test_a_map_of_a_transposed_operand_is_printed_in_blocks() -> None:
    source, _, _ = print_kernel(mixed(scaled(), 64, 64), Tiling(), ShapeEnv(), HERE)
    assert "order='turned'" in source and "turned=True" in source
