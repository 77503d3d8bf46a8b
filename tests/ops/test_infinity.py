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


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_place_of_a_nan_is_told(tmp_path: Path, dtype: str) -> None:
    case = Case("MaxPool", [ROWS[None].astype(dtype)], {"kernel_shape": [2]}, outputs=2)
    onnx.save(proto(case), tmp_path / "case.onnx")
    for program in stages(tmp_path / "case.onnx"):
        top, places = evaluate(program, {"x0": case.inputs[0]}).values()
        np.testing.assert_array_equal(case.inputs[0].ravel()[places], top)


def test_nothing_is_taken_no_times(tmp_path: Path) -> None:
    """onnxruntime and onnx's own evaluator leave `0 * C` out."""
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal(s).astype(np.float32) for s in ((4, 6), (6, 5), (5,)))
    case = Case("Gemm", [a, b, c * np.float32(NAN)], {"beta": 0.0}, known=(1, 2))
    for found in answers(tmp_path / "case.onnx", case):
        np.testing.assert_allclose(found, a @ b, rtol=1e-4, atol=1e-5)


def test_the_largest_of_no_channels(tmp_path: Path) -> None:
    case = Case("MaxPool", [np.zeros((0, 3, 5), np.float32)], {"kernel_shape": [2]})
    for found in answers(tmp_path / "case.onnx", case):
        assert found.shape == (0, 3, 4)
