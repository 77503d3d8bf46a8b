"""A file that is damaged, or wants to do harm, ends in one sentence that names it."""

import os
import random
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from explorer.errors import (
    BadModelFile,
    DtypeError,
    IronworksError,
    TooLarge,
    UnsupportedOperator,
)
from explorer.frontends.load import load
from explorer.frontends.onnx.onnx_file import read_onnx
from explorer.relax import deduce, legalize
from tests.examples import examples
from tests.frontends.models import DATA, model, relu, saved, value


def refused(path: Path, words: str, kind: type[IronworksError] = BadModelFile) -> None:
    with pytest.raises(kind, match=words) as caught:
        legalize(deduce(load(path).program))
    assert "\n" not in caught.value.sentence


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    refused(tmp_path / "nothing.onnx", "nothing.onnx")


def test_an_empty_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty.onnx").write_bytes(b"")
    refused(tmp_path / "empty.onnx", "empty.onnx is empty")


@pytest.mark.parametrize(
    "content", [b"hello, world", b"\x00" * 50, b"\x93NUMPY\x01\x00", b"PK\x03\x04abc"]
)
def test_a_file_that_is_not_onnx_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "other.onnx").write_bytes(content)
    refused(tmp_path / "other.onnx", "other.onnx .*is not an ONNX file|is truncated")


@settings(max_examples=examples(60))
@given(st.floats(0, 0.999))
def test_a_truncated_file_is_refused_wherever_it_breaks_off(part: float) -> None:
    whole = (DATA / "tiny_skip.onnx").read_bytes()
    path = Path(os.environ["IRONWORKS_CACHE"]) / "truncated.onnx"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(whole[: int(len(whole) * part)])
    with pytest.raises(BadModelFile, match=r"truncated\.onnx"):
        load(path)


@settings(max_examples=examples(200))
@given(st.randoms(use_true_random=False), st.sampled_from(["skip", "while", "lstm"]))
def test_damaged_bytes_give_a_named_error_or_a_model(chance: random.Random, name: str) -> None:
    content = bytearray((DATA / f"tiny_{name}.onnx").read_bytes())
    for _ in range(chance.choice([1, 2, 5])):
        at = chance.randrange(min(len(content), 8000))
        content[at : at + chance.randrange(3)] = bytes(
            chance.randrange(256) for _ in range(chance.randrange(4))
        )
    path = Path(os.environ["IRONWORKS_CACHE"]) / "damaged.onnx"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    try:
        legalize(deduce(load(path).program))
    except IronworksError as error:
        assert error.sentence


ODD = [0, 1, -1, 2, 5, 2**31, 2**63 - 1, -(2**63)]


def _twist(made: onnx.ModelProto, chance: random.Random) -> None:
    """One thing of the model changed: an attribute, an edge, an extent, an operator."""
    node = chance.choice(made.graph.node)
    match chance.randrange(5):
        case 0 if node.attribute:
            attribute = chance.choice(node.attribute)
            attribute.i = chance.choice(ODD)
            if attribute.type == AttributeProto.INTS and attribute.ints:
                attribute.ints[chance.randrange(len(attribute.ints))] = chance.choice(ODD)
        case 1 if node.input:
            node.input[chance.randrange(len(node.input))] = chance.choice(made.graph.node).output[0]
        case 2 if made.graph.initializer:
            tensor = chance.choice(made.graph.initializer)
            array = np.array(numpy_helper.to_array(tensor))
            if tensor.data_type == TensorProto.INT64 and array.size:
                array.reshape(-1)[chance.randrange(array.size)] = chance.choice(ODD)
                tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
        case 3:
            node.op_type = chance.choice(
                [
                    "Conv",
                    "Reshape",
                    "MatMul",
                    "Slice",
                    "Concat",
                    "Split",
                    "If",
                    "Expand",
                    "Pad",
                    "Nope",
                ]
            )
        case _:
            dims = made.graph.input[0].type.tensor_type.shape.dim
            dims[chance.randrange(len(dims))].dim_value = chance.choice(ODD)


@settings(max_examples=examples(100))
@given(
    st.randoms(use_true_random=False),
    st.sampled_from(["bert", "gpt2", "lstm", "resnet18", "while"]),
)
def test_a_twisted_model_gives_a_named_error_or_a_program(chance: random.Random, name: str) -> None:
    made = onnx.load(DATA / f"tiny_{name}.onnx")
    _twist(made, chance)
    path = saved(made, Path(os.environ["IRONWORKS_CACHE"]), "twisted.onnx")
    try:
        legalize(deduce(load(path).program))
    except IronworksError as error:
        assert error.sentence


def test_an_unknown_operator_domain_is_named(tmp_path: Path) -> None:
    node = helper.make_node("Swish", ["x"], ["y"], name="act", domain="com.acme")
    made = model([node], [value("x", [2])], ["y"], domains={"com.acme": 1})
    refused(
        saved(made, tmp_path),
        "Swish at 'act' is of the operator domain 'com.acme'",
        UnsupportedOperator,
    )


def test_an_operator_that_onnx_does_not_have_is_named(tmp_path: Path) -> None:
    made = model([helper.make_node("Frobnicate", ["x"], ["y"], name="f")], [value("x", [2])], ["y"])
    refused(saved(made, tmp_path), "Frobnicate at 'f'", UnsupportedOperator)


def test_a_version_of_the_operator_set_that_is_too_old_is_named(tmp_path: Path) -> None:
    refused(saved(relu(opset=6), tmp_path), "version 6 of the operator set", UnsupportedOperator)


def test_a_value_that_nothing_makes_is_named(tmp_path: Path) -> None:
    made = model([helper.make_node("Relu", ["ghost"], ["y"])], [value("x", [2])], ["y"])
    refused(saved(made, tmp_path), "'ghost' before any node defines it")


def test_a_value_that_two_nodes_make_is_named(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Abs", ["x"], ["y"])]
    refused(saved(model(nodes, [value("x", [2])], ["y"]), tmp_path), "'y' twice")


def test_an_attribute_that_onnx_has_not_is_named(tmp_path: Path) -> None:
    made = model([helper.make_node("Relu", ["x"], ["y"], secret=1)], [value("x", [2])], ["y"])
    refused(saved(made, tmp_path), "'secret'")


def test_a_tensor_whose_bytes_do_not_fit_its_shape_is_named(tmp_path: Path) -> None:
    for rows in (600, 3):  # read straight from the file, and in the graph
        made = model(
            [helper.make_node("Add", ["x", "w"], ["y"])],
            [value("x", [1])],
            ["y"],
            {"w": np.zeros(rows, np.float32)},
        )
        made.graph.initializer[0].dims[0] = rows + 1
        refused(saved(made, tmp_path), f"'w': float32.{rows + 1}. takes")


def test_a_shape_that_cannot_be_is_named(tmp_path: Path) -> None:
    made = model(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        [value("x", [1])],
        ["y"],
        {"w": np.zeros(600, np.float32)},
    )
    made.graph.initializer[0].dims[:] = [2**40, 2**40]
    refused(saved(made, tmp_path), "'w' with the impossible shape")


def test_a_shape_that_would_fill_the_memory_is_refused(tmp_path: Path) -> None:
    node = helper.make_node("ConstantOfShape", ["s"], ["c"], name="fill")
    more = helper.make_node("Add", ["x", "c"], ["y"])
    made = model([node, more], [value("x", [1])], ["y"], {"s": np.array([1 << 20, 1 << 20])})
    refused(saved(made, tmp_path), "equal elements", TooLarge)


def test_elements_without_kernels_are_named(tmp_path: Path) -> None:
    six_bits = np.zeros(1, ml_dtypes.float6_e2m3fn)
    made = model([helper.make_node("Identity", ["w"], ["y"])], [], ["y"], {"w": six_bits})
    refused(saved(made, tmp_path), "'w' with elements of type FLOAT6E2M3")


def test_dtypes_that_onnx_does_not_allow_together_are_named(tmp_path: Path) -> None:
    made = model(
        [helper.make_node("Add", ["x", "w"], ["y"], name="sum")],
        [value("x", [1])],
        ["y"],
        {"w": np.array([1])},
    )
    refused(saved(made, tmp_path), "Add at 'sum': its argument 'B' is int64", DtypeError)


@pytest.mark.exhaustive
def test_graphs_nested_without_end_are_refused(tmp_path: Path) -> None:
    inner = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])], "g", [], [onnx.ValueInfoProto(name="y")]
    )
    for _ in range(40):
        node = helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)
        inner = helper.make_graph([node], "g", [], [onnx.ValueInfoProto(name="y")])
        if inner.ByteSize() > 1 << 20:
            break
    made = model(inner.node, [value("x", [1]), value("c", [], TensorProto.BOOL)], ["y"])
    try:
        load(saved(made, tmp_path))
    except IronworksError as error:
        assert error.sentence


# External data.


def external(folder: Path, location: str, **entries: int) -> Path:
    made = model(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        [value("x", [4])],
        ["y"],
        {"w": np.arange(4, dtype=np.float32)},
    )
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, entry in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(entry))
    return saved(made, folder)


def test_external_data_beside_the_model_is_read(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(b"skip" + np.arange(4, dtype=np.float32).tobytes())
    path = external(tmp_path, "w.bin", offset=4, length=16)
    np.testing.assert_array_equal(read_onnx(path).initializers["w"], np.arange(4))


@pytest.mark.parametrize("location", ["../w.bin", "/etc/passwd", "a/../../w.bin", "", "link.bin"])
def test_external_data_stays_in_the_models_folder(location: str, tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(16))
    folder = tmp_path / "inner"
    folder.mkdir()
    (folder / "link.bin").symlink_to(tmp_path / "w.bin")
    refused(external(folder, location), "outside of the model's folder")


@pytest.mark.parametrize(
    "place", [{"offset": 8}, {"offset": -4}, {"length": 99}, {"offset": 0, "length": 8}]
)
def test_external_data_that_does_not_fit_is_named(place: dict[str, int], tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(16))
    refused(external(tmp_path, "w.bin", **place), "'w'")


def test_a_pipe_is_not_read_as_external_data(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    refused(external(tmp_path, "pipe"), "not a file")
