"""Engines of language models: their answers to ours, from the same file."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from explorer.frontends.decoders.gguf_file import read_gguf
from tests.benchmarks.generation import MOST_APART, MOST_APART_ROUNDED, difference, ours
from tests.benchmarks.generation_peers import engines
from tests.benchmarks.generation_peers.engines import (
    ENGINES,
    F32,
    Case,
    is_rounded,
    reason_against,
)
from tests.benchmarks.generation_peers.model_files import write_gguf
from tests.benchmarks.generation_peers.onnx_folder import write_onnx_folder
from tests.benchmarks.racer import Racer

FORMS = [
    (F32, "float32"),
    ("F16", "float32"),
    ("BF16", "float32"),
    ("Q8_0", "float32"),
    ("Q4_0", "float32"),
    ("Q8_0", "int8"),
]
PROMPT = 40  # tokens


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models")
    for kind in {kind for kind, _ in FORMS}:
        write_gguf(path / f"{kind}.gguf", "2M", kind)
    return path


def case_of(folder: Path, kind: str, rows: str, prefill: bool) -> Case:
    return Case(folder / f"{kind}.gguf", "2M", kind, rows, 1, PROMPT, prefill)


@cache
def our_scores(case: Case) -> np.ndarray:
    return np.array(ours(case)())


@pytest.mark.slow
@pytest.mark.parametrize("prefill", [False, True])
@pytest.mark.parametrize(("kind", "rows"), FORMS)
@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_has_our_scores(
    name: str, kind: str, rows: str, prefill: bool, folder: Path
) -> None:
    case = case_of(folder, kind, rows, prefill)
    if reason := reason_against(name, case):
        pytest.skip(reason)
    run = ENGINES[name][1](case)
    for _ in range(2):  # the first takes its token back
        most = MOST_APART_ROUNDED if is_rounded(name, case) else MOST_APART
        assert difference(our_scores(case), run()) <= most


@pytest.mark.parametrize(("kind", "rows"), FORMS)
def test_the_onnx_folder_has_our_scores_in_onnxruntime(
    kind: str, rows: str, folder: Path, tmp_path: Path
) -> None:
    ort: Any = pytest.importorskip("onnxruntime")
    case = case_of(folder, kind, rows, prefill=False)
    write_onnx_folder(tmp_path, read_gguf(case.path), rows, threads=1)
    session = ort.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    state = {
        i.name: np.zeros((1, i.shape[1], 0, i.shape[3]), np.float32)
        for i in session.get_inputs()
        if i.name.startswith("past")
    }
    for ids, count in ((case.first, PROMPT), (case.ids, PROMPT + 1)):
        feed = {"input_ids": ids, "attention_mask": np.ones((1, count), np.int64)}
        scores, *present = session.run(names, feed | state)
        state = dict(zip(state, present, strict=True))
    most = MOST_APART_ROUNDED if rows == "int8" else 1e-4
    assert difference(our_scores(case), scores.reshape(-1)) <= most


def test_a_token_is_as_far_apart_as_its_score_is_from_the_best() -> None:
    scores = np.array([1.0, 4.0, 3.0])
    assert difference(scores, 1) == 0 and difference(scores, 2) == 0.25
    assert difference(scores, scores - 0.4) == pytest.approx(0.1)


def test_engines_that_cannot_take_part_say_why(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = case_of(folder, "Q8_0", "float32", prefill=True)
    installed = set[str]()
    monkeypatch.setattr(engines, "find_spec", lambda name: name if name in installed else None)
    assert reason_against("transformers", case) == "transformers is not installed"
    installed |= {package for packages, _ in ENGINES.values() for package in packages}
    assert reason_against("llama.cpp", case) == "llama.cpp rounds rows to int8"
    assert "when it loads them" in reason_against("transformers", case)
    plain = replace(case, kind=F32)
    assert reason_against("openvino-genai", plain) == "OpenVINO GenAI reads no F32 of GGUF"
    assert not any(reason_against(name, plain) for name in ENGINES if name != "openvino-genai")
    half = replace(case, kind="F16")
    assert [name for name in ENGINES if reason_against(name, half)] == ["onnxruntime-genai"]


class SelfTimed:
    """A run that tells how long it took."""

    def __call__(self) -> str:
        return "answer"

    def seconds(self, calls: int) -> list[float]:
        return [float(calls)] * calls


def test_a_run_may_time_itself() -> None:
    racer = Racer(SelfTimed, 1)
    try:
        assert racer.values(2) == ["answer"] * 2
        assert racer.seconds(3) == [3.0] * 3
    finally:
        racer.close()
