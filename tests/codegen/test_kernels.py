"""Generated machine code against the reference evaluator, on odd shapes, with guards."""

from __future__ import annotations

import numpy as np
import pytest

import explorer
from explorer.ops.interpreter.evaluate import evaluate_kernel
from tests.codegen.cases import CASES, ENV, Case, arrays
from tests.codegen.running import run_kernel


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_generated_code_equals_the_reference(case: Case) -> None:
    values = arrays(case)
    want = evaluate_kernel(case.kernel, [values[n] for n in case.kernel.inputs], case.sizes)
    got = run_kernel(case.kernel, case.tiling, values, case.sizes, ENV)
    assert got.dtype == want.dtype
    scale = max(1.0, float(np.abs(np.nan_to_num(want.astype(float))).max(initial=0)))
    np.testing.assert_allclose(
        got.astype(float), want.astype(float), atol=case.tolerance * scale, rtol=1e-5
    )


@pytest.mark.few(2)
@pytest.mark.parametrize("rest", [23, 24, 100, 1000])
def test_an_extent_that_symbols_make_smaller_has_all_its_tiles(rest: int) -> None:
    """How many tiles 24 - n has is a quotient of what may be negative: 2 + (-n // 23)."""

    @explorer.trace
    def function(x: explorer.tensor("float32", "batch", "n")):
        room = explorer.np.full((x.shape[0], 2, rest - x.shape[1], 8), 7, "float32")
        return explorer.np.exp(room), room.sum()

    c = explorer.compile(function)
    for n in (1, 5, rest - 1, rest):
        found, total = c.run(np.zeros((3, n), "float32")).values()
        np.testing.assert_allclose(found, np.full((3, 2, rest - n, 8), np.exp(7)), rtol=1e-6)
        assert total == 7 * found.size
