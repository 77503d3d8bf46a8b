"""Right operands that lie in runs, as learnt filters do, in the panels of a micro-kernel."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.codegen.build import print_kernel
from explorer.ir.affine import var
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.kernel import Apply, Axis, Compute, Kernel, Read, TensorSpec
from explorer.ir.shapes.dims import ShapeEnv
from explorer.tile.rewriting.memory_runs import memory_runs
from tests.codegen.running import run_kernel
from tests.tile.programs import HERE

ROWS = 5


def product_with_filters(filters: str, n: int, c: int, h: int, w: int) -> Kernel:
    """`y[m, n] = sum of a[m, h, w, c] * f[...]`, the axes of `f` in the order of `filters`."""
    sizes = {"n": n, "c": c, "h": h, "w": w}
    read = Read("f", tuple(var(x) for x in filters))
    terms = Apply("mul", (Read("a", tuple(var(x) for x in "mhwc")), read))
    axes, over = (Axis("m", ROWS), Axis("n", n)), tuple(Axis(x, sizes[x]) for x in "hwc")
    compute = Compute("y", axes, terms, reduce=over, combiner="sum")
    tensors = (
        TensorSpec("a", (ROWS, h, w, c)),
        TensorSpec("f", tuple(sizes[x] for x in filters)),
        TensorSpec("y", (ROWS, n)),
    )
    return Kernel("learnt", tensors, (compute,), ("a", "f"), ("y",))


def learnt(filters: str, sizes: tuple[int, ...]) -> tuple[Kernel, Tiling, dict[str, np.ndarray]]:
    """The product in tiles of columns, and whole numbers for it, whose sums are exact."""
    n, c, h, w = sizes
    draw = np.random.default_rng(n)
    shapes = {"a": (ROWS, h, w, c), "f": tuple(dict(zip("nchw", sizes))[x] for x in filters)}
    arrays = {x: draw.integers(-4, 5, s).astype("float32") for x, s in shapes.items()}
    tiling = Tiling((("n", 32),), Micro(4, 2, 16))
    return product_with_filters(filters, n, c, h, w), tiling, arrays


CASES = tuple(
    (filters, sizes)
    for filters in ("nchw", "cnhw")  # as read forwards, and by the gradient
    for sizes in ((64, 16, 3, 3), (41, 37, 3, 2), (33, 19, 5, 5), (16, 16, 1, 4))
)


@pytest.mark.parametrize("filters, sizes", CASES)
def test_filters_come_whole_into_panels(filters: str, sizes: tuple[int, ...]) -> None:
    kernel, tiling, arrays = learnt(filters, sizes)
    got = run_kernel(kernel, tiling, arrays)
    want = np.einsum(f"mhwc,{filters}->mn", arrays["a"], arrays["f"])
    np.testing.assert_array_equal(got, want)
    assert "spread(" in print_kernel(kernel, tiling, ShapeEnv(), HERE)[0]


def test_a_run_is_found_in_any_order() -> None:
    assert memory_runs((4608, 3, 1, 9), (32, 3, 3, 512)) == (3, 1, 2)
    assert memory_runs((9, 3, 1, 4608), (32, 3, 3, 512)) == (0, 1, 2)
    assert memory_runs((9, 3, 1, 4608), ("n", 3, 3, "c")) == (0, 1, 2)
    assert memory_runs((4608, 5, 1, 15), (32, 3, 3, 512)) is None  # rows lie apart
    assert memory_runs((1, 96, 32), (32, 3, 3)) is None  # rows of panels
    assert memory_runs((512, 1), (32, 512)) is None  # turned as it lies
    assert memory_runs((147, 7, 1, 49), (64, 7, 7, 3)) is None  # too few channels for a block
