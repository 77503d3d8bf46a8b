"""What is asked for ahead while register tiles run."""

from __future__ import annotations

import numpy as np
import pytest

import explorer
import explorer.np as enp
from explorer.codegen.build import print_kernel
from explorer.ir.decisions import Micro, Tiling
from explorer.ir.dims import ShapeEnv
from explorer.ops.evaluate import evaluate_kernel
from tests.codegen.cases import arrays, linear
from tests.codegen.running import run_kernel


def source(m: int, k: int, n: int) -> str:
    case = linear(m, k, n, "relu", {})
    return print_kernel(case.kernel, Tiling((), Micro(8, 2)), ShapeEnv())[0]


def test_rows_are_asked_for_where_all_panels_stay_in_l1() -> None:
    assert "_pace = 32" in source(64, 64, 64)


def test_the_next_panel_is_asked_for_where_they_do_not() -> None:
    text = source(64, 512, 64)
    assert "_pace = 32" not in text and "_ahead = _panel" in text


@pytest.mark.parametrize("m", [8, 9, 17, 40])
def test_what_is_asked_for_past_the_end_is_not_read(m: int) -> None:
    case = linear(m, 32, 24, "relu", {})
    values = arrays(case)
    want = evaluate_kernel(case.kernel, [values[n] for n in case.kernel.inputs], {})
    got = run_kernel(case.kernel, Tiling((), Micro(8, 2)), values)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@explorer.trace
def scores(
    q: explorer.tensor("float32", "m", 32),  # type: ignore[valid-type]
    k: explorer.tensor("float32", "n", 32),  # type: ignore[valid-type]
    mask: explorer.tensor("float32", "m", "n"),  # type: ignore[valid-type]
) -> object:
    return q @ enp.transpose(k, (1, 0)) * 0.5 + mask


def test_an_epilogue_whose_rows_lie_a_run_time_step_apart_stays_in_registers() -> None:
    compiled = explorer.compile(scores)
    (kernel,) = compiled.kernels
    assert "contract0_full" in kernel.source and "(None, 1)" in kernel.source
    draw = np.random.default_rng(0).standard_normal
    for m, n in ((1, 1), (4, 16), (5, 17), (16, 33), (67, 64)):
        q, k, mask = (draw(s).astype("float32") for s in ((m, 32), (n, 32), (m, n)))
        (got,) = compiled.run(q, k, mask).values()
        np.testing.assert_allclose(got, q @ k.T * np.float32(0.5) + mask, rtol=1e-4, atol=1e-5)
