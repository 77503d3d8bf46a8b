"""Generated machine code against the reference evaluator, on odd shapes, with guards."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.ops.reference.evaluate import evaluate_kernel
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
