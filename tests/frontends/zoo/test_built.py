"""The models that the zoo builds: one function each, and what becomes of it."""

from __future__ import annotations

from math import prod

import numpy as np
import onnx
import pytest

from explorer.errors import BadOption
from explorer.frontends import zoo
from explorer.frontends.zoo.layers import Layers, V, Weight
from explorer.frontends.zoo.numpy_layers import NumpyLayers
from explorer.frontends.zoo.onnx_graphs import OnnxLayers
from explorer.frontends.zoo.searched import _halved
from explorer.frontends.zoo.transformers import _mask

BUILT = [n for n, e in zoo.ENTRIES.items() if isinstance(e.source, zoo.Built)]
WELDER = (  # section 5.1 of the paper
    *("bert", "bsrn", "conformer", "mobilenetv2", "mobilevit"),
    *("nafnet", "nerf", "restormer", "swin", "vit"),
)
UNROLLED = ("lstm", "lstm_tc", "seq2seq")  # for a batch of one
RAMMER = ("resnext29", "nasnet", "deepspeech2", *UNROLLED)  # section 5.1, and the tutorial


def written(name: str) -> OnnxLayers:
    source = zoo.entry(name).source
    assert isinstance(source, zoo.Built)
    net = OnnxLayers()
    source.architecture(net)
    return net


def image_of(name: str) -> np.ndarray:
    (size,) = {d.dim_value for d in written(name).graph.input[0].type.tensor_type.shape.dim[2:]}
    return np.random.default_rng(0).standard_normal((1, 3, size, size)).astype(np.float32)


def test_the_models_of_the_papers_are_there_at_two_sizes() -> None:
    assert [size + name for name in WELDER + RAMMER for size in ("", zoo.SMALL)] == BUILT


@pytest.mark.parametrize("name", BUILT)
def test_a_model_has_the_weights_that_its_entry_says(name: str) -> None:
    assert sum(w.count for w in written(name).weights.values()) == zoo.ENTRIES[name].weights


@pytest.mark.parametrize("name", [n for n in BUILT if n.startswith(zoo.SMALL)])
def test_a_graph_is_what_onnx_calls_a_model_and_shapes_agree(name: str) -> None:
    made = zoo.proto(name)
    onnx.checker.check_model(made, full_check=True)
    names = [n.name for n in made.graph.node]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", WELDER + RAMMER)
def test_a_reduced_model_has_every_operator_of_the_full_one(name: str) -> None:
    full, small = ({n.op_type for n in written(s + name).graph.node} for s in ("", zoo.SMALL))
    assert full == small


def test_the_batch_is_symbolic_wherever_there_is_one() -> None:
    for name in BUILT:
        first = written(name).graph.input[0].type.tensor_type.shape.dim[0]
        fixed = name.removeprefix(zoo.SMALL) in ("nerf", *UNROLLED)
        assert first.dim_param == ("" if fixed else "batch")


def test_deep_speech_reads_and_answers_as_many_frames_as_in_the_rammer_paper() -> None:
    net = written("deepspeech2")
    assert [d.dim_value for d in net.graph.input[0].type.tensor_type.shape.dim] == [0, 1, 300, 171]
    assert net.weights["layers.0.input"].shape == (1, 4 * 256, 2752)  # 3008 with the state
    assert [d.dim_value for d in net.graph.output[0].type.tensor_type.shape.dim] == [75, 0, 29]
    assert sum(n.op_type == "LSTM" for n in net.graph.node) == 7


def test_a_cell_of_nasnet_halves_what_lies_two_values_back() -> None:
    """It keeps every fourth pixel twice over: those of even places, and those of odd ones."""
    image = np.arange(16.0, dtype=np.float32).reshape(1, 1, 4, 4)
    seen = NumpyLayers({}, 0)
    seen.weight = lambda name, shape, *_: np.ones(shape, np.float32)  # type: ignore[method-assign]
    halved = _halved(seen, image, 1, 2)
    even, odd = image[:, :, ::2, ::2], image[:, :, 1::2, 1::2]
    np.testing.assert_allclose(halved, np.concatenate([even, odd], 1), atol=1e-4)


def test_one_seed_gives_one_model() -> None:
    first, again, other = (zoo.load("small_vit", seed=seed) for seed in (0, 0, 1))
    assert first.digest == again.digest != other.digest


def test_a_weight_depends_on_its_name_and_seed_alone() -> None:
    weight = Weight("layers.3.query.weight", (5, 7), 0.5)
    np.testing.assert_array_equal(weight.drawn(2), weight.drawn(2))
    assert not np.array_equal(weight.drawn(2), weight.drawn(3))
    assert not np.array_equal(weight.drawn(2), Weight("other", (5, 7), 0.5).drawn(2))


def test_weights_have_their_centre_and_spread_and_are_aligned() -> None:
    drawn = Weight("scale", (200, 300), 0.1, 1.0).drawn(0)
    assert drawn.ctypes.data % 64 == 0 and drawn.dtype == np.float32
    assert abs(drawn.mean() - 1) < 0.01 and abs(drawn.std() - 0.1) < 0.01


def test_a_graph_is_written_without_drawing_a_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Weight, "drawn", None)
    assert prod(written("bert").weights["embeddings.word.weight"].shape) == 30_522 * 768


def test_two_weights_of_one_name_are_refused() -> None:
    net = OnnxLayers()
    net.weight("w", (2,), 1.0)
    net.weight("w", (2,), 1.0)
    with pytest.raises(ValueError, match="two weights are called w"):
        net.weight("w", (3,), 1.0)


def test_a_value_can_be_an_output_and_go_on() -> None:
    def model(net: Layers[V]) -> None:
        x = net.relu(net.input("x", ("batch", 2)))
        net.output("first", x, ("batch", 2))
        net.output("second", net.scale(x, 2.0), ("batch", 2))

    graph = OnnxLayers()
    model(graph)
    onnx.checker.check_model(with_initializers(graph), full_check=True)
    computed = NumpyLayers({"x": np.array([[-1, 3]], np.float32)}, 0)
    model(computed)
    np.testing.assert_array_equal(computed.outputs["second"], [[0, 6]])


def with_initializers(net: OnnxLayers) -> onnx.ModelProto:
    made = net.model()
    for name, array in net.initializers(0):
        made.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return made


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"image": np.zeros((1, 3, 24, 25), np.float32)},
        {"image": np.zeros((1, 3, 24, 24))},
        {"image": np.zeros((3, 24, 24), np.float32)},
    ],
)
def test_the_numpy_run_refuses_inputs_that_do_not_fit(given: dict[str, np.ndarray]) -> None:
    with pytest.raises(BadOption, match=r"'image' is float32\['batch', 3, 24, 24\]"):
        zoo.reference("small_vit", given)


def test_a_file_of_the_onnx_package_has_no_numpy_run() -> None:
    with pytest.raises(BadOption, match="no NumPy reference"):
        zoo.reference("zoo:squeezenet", {})


# What the models are, seen from outside.


def test_rolling_an_image_by_whole_windows_moves_nothing_between_windows() -> None:
    """Swin's mask: with the shift, places that were not neighbours do not see each other."""
    mask = _mask(14, 7, 3)
    assert mask.shape == (4, 1, 49, 49)
    assert not mask[0].any()  # the first window holds neighbours alone
    corner = mask[3, 0].reshape(7, 7, 7, 7)
    assert corner[0, 0, 0, 3] == 0 and corner[0, 0, 0, 4] < 0 and corner[0, 0, 4, 0] < 0
    np.testing.assert_array_equal(mask[:, 0], mask[:, 0].transpose(0, 2, 1))


def test_relative_positions_are_shifted_to_where_they_belong() -> None:
    """Place j seen from place i has the number j - i + frames - 1."""
    from explorer.frontends.zoo.transformers import Conformer

    frames = 5
    net = NumpyLayers({}, 0)
    rows = np.broadcast_to(np.arange(2 * frames - 1.0), (1, 1, frames, 2 * frames - 1))
    found = Conformer(frames=frames, heads=1)._shifted(net, rows)[0, 0]
    i, j = np.indices((frames, frames))
    np.testing.assert_array_equal(found, j - i + frames - 1)


def test_a_restorer_gives_back_the_image_and_a_little() -> None:
    for name in ("small_nafnet", "small_restormer"):
        image = image_of(name)
        clean = zoo.reference(name, {"image": image})["clean"]
        assert np.corrcoef(clean.ravel(), image.ravel())[0, 1] > 0.2
