"""What is a store with a combiner, and that it means what the same reduction means."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from explorer.errors import VerifyError
from explorer.ir.affine import var
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernel import Apply, Axis, Compute, Expr, Kernel, Read, TensorSpec, axes
from explorer.ir.kernels.normal import normalise
from explorer.ir.kernels.scatter import scatter, scattered
from explorer.ir.text.tile_printer import print_tile_program
from explorer.ir.tile_program import At, For, Map
from explorer.ir.tile_traversal import statements
from explorer.ops.interpreter.evaluate import evaluate_kernel
from explorer.ops.verify_kernel import verify_kernel
from explorer.tile.lowering.lower import lower


def gradient(
    rows: int, width: int, count: int, dtype: str = "float32", combiner: str = "sum"
) -> Kernel:
    """`y[ids[r], j]` combines `dy[r, j]`."""
    a, r = axes("a", (rows, width)), Axis("r", count)
    place = Read("ids", (var("r"),))
    expr = scattered(Read("dy", (var("r"), var("a1"))), [(a[0], place)], combiner, dtype)
    specs = (
        TensorSpec("ids", (count,), "int64"),
        TensorSpec("dy", (count, width), dtype),
        TensorSpec("y", (rows, width), dtype),
    )
    compute = Compute("y", a, expr, (r,), combiner)
    return Kernel("gradient", specs, (compute,), ("ids", "dy"), ("y",))


def compared(expr: Expr) -> Expr:
    """The expression with no more than a comparison in place of each landing."""
    match expr:
        case Apply("lands", (place, here)):
            return Apply("eq", (place, here))
        case Apply(op, args):
            return Apply(op, tuple(map(compared, args)))
    return expr


@pytest.mark.parametrize("combiner", ("sum", "prod", "max", "min"))
@pytest.mark.parametrize("dtype", ("float32", "float64", "int32", "uint8"))
def test_a_scatter_means_what_the_reduction_means(dtype: str, combiner: str) -> None:
    rng = np.random.default_rng(0)
    kernel = gradient(7, 5, 31, dtype, combiner)
    (c,) = kernel.computes
    plain = replace(kernel, computes=(replace(c, expr=compared(c.expr)),))
    assert scatter(kernel, c) is not None and scatter(plain, plain.computes[0]) is None
    ids, dy = rng.integers(-3, 11, 31), rng.integers(0, 9, (31, 5)).astype(dtype)
    if dtype.startswith("float"):
        dy[3], dy[4] = np.nan, -0.0
    found, wanted = (evaluate_kernel(k, [ids, dy], {}) for k in (kernel, plain))
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.signbit(found.astype(float)), np.signbit(wanted.astype(float)))


def test_what_would_be_rounded_each_time_is_no_scatter() -> None:
    for dtype in ("float16", "bfloat16"):
        kernel = gradient(7, 5, 31, dtype)
        assert scatter(kernel, kernel.computes[0]) is None


def test_what_begins_with_something_is_no_scatter() -> None:
    """Each result would combine it with every update that lands elsewhere."""
    kernel = gradient(7, 5, 31, combiner="max")
    assert scatter(kernel, replace(kernel.computes[0], combiner="sum")) is None


def test_a_place_that_depends_on_its_own_axis_is_no_scatter() -> None:
    kernel = gradient(7, 5, 31)
    a, place = kernel.computes[0].axes, Read("ids", (var("a0"),))
    expr = scattered(Read("dy", (var("r"), var("a1"))), [(a[0], place)], "sum", "float32")
    assert scatter(kernel, replace(kernel.computes[0], expr=expr)) is None


def test_a_second_condition_on_an_axis_chooses_updates() -> None:
    """Both indices must name the result."""
    kernel = gradient(7, 5, 31)
    a, place = kernel.computes[0].axes, Read("ids", (var("r"),))
    both = [(a[0], place), (a[0], Apply("mod", (place, place)))]
    expr = scattered(Read("dy", (var("r"), var("a1"))), both, "sum", "float32")
    c = replace(kernel.computes[0], expr=expr)
    found = scatter(kernel, c)
    assert found is not None and [x.name for x, _ in found.places] == ["a0"]
    ids, dy = np.arange(31) % 7 + 1, np.ones((31, 5), np.float32)
    y = evaluate_kernel(replace(kernel, computes=(c,)), [ids, dy], {})
    np.testing.assert_array_equal(y, 0)


def test_a_landing_is_of_whole_numbers() -> None:
    kernel = gradient(7, 5, 31)
    (c,) = kernel.computes
    x = Read("dy", (var("r"), var("a1")))
    wrong = replace(c, expr=Apply("where", (Apply("lands", (x, x)), x, x)))
    with pytest.raises(VerifyError, match="lands"):
        verify_kernel(replace(kernel, computes=(wrong,)))
    verify_kernel(kernel)


def test_a_task_passes_over_all_updates_once_and_keeps_its_own() -> None:
    program = lower(normalise(gradient(7, 5, 31)), Tiling((("a0", 3),)), ShapeEnv())
    begin, loop = program.body
    assert isinstance(begin, Map) and isinstance(loop, For)
    assert loop.span.size == 31
    (inside,) = loop.body
    assert isinstance(inside, At) and inside.span.size == 3 and inside.span.clip_high
    assert [type(s).__name__ for s in statements(program.body)] == ["Map", "For", "At", "Map"]
    assert print_tile_program(program)[1:] == (
        "y[a0*5 + a1] = 0.0 for a0 in t_a0 .. min(t_a0 + 3, 7), a1 < 5",
        "for r < 31:",
        "    at a0 in t_a0 .. min(t_a0 + 3, 7) if it is ids[r]:",
        "        y[a0*5 + a1] = y[a0*5 + a1] + dy[a1 + r*5] for a1 < 5",
    )
