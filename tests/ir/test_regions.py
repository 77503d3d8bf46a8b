"""What a tile needs where a tensor is written in parts."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.ir.affine import Affine, var
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.kernel import Axis, Compute, Const, Kernel, Read, TensorSpec, apply
from explorer.ir.kernels.regions import Interval, propagate
from explorer.ops.interpreter.loop_nest import evaluate_kernel
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


@pytest.mark.parametrize("tile", [1, 2, 4])
@pytest.mark.parametrize("first, border", [(1, None), (3, None), (-2, 0.0), (5, 0.0)])
def test_a_running_sum_is_made_whole_of_which_a_part_is_read(
    tile: int, first: int, border: float | None
) -> None:
    """`t[n, i] = sum of x[n, j] with j <= i; y[n, k] = t[n, k + first]`, zeros past its border."""
    rows, axis = Axis("n", 3), Axis("i", 7)
    before = Read("x", (var("n"), var("i") - var("r")), 0.0)
    t = Compute("t", (rows, axis), before, (Axis("r", 7),), "sum")
    read = Read("t", (var("n"), var("k") + first), border)
    y = Compute("y", (rows, Axis("k", 4)), read)
    shapes = {"x": (3, 7), "t": (3, 7), "y": (3, 4)}
    tensors = tuple(TensorSpec(n, s) for n, s in shapes.items())
    kernel = Kernel("part", tensors, (t, y), ("x",), ("y",))
    assert propagate(kernel, {"n": 1, "k": tile}).axes[0]["i"] == Interval(Affine(), 7)
    x = np.arange(21, dtype=np.float32).reshape(3, 7)
    got = run_kernel(kernel, Tiling((("n", 1), ("k", tile))), {"x": x})
    assert np.array_equal(got, evaluate_kernel(kernel, [x], {}))
