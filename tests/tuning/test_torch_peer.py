"""The models in PyTorch give the answers of onnxruntime; what has no call is refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from onnx import helper

from explorer.errors import UnsupportedOperator
from explorer.frontends import zoo
from explorer.frontends.load import load
from explorer.frontends.model import Model
from explorer.passes.random_inputs import random_inputs
from explorer.tuning.compare import check_answers
from explorer.tuning.peers.peer import Skipped, onnx_source
from explorer.tuning.peers.runtimes import prepare
from tests.tuning.models import CASES, IMAGE, of_one_operator, written

torch: Any = pytest.importorskip("torch")
ort: Any = pytest.importorskip("onnxruntime")

DATA = Path(__file__).parent.parent / "data"
MODELS = sorted(path.stem for path in DATA.glob("*.onnx"))


def test_the_tiny_models_are_here() -> None:
    assert len(MODELS) >= 9


def agrees(model: Model, sizes: Mapping[str, int]) -> float:
    """The largest error of PyTorch against onnxruntime on random inputs."""
    inputs = random_inputs(model.program, {**model.program.env.hints, **sizes})
    source, names = onnx_source(model), list(model.outputs)
    answers = ort.InferenceSession(source).run(names, inputs)
    peer = prepare("torch", model, inputs, 1)
    try:
        return check_answers(dict(zip(names, answers)), peer.run(), "torch")
    finally:
        peer.close()


@pytest.mark.parametrize("name", MODELS)
def test_a_tiny_model_gives_the_answers_of_onnxruntime(name: str) -> None:
    model = load(DATA / f"{name}.onnx")
    known = model.program.env.hints
    for batch, seq in ((1, 17), (3, 64)) if known else ((1, 1),):
        agrees(model, {n: v for n, v in (("batch", batch), ("seq", seq)) if n in known})


def test_a_model_of_the_zoo_gives_the_answers_of_onnxruntime() -> None:
    agrees(zoo.load("squeezenet"), {})


@pytest.mark.parametrize("op", CASES)
def test_an_operator_means_what_it_means_in_onnxruntime(op: str, tmp_path: Path) -> None:
    agrees(of_one_operator(op, tmp_path), {})


@pytest.mark.parametrize("axis", [1, 2])
def test_an_old_softmax_goes_over_all_dims_from_its_axis_on(axis: int, tmp_path: Path) -> None:
    node = helper.make_node("Softmax", ["x"], ["y"], axis=axis)
    agrees(written(tmp_path, [node], IMAGE, ["y"], opset=11), {})


def test_an_operator_without_a_call_is_named(tmp_path: Path) -> None:
    node = helper.make_node("Hardmax", ["x"], ["y"], name="highest")
    model = written(tmp_path, [node], {"x": [1, 8]}, ["y"])
    with pytest.raises(Skipped, match="Hardmax at 'highest' has no PyTorch call here"):
        prepare("torch", model, {"x": np.zeros((1, 8), np.float32)}, 1)


def test_a_form_of_an_operator_that_has_no_call_is_named(tmp_path: Path) -> None:
    from explorer.tuning.peers.torch_peer import torch_plan

    node = helper.make_node("LRN", ["x"], ["y"], name="odd", size=4)
    model = written(tmp_path, [node], IMAGE, ["y"])
    with pytest.raises(UnsupportedOperator, match="LRN at 'odd'"):
        torch_plan(model.program)


def test_weights_are_shared_and_values_let_go() -> None:
    from explorer.tuning.peers.torch_peer import torch_plan

    model = load(DATA / "tiny_resnet18.onnx")
    plan = torch_plan(model.program)
    shared = {c.array.ctypes.data for c in model.program.constants.values()}
    assert {t.data_ptr() for t in plan.frame if t is not None} <= shared
    freed = [slot for step in plan.steps for slot in step.dead]
    assert len(freed) == len(set(freed)) and not set(freed) & set(plan.outputs)
    assert all(plan.frame[slot] is None for slot in freed)


def test_the_thread_count_is_put_back_where_the_first_run_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails() -> None:
        raise RuntimeError("no room")

    form = SimpleNamespace(name="failing", run=fails)
    monkeypatch.setattr("explorer.tuning.peers.torch_peer.eager", lambda *_: form)
    before = torch.get_num_threads()
    with pytest.raises(Skipped, match="torch cannot run it: no room"):
        prepare("torch", load(DATA / "tiny_resnet18.onnx"), {}, before + 1)
    assert torch.get_num_threads() == before


def test_the_thread_count_is_set_for_the_race_and_put_back() -> None:
    before = torch.get_num_threads()
    model = load(DATA / "tiny_resnet18.onnx")
    peer = prepare("torch", model, random_inputs(model.program, {}), before + 1)
    assert torch.get_num_threads() == before + 1
    peer.close()
    assert torch.get_num_threads() == before
