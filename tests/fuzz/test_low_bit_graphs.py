"""Random low-bit graphs against NumPy in float64, and against onnxruntime where it agrees with it.

onnxruntime fuses DequantizeLinear in blocks with its product and then rounds activations to eight
bits, so it is asked operator by operator; it has no kernel for some types.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import explorer
from explorer.ops.interpreter.evaluate import evaluate
from tests.strategies.onnx.low_bit_graphs import Case, case

# Without VNNI onnxruntime adds products of unsigned and signed bytes in int16, which saturates.
SATURATES = {"MatMulInteger", "QLinearMatMul"}


def excess(found: np.ndarray, right: Case) -> float:
    """The largest error over what float32 may take an element to; at most 1 is right."""
    assert found.dtype == np.float32 and found.shape == right.exact.shape
    gap = np.abs(found - right.exact)
    tiny = np.finfo(np.float32).tiny
    return float((gap / np.maximum(right.reach, tiny)).max(initial=0))


def by_onnxruntime(right: Case, fuses: bool = False) -> np.ndarray | None:
    """The answer of onnxruntime, None if it refuses the model."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if not fuses:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(right.model.SerializeToString(), options)
        (answer,) = session.run(None, right.feeds)
    except Exception:  # forms that it refuses, without a class of their own
        return None
    return np.asarray(answer)


@pytest.mark.few(40)
@pytest.mark.parametrize("seed", range(500))
def test_a_random_low_bit_graph_is_right(seed: int, tmp_path: Path) -> None:
    right = case(seed)
    onnx.save(right.model, tmp_path / "model.onnx")
    model = explorer.load(tmp_path / "model.onnx")
    (interpreted,) = evaluate(model.program, right.feeds).values()
    assert excess(interpreted, right) <= 1, right.operators
    (found,) = explorer.compile(model).run(right.feeds).values()
    assert excess(found, right) <= 1, right.operators


def test_onnxruntime_confirms_the_exact_answers() -> None:
    verdicts = Counter[str]()
    for seed in range(60):
        right = case(seed)
        answer = by_onnxruntime(right)
        verdict = "refused" if answer is None else "agrees"
        if answer is not None and excess(answer, right) > 1:
            verdict = "saturates" if SATURATES & set(right.operators) else "differs"
        verdicts[verdict] += 1
    assert verdicts["agrees"] >= 40 and not verdicts["differs"], verdicts
    if explorer.device("this-cpu").isa.has("avx512vnni"):
        assert verdicts["agrees"] >= 50 and not verdicts["saturates"], verdicts


def test_the_judge_sees_a_wrong_step() -> None:
    """A code that is one too large, of one element of the weights."""
    seen = 0
    for seed in range(20):
        right = case(seed)
        changed = onnx.ModelProto()
        changed.CopyFrom(right.model)
        packed = [t for t in changed.graph.initializer if t.data_type == onnx.TensorProto.UINT8]
        if right.operators[0] != "MatMulNBits" or not packed:
            continue
        array = onnx.numpy_helper.to_array(packed[0]).copy()
        array.reshape(-1)[0] ^= 1
        packed[0].CopyFrom(onnx.numpy_helper.from_array(array, packed[0].name))
        wrong = Case(changed, right.feeds, right.exact, right.reach)
        answer = by_onnxruntime(wrong)
        seen += answer is not None and excess(answer, right) > 1
    assert seen >= 3
