"""Transposed tiles: results that lie dense along rows are copied in blocks, edges included."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.ir.affine import var
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.kernel import Apply, Axis, Compute, Kernel, Read, TensorSpec, at, axes
from explorer.ir.tile_program import For, Map, Statement
from explorer.ops.interpreter.evaluate import evaluate_kernel
from explorer.tile.lowering.lower import lower
from tests.codegen.running import run_kernel


def pointwise(h: int, w: int, c: int, o: int, dtype: str) -> Kernel:
    """A 1 x 1 convolution of channels last into channels first, with what follows it."""
    p, q, j, k = Axis("p", h), Axis("q", w), Axis("o", o), Axis("c", c)
    product = Apply("mul", (at("a", (p, q, k)), Read("b", (var("o"), var("c")))))
    e = axes("e", (h, w, o))
    out = Apply(f"cast_{dtype}", (Apply("mul", (at("t", e), at("s", e[2:]))),))
    specs = tuple(
        TensorSpec(n, s, t)
        for n, s, t in (
            ("a", (h, w, c), "float32"),
            ("b", (o, c), "float32"),
            ("s", (o,), "float32"),
            ("t", (h, w, o), "float32"),
            ("y", (o, h, w), dtype),
        )
    )
    store = tuple(var(f"e{d}") for d in (2, 0, 1))
    computes = (Compute("t", (p, q, j), product, (k,), "sum"), Compute("y", e, out, store=store))
    return Kernel("pointwise", specs, computes, ("a", "b", "s"), ("y",), frozenset({"b", "s"}))


def copies(body: tuple[Statement, ...]) -> list[Map]:
    inner = [s for x in body for s in (x.body if isinstance(x, For) else (x,))]
    return [s for s in inner if isinstance(s, Map)]


@pytest.mark.few(3)
@pytest.mark.parametrize("dtype", ["float32", "uint8", "float16"])
@pytest.mark.parametrize("tile", [{}, {"e0": 3}, {"e0": 3, "e2": 32}, {"e0": 1, "e1": 17}])
def test_results_are_turned_a_tile_at_a_time(dtype: str, tile: dict[str, int]) -> None:
    rng = np.random.default_rng(0)
    kernel = pointwise(5, 19, 7, 35, dtype)
    values = {
        n: rng.uniform(0, 2, tuple(map(int, kernel.shape(n)))).astype(np.float32)
        for n in kernel.inputs
    }
    tiling = Tiling(tuple(tile.items()), Micro(6, 2, 16))
    assert len(copies(lower(kernel, tiling).body)) == 1
    want = evaluate_kernel(kernel, [values[n] for n in kernel.inputs], {})
    got = run_kernel(kernel, tiling, values)
    close = 1 if dtype == "uint8" else 1e-2 if dtype == "float16" else 1e-4
    np.testing.assert_allclose(got.astype(float), want.astype(float), rtol=1e-3, atol=close)


def test_a_few_rows_are_not_worth_a_block() -> None:
    assert not copies(lower(pointwise(1, 7, 5, 33, "float32"), Tiling((), Micro(6, 2, 16))).body)
