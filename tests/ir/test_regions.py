"""What a tile needs where a tensor is written in parts."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.ir.affine import Affine, var
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.kernel import Axis, Compute, Const, Kernel, Read, TensorSpec, apply
from explorer.ir.patterns.regions import Interval, propagate
from explorer.ops.kernels.loop_nest import evaluate_kernel
from tests.codegen.running import run_kernel


def interleaved(length: int) -> Kernel:
    """`y[2 i] = x[2 i] + 1` and `y[2 i + 1] = x[2 i + 1] - 1`: the odd part may be shorter."""
    computes = tuple(
        Compute(
            "y",
            (Axis("i", (length + 1 - odd) // 2),),
            apply("add", Read("x", (var("i") * 2 + odd,)), Const(1.0 - 2 * odd)),
            store=(var("i") * 2 + odd,),
        )
        for odd in (1, 0)
    )
    tensors = (TensorSpec("x", (length,)), TensorSpec("y", (length,)))
    return Kernel("interleaved", tensors, computes, ("x",), ("y",))


@pytest.mark.parametrize("length", [4, 5, 7, 9])
@pytest.mark.parametrize("tile", [1, 2, 3, 4])
def test_a_shorter_part_is_clipped_by_the_tiles_of_the_longest(length: int, tile: int) -> None:
    kernel = interleaved(length)
    x = np.arange(length, dtype=np.float32)
    got = run_kernel(kernel, Tiling((("i", tile),)), {"x": x})
    assert np.array_equal(got, evaluate_kernel(kernel, [x], {}))
    cut = tile < (length + 1) // 2
    whole = [r["i"].lo == Affine() for r in propagate(kernel, {"i": tile}).axes]
    assert whole == [not cut, not cut]


def test_a_region_holds_the_places_that_are_written_but_not_needed() -> None:
    axis = (Axis("i", 8),)
    made = tuple(
        Compute("t", axis, Read("x", (var("i"),)), store=(Affine((), n), var("i")))
        for n in range(4)
    )
    last = Compute("y", axis, Read("t", (Affine((), 1), var("i"))))
    tensors = (TensorSpec("x", (8,)), TensorSpec("t", (4, 8)), TensorSpec("y", (8,)))
    kernel = Kernel("rows", tensors, (*made, last), ("x",), ("y",))
    rows, _ = propagate(kernel, {"i": 2}).tensors["t"]
    assert rows == Interval(Affine(), 4)
