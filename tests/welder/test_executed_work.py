"""Work that tasks do, halos done again included, equals the work that a plan tells."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from explorer.cost.footprint import points
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.dims import evaluate_shape
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.contraction import contraction
from explorer.ir.kernels.normal import normalise
from explorer.ir.kernels.regions import propagate
from explorer.ir.tile_program import Panels, Reduce, Statement
from explorer.ops.interpreter.evaluate import evaluate_kernel
from explorer.tile.interpret import Env, Interpreter
from explorer.tile.lowering.lower import lower
from explorer.welder.tiles.plan import recompute
from tests.welder import groups


class Counting(Interpreter):
    """Counts the products of contractions and the terms of other reductions."""

    products = 0
    terms = 0

    def statement(self, s: Statement, env: Env) -> None:
        """One statement, and what it sums."""
        if isinstance(s, Panels):
            rows = prod(len(self.values(x, env)) for x in s.rows)
            steps = len(s.contract.segment_values) * self.dim(s.contract.depth)
            self.products += rows * len(self.values(s.columns, env)) * steps
        if isinstance(s, Reduce):
            self.terms += prod(len(self.values(x, env)) for x in (*s.spans, *s.over))
        super().statement(s, env)


CASES = [
    (groups.conv_conv(16, 16, 16), {"h_y": 4}),
    (groups.conv_conv(16, 16, 16), {"h_y": 5, "v_y": 6}),
    (groups.conv_conv(17, 16, 16, stride=2), {"h_y": 2, "v_y": 4}),
    (groups.conv_relu_pool(16, 16, 16), {"h_y": 3}),
    (groups.conv_relu_pool(17, 16, 16, width=3), {"h_y": 2, "v_y": 3}),
    (groups.matmul_softmax(20, 16, 32), {"i": 6}),
    (groups.mlp(20, 16, 32), {"i": 7}),
]


@pytest.mark.parametrize(("kernel", "tile"), CASES, ids=lambda v: getattr(v, "name", str(v)))
def test_tasks_do_what_is_counted(kernel: Kernel, tile: dict[str, int]) -> None:
    kernel = normalise(kernel)
    rng = np.random.default_rng(0)
    given = {
        n: rng.standard_normal(evaluate_shape(kernel.shape(n), {})).astype(np.float32)
        for n in kernel.inputs
    }
    want = evaluate_kernel(kernel, [given[n] for n in kernel.inputs], {})
    out = np.full(want.shape, np.nan, np.float32)
    program = lower(kernel, Tiling(tuple(tile.items()), Micro(6, 1, 16)))
    machine = Counting(program, {**given, kernel.output: out}, {})
    machine.run()
    np.testing.assert_allclose(
        machine.arrays[kernel.output].reshape(want.shape), want, rtol=1e-3, atol=1e-4
    )
    regions = propagate(kernel, tile)
    counted = points(kernel, regions, tile)
    sums = [(c, n) for c, n in zip(kernel.computes, counted, strict=True) if c.reduce]
    assert machine.products == sum(n for c, n in sums if contraction(c) is not None)
    assert machine.terms == sum(n for c, n in sums if contraction(c) is None)
    assert (recompute(kernel, regions, tile) > 1) == (
        counted > points(kernel, propagate(kernel, {}), {})
    )
