"""Right operands that lie in runs, as learnt filters do, in the panels of a micro-kernel: whole, or
a block of the depth at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from explorer.codegen.build import print_kernel
from explorer.ir.affine import var
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernel import Apply, Axis, Compute, Kernel, Read, TensorSpec
from explorer.tile.interpret import Interpreter
from explorer.tile.rewrites import placed_program, tile_program
from explorer.tile.rewriting.vectorise import memory_runs
from tests.codegen.running import run_kernel
from tests.tile.programs import HERE

ROWS = 5


def product_with_filters(
    filters: str, n: int, c: int, h: int, w: int, more: Mapping[str, int] | None = None
) -> Kernel:
    """`y[m, n] = sum of a[m, h, w, c] * f[...]`, the axes of `f` in the order of `filters`. There
    are `more` of its rows than are read.
    """
    sizes = {"n": n, "c": c, "h": h, "w": w}
    read = Read("f", tuple(var(x) for x in filters))
    terms = Apply("mul", (Read("a", tuple(var(x) for x in "mhwc")), read))
    axes, over = (Axis("m", ROWS), Axis("n", n)), tuple(Axis(x, sizes[x]) for x in "hwc")
    compute = Compute("y", axes, terms, reduce=over, combiner="sum")
    tensors = (
        TensorSpec("a", (ROWS, h, w, c)),
        TensorSpec("f", tuple(sizes[x] + (more or {}).get(x, 0) for x in filters)),
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


@pytest.mark.few(1)
@pytest.mark.parametrize("filters, sizes", CASES)
def test_filters_come_whole_into_panels(filters: str, sizes: tuple[int, ...]) -> None:
    kernel, tiling, arrays = learnt(filters, sizes)
    got = run_kernel(kernel, tiling, arrays)
    want = np.einsum(f"mhwc,{filters}->mn", arrays["a"], arrays["f"])
    np.testing.assert_array_equal(got, want)
    assert "spread(" in print_kernel(kernel, tiling, ShapeEnv(), HERE)[0]


def scratch_of(kernel: Kernel, tiling: Tiling) -> dict[str, int]:
    """The elements of the panels."""
    buffers = placed_program(kernel, tiling, ShapeEnv(), HERE).buffers
    return {b.name: b.size for b in buffers if b.kind == "scratch" and "panels" in b.name}


@pytest.mark.few(1)
@pytest.mark.parametrize("block", [9, 64])
@pytest.mark.parametrize("filters, sizes", CASES)
def test_a_block_of_the_depth_is_packed_at_a_time(
    filters: str, sizes: tuple[int, ...], block: int
) -> None:
    kernel, tiling, arrays = learnt(filters, sizes)
    parts = replace(tiling, depth_block=block)
    want = np.einsum(f"mhwc,{filters}->mn", arrays["a"], arrays["f"])
    np.testing.assert_array_equal(run_kernel(kernel, parts, arrays), want)
    found = np.full(want.shape, np.nan, np.float32)
    program = tile_program(kernel, parts, ShapeEnv(), HERE)
    Interpreter(program, arrays | {"y": found}, {}).run()
    np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("filters", ["nchw", "cnhw"])
def test_panels_of_one_block_alone_are_held(filters: str) -> None:
    kernel, tiling, _ = learnt(filters, (64, 16, 3, 3))
    assert scratch_of(kernel, tiling) == {"f_panels2": 32 * 144}
    assert scratch_of(kernel, replace(tiling, depth_block=80)) == {"f_panels2": 32 * 72}
    assert scratch_of(kernel, replace(tiling, depth_block=30)) == {"f_panels2": 32 * 18}
    assert scratch_of(kernel, replace(tiling, depth_block=4)) == {"f_panels2": 32 * 144}  # no part


def test_a_block_that_lies_as_panels_is_read_where_it_is() -> None:
    sizes = {"h": 4, "w": 3, "c": 8, "n": 64}
    kernel = product_with_filters("hwcn", 64, 8, 4, 3, {"w": 2})
    draw = np.random.default_rng(0)
    given = {
        "a": draw.integers(-4, 5, (ROWS, 4, 3, 8)).astype("float32"),
        "f": draw.integers(-4, 5, (4, 5, 8, 64)).astype("float32"),
    }
    tiling = Tiling((("n", 32),), Micro(4, 2, 16), depth_block=3 * 8)
    assert not scratch_of(kernel, tiling)
    assert scratch_of(kernel, replace(tiling, depth_block=0))
    want = np.einsum("mhwc,hwcn->mn", given["a"], given["f"][:, : sizes["w"]])
    np.testing.assert_array_equal(run_kernel(kernel, tiling, given), want)


def test_a_run_is_found_in_any_order() -> None:
    assert memory_runs((4608, 3, 1, 9), (32, 3, 3, 512)) == (3, 1, 2)
    assert memory_runs((9, 3, 1, 4608), (32, 3, 3, 512)) == (0, 1, 2)
    assert memory_runs((9, 3, 1, 4608), ("n", 3, 3, "c")) == (0, 1, 2)
    assert memory_runs((4608, 5, 1, 15), (32, 3, 3, 512)) is None  # rows lie apart
    assert memory_runs((1, 96, 32), (32, 3, 3)) is None  # rows of panels
    assert memory_runs((512, 1), (32, 512)) is None  # turned as it lies
    assert memory_runs((147, 7, 1, 49), (64, 7, 7, 3)) is None  # too few channels for a block
