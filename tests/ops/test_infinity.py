"""NaN and infinity where they were lost or invented: what NumPy says of the definition."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import explorer
from explorer.ops.evaluate import evaluate
from tests.ops.one_operator import Case, proto, stages

INF, NAN = np.inf, np.nan
ROWS = np.array(
    [
        [1, 2, INF, 3],
        [-INF, -INF, -INF, -INF],
        [-INF, 0, 0, -INF],
        [INF, INF, 1, -INF],
        [1, NAN, INF, NAN],
    ],
    np.float32,
)
FIRST = [2, 0, 1, 0, 1]  # of the largest element, which NaN is


def answers(path: Path, case: Case) -> list[np.ndarray]:
    """By every stage, and run."""
    onnx.save(proto(case), path)
    feeds = {"x0": np.asarray(case.inputs[0])}
    given = [next(iter(evaluate(p, feeds).values())) for p in stages(path)]
    return [*given, next(iter(explorer.compile(path).run(feeds).values()))]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_logarithm_of_a_sum_of_infinite_powers(tmp_path: Path, dtype: str) -> None:
    axes = np.array([1])
    case = Case("ReduceLogSumExp", [ROWS.astype(dtype), axes], {"keepdims": 0}, known=(1,))
    right = np.array([INF, -INF, np.log(2), INF, NAN])
    for found in answers(tmp_path / "case.onnx", case):
        assert found.dtype == dtype
        np.testing.assert_allclose(found.astype(np.float64), right, rtol=1e-3)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_first_of_the_largest_elements(tmp_path: Path, dtype: str) -> None:
    case = Case("Hardmax", [ROWS.astype(dtype)], {"axis": 1})
    for found in answers(tmp_path / "case.onnx", case):
        np.testing.assert_array_equal(found, np.eye(4)[FIRST].astype(dtype))
