"""IREE and ncnn: answers against onnxruntime, and what they refuse."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from explorer.frontends import zoo
from explorer.frontends.model import Model
from explorer.passes.random_inputs import random_inputs
from explorer.tuning.compare import check_answers
from explorer.tuning.peers import ahead_of_time
from explorer.tuning.peers.peer import Skipped
from explorer.tuning.peers.runtimes import prepare
from tests.tuning.models import mlp, written

X = {"x": np.random.default_rng(1).standard_normal((3, 24)).astype(np.float32)}
PACKAGES = {"iree": ("iree.compiler", "iree.runtime"), "ncnn": ("ncnn", "pnnx")}


def _need(name: str) -> None:
    for package in PACKAGES[name]:
        pytest.importorskip(package)


def _compare(name: str, model: Model, inputs: dict[str, np.ndarray], threads: int = 1) -> float:
    """Return the error of a runtime against onnxruntime; both keep the shapes of the outputs."""
    pytest.importorskip("onnxruntime")
    expected = prepare("onnxruntime", model, inputs, threads).run()
    actual = prepare(name, model, inputs, threads).run()
    assert {n: a.shape for n, a in actual.items()} == {n: a.shape for n, a in expected.items()}
    return check_answers(expected, actual, name)


@pytest.mark.parametrize("threads", [1, 2])
def test_iree_computes_a_model_of_symbolic_batch_at_the_given_size(
    threads: int, tmp_path: Path
) -> None:
    _need("iree")
    _compare("iree", mlp(tmp_path), X, threads)


@pytest.mark.parametrize("name", ["iree", "ncnn"])
def test_a_convolutional_network_has_onnxruntimes_answers(name: str) -> None:
    _need(name)
    model = zoo.load("tiny_resnet18", seed=2)
    _compare(name, model, random_inputs(model.program, {"batch": 1}))


@pytest.mark.parametrize("name", ["iree", "ncnn"])
def test_two_outputs_keep_their_names_and_shapes(name: str, tmp_path: Path) -> None:
    _need(name)
    nodes = [
        helper.make_node("Relu", ["x"], ["first"]),
        helper.make_node("Transpose", ["first"], ["second"], perm=[0, 2, 1]),
    ]
    model = written(tmp_path, nodes, {"x": ["rows", 5, 7]}, ["second", "first"])
    _compare(name, model, {"x": np.linspace(-1, 1, 35, dtype=np.float32).reshape(1, 5, 7)})


@pytest.mark.parametrize(("rows", "kind"), [(3, np.float32), (1, np.float64), (0, np.float32)])
def test_ncnn_refuses_what_is_no_single_image(rows: int, kind: type, tmp_path: Path) -> None:
    _need("ncnn")
    with pytest.raises(Skipped, match="of one image"):
        ahead_of_time.ncnn(mlp(tmp_path), {"x": np.zeros((rows, 24), kind)}, 1)


def test_a_missing_part_of_a_runtime_is_named() -> None:
    with pytest.raises(Skipped, match=r"^no_such_module is not installed$"):
        ahead_of_time._modules("json", "no_such_module")
