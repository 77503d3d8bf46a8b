"""Traced functions of bfloat16 are those of floats."""

from __future__ import annotations

import ml_dtypes
import numpy as np

import explorer
import explorer.np as enp


def test_rounding_and_erf_of_few_bits() -> None:
    f = explorer.trace(lambda x: (enp.rint(x), enp.erf(x), enp.log_softmax(x, axis=0)))
    c = explorer.compile(f(explorer.tensor("bfloat16", 5)), check=True)
    x = np.array([-1.5, -0.4, 0.25, 0.5, 2.5], ml_dtypes.bfloat16)
    rounded, erf, logs = c.run(x).values()
    np.testing.assert_array_equal(rounded.astype(np.float32), [-2, 0, 0, 0, 2])
    assert {a.dtype for a in (rounded, erf, logs)} == {np.dtype(ml_dtypes.bfloat16)}
    assert abs(float(erf[2]) - 0.2763) < 2e-3
    assert abs(float(np.exp(logs.astype(np.float32)).sum()) - 1) < 2e-2
