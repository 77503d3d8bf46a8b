"""What is asked for ahead while register tiles run."""

from __future__ import annotations

import numpy as np
import pytest

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
