"""The tiny models, compiled once each, against onnxruntime for every batch and sequence length."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import explorer
from explorer.errors import BoundError
from explorer.process.counters import counters
from tests.conformance.answers import Oracle, agree

DATA = Path(__file__).parent.parent / "data"
TEXT = ["tiny_bert", "tiny_gpt2", "tiny_llama"]
FIXED = ["tiny_lstm", "tiny_mobilenetv2", "tiny_resnet18", "tiny_skip", "tiny_vit", "tiny_while"]
TOLERANCE = 1e-4


def compare(
    compiled: explorer.Compilation,
    session: onnxruntime.InferenceSession,
    inputs: dict[str, np.ndarray],
) -> None:
    got = compiled.run(inputs)
    for (key, value), other in zip(got.items(), session.run(None, inputs), strict=True):
        assert value.shape == other.shape and value.dtype == other.dtype
        scale = float(np.abs(other).max(initial=0.0))
        error = np.abs(value.astype(float) - other.astype(float)).max(initial=0.0)
        assert error <= TOLERANCE * max(scale, 1e-30), key


@pytest.mark.few(2)
@pytest.mark.parametrize("name", TEXT)
def test_one_compilation_serves_every_batch_and_length(name: str) -> None:
    path = DATA / f"{name}.onnx"
    compiled = explorer.compile(path)
    assert not compiled.program.library_calls
    session = onnxruntime.InferenceSession(path)
    kernels = len(compiled.kernels)
    rng = np.random.default_rng(0)
    with counters.delta() as did:
        for batch in (1, 3, 8):
            for seq in (2, 17, 64):
                compare(compiled, session, {"x": rng.integers(0, 500, (batch, seq))})
        assert did.kernel_compiles == 0
    assert len(compiled.kernels) == kernels


@pytest.mark.few(2)
@pytest.mark.parametrize("name", FIXED)
def test_a_fixed_model_answers_as_onnxruntime_does(name: str) -> None:
    path = DATA / f"{name}.onnx"
    compiled = explorer.compile(path)
    assert not compiled.program.library_calls
    session = onnxruntime.InferenceSession(path)
    rng = np.random.default_rng(0)
    for scale in (1.0, 0.01, -2.0):
        inputs = {
            n: (rng.standard_normal(t.dims) * scale + 0.1 * scale).astype(np.float32)
            for n, t in compiled.model.inputs.items()
        }
        compare(compiled, session, inputs)


@pytest.mark.parametrize("value", [1.0, -1.0])
def test_both_arms_of_a_branch_run(value: float) -> None:
    path = DATA / "tiny_skip.onnx"
    compiled = explorer.compile(path)
    inputs = {"x": np.full((1, 32), value, np.float32)}
    compare(compiled, onnxruntime.InferenceSession(path), inputs)


@pytest.mark.parametrize("scale", [0.0, 1e-3, 1.0, 100.0])
def test_a_loop_runs_as_often_as_the_data_say(scale: float) -> None:
    path = DATA / "tiny_while.onnx"
    compiled = explorer.compile(path)
    inputs = {"x": np.full((1, 32), scale, np.float32)}
    compare(compiled, onnxruntime.InferenceSession(path), inputs)


@pytest.mark.exhaustive
def test_every_step_is_checked_on_random_inputs() -> None:
    for name in ("tiny_bert", "tiny_resnet18", "tiny_while"):
        compiled = explorer.compile(DATA / f"{name}.onnx", check=True)
        bad = {s.name: s.checked for s in compiled.snapshots[:-1] if s.checked is not True}
        assert not bad, (name, bad)


@pytest.mark.parametrize("name", TEXT)
def test_an_id_that_is_not_in_the_table_is_refused_and_a_negative_one_counts_back(
    name: str,
) -> None:
    path = DATA / f"{name}.onnx"
    compiled = explorer.compile(path)
    for value in (500, -501, 2**40):
        with pytest.raises(BoundError, match="'x' holds"):
            compiled.run({"x": np.array([[1, value, 3]])})
    session = onnxruntime.InferenceSession(path)
    compare(compiled, session, {"x": np.array([[499, -1, -500]])})


CORNERS = [(1, 2), (1, 512), (64, 2), (64, 512)]
ODD = [(1, 7), (2, 511), (3, 509), (61, 3), (63, 64), (13, 127)]
RANDOM = 24


def pairs(seed: int) -> list[tuple[int, int]]:
    """Corners, primes and limits, and sizes that are spread over their magnitudes."""
    rng = np.random.default_rng(seed)
    batches = np.exp(rng.uniform(0, np.log(64.99), RANDOM)).astype(int)
    lengths = np.exp(rng.uniform(np.log(2), np.log(512.99), RANDOM)).astype(int)
    return [*CORNERS, *ODD, *zip(batches.tolist(), lengths.tolist())]


@pytest.mark.few(1)
@pytest.mark.slow
@pytest.mark.parametrize("name", TEXT)
def test_a5_01_one_artifact_serves_every_batch_and_length(name: str) -> None:
    path = DATA / f"{name}.onnx"
    compiled, oracle = explorer.compile(path), Oracle(path)
    kernels = len(compiled.kernels)
    rng = np.random.default_rng(1)
    with counters.delta() as did:
        for batch, seq in pairs(len(name)):
            x = {"x": rng.integers(0, 500, (batch, seq))}
            agree(compiled.run(x), oracle(x))
    assert did.kernel_compiles == 0 and did.pass_runs == 0
    assert len(compiled.kernels) == kernels
