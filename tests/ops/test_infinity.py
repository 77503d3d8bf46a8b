"""NaN and infinity where they were lost or invented: what NumPy says of the definition."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import explorer
from explorer.ops.interpreter.evaluate import evaluate
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


def test_the_place_of_a_least_element_is_not_in_the_padding(tmp_path: Path) -> None:
    x = np.full((1, 1, 3, 3), -INF, np.float32)
    attributes = {"kernel_shape": [2, 2], "pads": [1] * 4}
    case = Case("MaxPool", [x], attributes, outputs=2)
    onnx.save(proto(case), tmp_path / "case.onnx")
    first = np.maximum(np.arange(4) - 1, 0)
    right = 3 * first[:, None] + first
    for program in stages(tmp_path / "case.onnx"):
        _, places = evaluate(program, {"x0": x}).values()
        np.testing.assert_array_equal(places[0, 0], right)
    found = explorer.compile(tmp_path / "case.onnx").run({"x0": x})
    np.testing.assert_array_equal(found["y1"][0, 0], right)


@pytest.mark.parametrize("target", ["int8", "uint8", "int16", "uint16"])
def test_no_number_is_quantized_to_the_least(tmp_path: Path, target: str) -> None:
    """As onnxruntime and onnx's evaluator do; the standard is silent."""
    x = np.array([NAN, INF, -INF, 1.0], np.float32)
    case = Case("QuantizeLinear", [x, np.float32(0.5), np.array(3, target)], known=(1, 2), opset=21)
    limits = np.iinfo(target)
    for found in answers(tmp_path / "case.onnx", case):
        assert found.tolist() == [limits.min, limits.max, limits.min, 5]


def test_as_many_windows_as_elements_are_none_of_nothing(tmp_path: Path) -> None:
    """onnx's evaluator answers so; onnxruntime refuses extents of 0 there."""
    x, w = np.zeros((2, 3, 4, 0), np.float32), np.ones((5, 3, 1, 5), np.float32)
    same = {"auto_pad": "SAME_UPPER", "strides": [2, 1]}
    for found in answers(tmp_path / "case.onnx", Case("Conv", [x, w], same, known=(1,))):
        assert found.shape == (2, 5, 2, 0)
    pool = Case("MaxPool", [x], {**same, "kernel_shape": [1, 5]})
    for found in answers(tmp_path / "case.onnx", pool):
        assert found.shape == (2, 3, 2, 0)


def test_the_first_largest_of_no_elements_is_nowhere(tmp_path: Path) -> None:
    case = Case("Hardmax", [np.zeros((2, 0, 3), np.float32)], {"axis": -2})
    for found in answers(tmp_path / "case.onnx", case):
        assert found.shape == (2, 0, 3)


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
