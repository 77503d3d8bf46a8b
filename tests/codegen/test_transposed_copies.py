"""Transposed copies of elements of every size, in blocks and at their edges."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.codegen.build import print_kernel
from explorer.ir.affine import var
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dtypes import numpy_dtype
from explorer.ir.kernel import Axis, Compute, Kernel, Read, TensorSpec
from explorer.ir.shapes.dims import ShapeEnv
from tests.codegen.running import run_kernel
from tests.tile.programs import HERE

DTYPES = ("bool", "uint8", "int16", "float16", "bfloat16", "int32", "float32", "int64", "float64")


@pytest.mark.parametrize("dtype", DTYPES)
def test_turned_copies_move_every_bit(dtype: str) -> None:
    for h, w in ((33, 19), (16, 16), (7, 40), (1, 17), (64, 3)):
        axes = (Axis("i", w), Axis("j", h))
        read = Read("x", (var("j"), var("i")))
        specs = (TensorSpec("x", (h, w), dtype), TensorSpec("y", (w, h), dtype))
        kernel = Kernel("turn", specs, (Compute("y", axes, read),), ("x",), ("y",))
        tiling = Tiling((("i", 20),))
        count = numpy_dtype(dtype).itemsize * h * w
        bits = np.random.default_rng(0).integers(0, 256, count).astype(np.uint8)
        x = (bits & 1 if dtype == "bool" else bits).view(numpy_dtype(dtype)).reshape(h, w)
        got = run_kernel(kernel, tiling, {"x": x})
        np.testing.assert_array_equal(
            got.view(np.uint8), np.ascontiguousarray(x.T).view(np.uint8), strict=True
        )
    assert "turn" in print_kernel(kernel, tiling, ShapeEnv(), HERE)[0]
