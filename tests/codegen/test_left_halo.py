"""A product whose columns are needed from before the tile on, by windows that follow it."""

import numpy as np
import pytest

from explorer.ir.affine import var
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernel import Apply, Axis, Compute, Kernel, Read, TensorSpec
from explorer.ops.interpreter.evaluate import evaluate_kernel
from tests.codegen.running import run_kernel

COLUMNS = 64


def product_then_window() -> Kernel:
    """`t = a @ b; y[n, x] = sum t[n, x + d - 1] * k[d]`, zero past the borders."""
    i, j, q, n, x, d = map(var, "ijqnxd")
    shapes = {"a": (8, 8), "b": (8, COLUMNS), "t": (8, COLUMNS), "k": (3,), "y": (8, COLUMNS)}
    one = Apply("mul", (Read("a", (i, q)), Read("b", (q, j))))
    two = Apply("mul", (Read("t", (n, x + d + (-1)), 0.0), Read("k", (d,))))
    return Kernel(
        "k",
        tuple(TensorSpec(name, shape) for name, shape in shapes.items()),
        (
            Compute("t", (Axis("i", 8), Axis("j", COLUMNS)), one, (Axis("q", 8),), "sum"),
            Compute("y", (Axis("n", 8), Axis("x", COLUMNS)), two, (Axis("d", 3),), "sum"),
        ),
        ("a", "b", "k"),
        ("y",),
    )


@pytest.mark.parametrize("tile", [1, 7, 16, 56, COLUMNS])
def test_columns_from_before_the_tile_on_are_those_of_the_whole_product(tile: int) -> None:
    kernel, random = product_then_window(), np.random.default_rng(0)
    arrays = {n: random.standard_normal(kernel.shape(n)).astype(np.float32) for n in kernel.inputs}
    right = evaluate_kernel(kernel, [arrays[n] for n in kernel.inputs], {})
    found = run_kernel(kernel, Tiling((("x", tile),), Micro(4, 1)), arrays, {}, ShapeEnv())
    np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-5)
