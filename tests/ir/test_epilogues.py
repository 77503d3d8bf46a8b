"""Who follows a compute point by point, and takes its axes, reads all that it writes."""

import numpy as np

from explorer.ir.affine import var
from explorer.ir.kernel import Axis, Compute, Kernel, Read, TensorSpec
from explorer.ir.kernels.normal import align, epilogue_of
from explorer.ops.interpreter.loop_nest import evaluate_kernel

X = np.arange(14, dtype=np.float32)


def tiles_then(count: int) -> Kernel:
    """`t[i*7 + j] = x[i, j]`, and `y[k] = t[k]` for the first `count`."""
    i, j, k = var("i"), var("j"), var("k")
    return Kernel(
        "k",
        (TensorSpec("x", (2, 7)), TensorSpec("t", (14,)), TensorSpec("y", (count,))),
        (
            Compute("t", (Axis("i", 2), Axis("j", 7)), Read("x", (i, j)), store=(i * 7 + j,)),
            Compute("y", (Axis("k", count),), Read("t", (k,))),
        ),
        ("x",),
        ("y",),
    )


def test_a_reader_of_everything_is_an_epilogue_and_takes_the_axes() -> None:
    kernel = align(tiles_then(14))
    assert len(kernel.computes[1].axes) == 2
    np.testing.assert_array_equal(evaluate_kernel(kernel, [X.reshape(2, 7)], {}), X)


def test_a_reader_of_a_part_keeps_its_axes() -> None:
    kernel = tiles_then(11)
    assert epilogue_of(kernel, kernel.computes[0]) is None
    found = evaluate_kernel(align(kernel), [X.reshape(2, 7)], {})
    np.testing.assert_array_equal(found, X[:11])
