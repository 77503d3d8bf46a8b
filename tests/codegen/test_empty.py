"""Kernels of no elements, and sums of nothing: nothing is read, and the answer is NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.ir.kernels.normal import normalise
from explorer.ops.interpreter.evaluate import evaluate_kernel
from explorer.roller.policy import candidates
from tests.codegen.cases import (
    ENV,
    Case,
    arrays,
    conv,
    layer_norm,
    linear,
    pool,
    softmax,
    transpose,
)
from tests.codegen.running import run_kernel
from tests.roller.test_policy import DEVICE

EMPTY = [
    linear(0, 7, 9, "relu", {}),
    linear(5, 0, 9, "relu", {}),
    linear(5, 7, 0, "relu", {}),
    softmax(0, 5, {}),
    softmax(3, 0, {}),
    layer_norm(0, 8, {}),
    transpose((2, 0, 3), (0, 2, 1), {}),
    pool(8, 0, 2, 2, 0, "max", {}),
    conv(7, 7, 0, 9, 3, 1, 1),
    conv(7, 7, 3, 9, 3, 1, 1, n=0),
]


@pytest.mark.parametrize("case", EMPTY, ids=lambda c: c.name)
def test_a_kernel_of_nothing_is_tiled_and_runs(case: Case) -> None:
    kernel = normalise(case.kernel)
    tiling = next(candidates(kernel, DEVICE, ENV, {})).value
    values = arrays(case)
    want = evaluate_kernel(case.kernel, [values[n] for n in case.kernel.inputs], {})
    got = run_kernel(kernel, tiling, values, {}, ENV)
    np.testing.assert_array_equal(got, want)
