"""Random graphs that once had other answers than onnxruntime's: none of their steps changes a value
any more.

Each is `data/wrong/NAME.onnx` with inputs in `NAME.npz`. What was the matter with it is in the test
of the module that was mended.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

import explorer

WRONG = Path(__file__).parent / "data" / "wrong"
NAMES = (
    "g76",  # an axis of extent 1 that is read at -1
    "g299",
    "g394",
    "g417",
    "g5036",
    "g5202",
    "g20372",
    "g20519",
    "g20698",
    "g5228",  # a transposed convolution whose result is shorter than its stride
    "g195",  # sizes that an operator does not take
    "g485",
    "g581",  # a transposed convolution with infinite weights
    "g5029",
    "g5313",
    "g20668",  # columns that begin within a panel
    "g20261778",  # a part of a join that another reader pads
)
BY_DEFINITION = {
    "g394",  # onnxruntime's normalisation with an infinite scale subtracts infinities
    "g485",  # it keeps float32 from one operator of float16 to the next: nothing overflows
    "g5029",  # it takes a largest end for the first element where a slice walks back
}
LARGEST_ERROR = {"float16": 4e-3, "float32": 1e-5, "float64": 1e-12}  # of the largest answer


def answers(path: Path, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What onnxruntime answers, operator by operator as the file has them; what ONNX defines where
    that is something else.
    """
    if path.stem in BY_DEFINITION:
        defined = ReferenceEvaluator(str(path))
        return dict(zip(defined.output_names, defined.run(None, feeds), strict=True))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options)
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(None, feeds), strict=True))


def assert_same(found: np.ndarray, right: np.ndarray) -> None:
    """Equal dtypes, shapes, NaN and infinities; numbers differ by rounding alone."""
    assert (found.dtype, found.shape) == (right.dtype, right.shape)
    if right.dtype.kind != "f":
        assert np.array_equal(found, right)
        return
    finite = np.isfinite(right)
    assert np.array_equal(found[~finite], right[~finite], equal_nan=True)
    gap = np.abs(found[finite].astype(np.float64) - right[finite])
    largest = np.abs(right[finite].astype(np.float64)).max(initial=1e-30)
    assert gap.max(initial=0) <= LARGEST_ERROR[right.dtype.name] * largest


def test_every_graph_is_listed() -> None:
    assert {p.stem for p in WRONG.glob("*.onnx")} == set(NAMES)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", NAMES)
def test_a_graph_that_was_wrong_is_right_at_every_step(name: str) -> None:
    path = WRONG / f"{name}.onnx"
    with np.load(WRONG / f"{name}.npz") as stored:
        feeds = dict(stored)
    compiled = explorer.compile(path, check=True)
    steps = {s.name: s.checked for s in compiled.snapshots[:-1]}  # code is no program to evaluate
    assert {n: told for n, told in steps.items() if told is not True} == {}
    found, right = compiled.run(feeds), answers(path, feeds)
    assert list(found) == list(right)
    for value, wanted in right.items():
        assert_same(found[value], wanted)


def test_a_policy_weighs_kernels_with_steps_that_are_known_in_a_run() -> None:
    two_step = explorer.Options(welder=explorer.welder.Options(policy="two_step"))
    compiled = explorer.compile(WRONG / "g195.onnx", options=two_step)
    with np.load(WRONG / "g195.npz") as stored:
        feeds = dict(stored)
    for name, right in answers(WRONG / "g195.onnx", feeds).items():
        assert_same(compiled.run(feeds)[name], right)
