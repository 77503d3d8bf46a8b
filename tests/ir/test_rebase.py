"""Kernels at other places of their tensors are one kernel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from explorer.codegen.build import print_kernel
from explorer.ir.affine import var
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import ShapeEnv, SymbolBound, symbol
from explorer.ir.kernel import Axis, Compute, Kernel, Read, TensorSpec, apply
from explorer.ir.kernels.canonical import canonical
from explorer.ir.kernels.rebase import rebased
from tests.codegen.running import run_kernel
from tests.tile.programs import HERE

ROWS, COLUMNS = Axis("i", 2), Axis("j", 5)


def rows(start: int, to: int = 0, extent: int = 9, updates: str = "") -> Kernel:
    """`y[i + to, j] = x[i + start, j] + x[i + start + 1, j]`."""
    i, j = var("i"), var("j")
    both = apply("add", Read("x", (i + start, j)), Read("x", (i + start + 1, j)))
    tensors = [TensorSpec("x", (extent, 5)), TensorSpec("y", (7, 5))]
    inputs = ["x"]
    if updates:
        tensors.append(TensorSpec(updates, (7, 5)))
        inputs.append(updates)
    made = Compute("y", (ROWS, COLUMNS), both, store=(i + to, j))
    over = (("y", updates),) if updates else ()
    return Kernel("rows", tuple(tensors), (made,), tuple(inputs), ("y",), updates=over)


def test_a_kernel_begins_at_the_front_and_says_where_that_is() -> None:
    found = rebased(rows(3, 4))
    assert found.offsets == {"x": 15, "y": 20}
    assert found.kernel.shape("x") == (3, 5) and found.kernel.shape("y") == (2, 5)
    assert found.kernel.computes == rows(0).computes or found.kernel.computes[0].is_plain


def test_rows_of_any_place_have_one_code() -> None:
    texts = {
        print_kernel(rows(a, b, n), Tiling(), ShapeEnv(), HERE)[0]
        for a, b, n in ((0, 0, 9), (3, 4, 9), (6, 5, 80))
    }
    assert len(texts) == 1
    assert canonical(rows(2))[0] == canonical(rows(5))[0]


@pytest.mark.parametrize(("start", "to"), [(0, 0), (3, 4), (6, 5)])
def test_each_reads_and_writes_at_its_own_place(start: int, to: int) -> None:
    x = np.random.default_rng(0).standard_normal((9, 5)).astype(np.float32)
    y = run_kernel(rows(start, to), Tiling(), {"x": x})
    np.testing.assert_array_equal(y[to : to + 2], x[start : start + 2] + x[start + 1 : start + 3])


def test_what_is_read_past_its_border_stays() -> None:
    i = var("i")
    padded = Compute("y", (ROWS,), Read("x", (i + 1,), 0.0))
    kernel = Kernel(
        "pad", (TensorSpec("x", (2,)), TensorSpec("y", (2,))), (padded,), ("x",), ("y",)
    )
    assert rebased(kernel).kernel is kernel


def test_memory_under_two_names_begins_at_one_place() -> None:
    i, j = var("i"), var("j")
    made = Compute("y", (ROWS, COLUMNS), Read("x", (i + 1, j)), store=(i + 3, j))
    tensors = (TensorSpec("x", (7, 5)), TensorSpec("y", (7, 5)))
    kernel = Kernel("rows", tensors, (made,), ("x",), ("y",), updates=(("y", "x"),))
    found = rebased(kernel)
    assert found.offsets == {"x": 5, "y": 5}
    assert found.kernel.shape("x") == found.kernel.shape("y") == (4, 5)
    assert found.kernel.computes[0].target == (i + 2, j)
    assert rebased(rows(1, 2, updates="so_far")).offsets == {"x": 5, "y": 10}


def test_a_place_may_be_a_symbol() -> None:
    n = symbol("n")
    i, j = var("i"), var("j")
    tensors = (TensorSpec("x", (3 * n, 5)), TensorSpec("y", (n, 5)))
    made = Compute("y", (Axis("i", n), COLUMNS), Read("x", (i + 2 * n, j)))
    kernel = Kernel("rows", tensors, (made,), ("x",), ("y",))
    assert rebased(kernel).offsets == {"x": 10 * n}
    x = np.arange(60, dtype=np.float32).reshape(12, 5)
    env = ShapeEnv((SymbolBound("n", 1, 8, 4),))
    np.testing.assert_array_equal(run_kernel(kernel, Tiling(), {"x": x}, {"n": 4}, env), x[8:])


def test_a_place_read_and_the_next_one_written_begin_at_the_first_whatever_the_symbol_is() -> None:
    n, i, j = symbol("n"), var("i"), var("j")

    def step(t: int) -> Kernel:
        tensors = (TensorSpec("x", (9 * n, 5)), TensorSpec("y", (9 * n, 5)))
        read = apply("tanh", Read("x", (i + t * n, j)))
        made = Compute("y", (Axis("i", n), COLUMNS), read, store=(i + (t + 1) * n, j))
        return Kernel("step", tensors, (made,), ("x",), ("y",), updates=(("y", "x"),))

    env = ShapeEnv((SymbolBound("n", 1, 8, 4),))
    texts = {print_kernel(step(t), Tiling(), env, HERE)[0] for t in range(8)}
    assert len(texts) == 1
    assert rebased(step(2)).offsets == {"x": 10 * n, "y": 10 * n}
    for size in (1, 3):
        memory = np.random.default_rng(0).standard_normal((9 * size, 5)).astype(np.float32)
        found = run_kernel(step(2), Tiling(), {"x": memory}, {"n": size}, env)
        expected = np.tanh(memory[2 * size : 3 * size])
        np.testing.assert_allclose(found[3 * size : 4 * size], expected, rtol=1e-5)


def test_places_that_no_proof_orders_stay() -> None:
    n, m, i, j = symbol("n"), symbol("m"), var("i"), var("j")
    both = apply("add", Read("x", (i + n, j)), Read("x", (i + m, j)))
    tensors = (TensorSpec("x", (n + m + 2, 5)), TensorSpec("y", (2, 5)))
    made = Compute("y", (ROWS, COLUMNS), both)
    kernel = Kernel("rows", tensors, (made,), ("x",), "y")
    assert not rebased(kernel).offsets
    ahead = replace(kernel, computes=(replace(made, expr=Read("x", (i + n - 1, j))),))
    assert rebased(ahead).offsets == {"x": 5 * n - 5}
