"""Models by name: one seed gives one model, with weights that can be wrong."""

from math import prod
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import explorer
from explorer.errors import BadOption
from explorer.frontends import zoo
from explorer.frontends.zoo.onnx_graphs import salt_graph

SMALL = ("squeezenet", "shufflenet", "densenet121")


def file_of(name: str) -> Path:
    source = zoo.entry(name).source
    assert isinstance(source, zoo.Light)
    return source.path


def test_nine_models_are_files_of_the_onnx_package() -> None:
    shipped = [e for e in zoo.ENTRIES.values() if isinstance(e.source, zoo.Light)]
    assert len(shipped) == 9
    assert all(file_of(entry.name).is_file() for entry in shipped)


@pytest.mark.parametrize("name", SMALL)
def test_a_model_has_the_weights_that_its_entry_says(name: str) -> None:
    weights = [
        t for t in zoo.proto(name).graph.initializer if t.data_type == onnx.TensorProto.FLOAT
    ]
    assert sum(prod(t.dims) for t in weights) == zoo.ENTRIES[name].weights


@pytest.mark.parametrize("name", SMALL)
def test_a_salted_model_is_what_onnx_calls_a_model(name: str) -> None:
    onnx.checker.check_model(zoo.proto(name))


def test_one_seed_gives_one_model() -> None:
    first, again, other = (zoo.load("squeezenet", seed=seed) for seed in (0, 0, 1))
    assert first.digest == again.digest != other.digest


def test_the_model_and_its_file_form_have_the_same_weights() -> None:
    model = zoo.load("squeezenet")
    for tensor in zoo.proto("squeezenet").graph.initializer:
        constant = model.program.constants.get(tensor.name)
        if constant is not None:
            np.testing.assert_array_equal(constant.array, numpy_helper.to_array(tensor))


def test_large_weights_are_aligned_for_vector_loads() -> None:
    _, weights = salt_graph(onnx.load(file_of("squeezenet")))
    drawn = [w for w in weights.values() if w.dtype == np.float32]
    assert drawn and all(w.ctypes.data % 64 == 0 for w in drawn)


def test_answers_of_a_salted_model_differ_and_stay_of_ordinary_size() -> None:
    model = explorer.load("zoo:squeezenet")
    (name,) = model.inputs
    x = np.random.default_rng(0).standard_normal((1, 3, 224, 224)).astype(np.float32)
    (answer,) = explorer.evaluate(model.program, {name: x}).values()
    assert np.isfinite(answer).all()
    assert 0.01 < answer.std() < 100 and np.unique(answer).size > 500


def test_the_closing_softmax_and_constant_inputs_are_gone() -> None:
    model = zoo.proto("resnet50")
    assert model.graph.node[-1].op_type != "Softmax"
    assert [i.name for i in model.graph.input] == ["gpu_0/data_0"]


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(BadOption, match="did you mean 'vgg19'"):
        explorer.load("zoo:vgg16")
