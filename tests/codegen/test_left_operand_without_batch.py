"""Products whose left operand is the same along a leading axis of the right one: weights whose
columns are two axes, scores in blocks.
"""

from __future__ import annotations

import numpy as np
import pytest

from explorer.ir.affine import var
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.kernel import Apply, Axis, Compute, Kernel, Read, at
from explorer.ir.kernels.contraction import contraction
from explorer.ir.tile_program import For, Panels, Statement
from explorer.ops.interpreter.evaluate import evaluate_kernel
from explorer.tile.lowering.lower import lower
from tests.codegen.cases import specs
from tests.codegen.running import run_kernel

M, K, H, N = 29, 19, 3, 37
SHAPES = {"x": (M, K), "w": (K, H, N), "y": (M, H, N)}


def _heads(constant: bool) -> Kernel:
    """y[i, h, j] = sum[k] x[i, k] w[k, h, j]."""
    i, h, j, k = Axis("i", M), Axis("h", H), Axis("j", N), Axis("k", K)
    body = Apply("mul", (at("x", (i, k)), at("w", (k, h, j))))
    c = Compute("y", (i, h, j), body, (k,), "sum")
    weights = frozenset({"w"}) if constant else frozenset[str]()
    return Kernel("heads", specs(**SHAPES), (c,), ("x", "w"), ("y",), weights)


def _blocks() -> Kernel:
    """y[b, i, j] = sum[k] x[i, k] w[b 7 + j, k]: neighbouring blocks share rows."""
    b, i, j, k = Axis("b", 4), Axis("i", M), Axis("j", 16), Axis("k", K)
    load = Read("w", (var("b") * 7 + var("j"), var("k")))
    c = Compute("y", (b, i, j), Apply("mul", (at("x", (i, k)), load)), (k,), "sum")
    return Kernel("blocks", specs(x=(M, K), w=(40, K), y=(4, M, 16)), (c,), ("x", "w"), ("y",))


def _has_panels(body: tuple[Statement, ...]) -> bool:
    return any(isinstance(s, Panels) or (isinstance(s, For) and _has_panels(s.body)) for s in body)


@pytest.mark.few(3)
@pytest.mark.parametrize("kernel", [_heads(False), _heads(True), _blocks()], ids=lambda k: k.name)
@pytest.mark.parametrize("rows", [5, 14, M])
def test_register_tiles_do_them(kernel: Kernel, rows: int) -> None:
    found = contraction(kernel.computes[0])
    assert found is not None and found.a.tensor == "x" and len(found.batch) == 1
    tiling = Tiling((("i", rows),), Micro(7, 1))
    assert _has_panels(lower(kernel, tiling).body)
    rng = np.random.default_rng(3)
    arrays = {
        n: rng.standard_normal(tuple(map(int, kernel.shape(n)))).astype(np.float32)
        for n in kernel.inputs
    }
    want = evaluate_kernel(kernel, [arrays[n] for n in kernel.inputs], {})
    np.testing.assert_allclose(run_kernel(kernel, tiling, arrays), want, rtol=1e-5, atol=1e-5)
