"""Tensors of every element type, as a file may hold them: packed, raw, as numbers, as texts."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import explorer
from explorer.errors import BadModelFile
from explorer.frontends.load import load
from explorer.ir.dtypes import HOST_DTYPES, ITEM_BYTES, SMALL_INTEGERS, integer_limits, numpy_dtype

random = np.random.default_rng(3)
LARGE, ODD = (37, 61), (3, 5)


def values(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    if dtype in SMALL_INTEGERS:
        low, high = integer_limits(dtype)
        return random.integers(low, high + 1, shape).astype(np.int8).astype(numpy_dtype(dtype))
    if dtype == "string":
        return np.array(["", "é", "abc"] * 5, object)[: int(np.prod(shape))].reshape(shape)
    return (random.standard_normal(shape) * 4).astype(numpy_dtype(dtype))


def model(tensor: TensorProto) -> onnx.ModelProto:
    """A model that gives its one initializer."""
    node = helper.make_node("Identity", [tensor.name], ["y"])
    value = helper.make_tensor_value_info("y", tensor.data_type, list(tensor.dims))
    graph = helper.make_graph([node], "g", [], [value], [tensor])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=13)


def constant(tensor: TensorProto, folder: Path) -> np.ndarray:
    onnx.save(model(tensor), folder / "m.onnx")
    return load(folder / "m.onnx").program.constants[tensor.name].array


@pytest.mark.parametrize("shape", [ODD, LARGE, (0,), ()])
@pytest.mark.parametrize("dtype", sorted(ITEM_BYTES))
def test_raw_data_is_read(dtype: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    array = values(dtype, shape)
    found = constant(numpy_helper.from_array(array, "c"), tmp_path)
    assert found.dtype == array.dtype and found.shape == shape
    np.testing.assert_array_equal(found.astype(np.float64), array.astype(np.float64))


@pytest.mark.parametrize("dtype", ["int4", "uint2", "float4_e2m1fn", "bfloat16", "int64"])
def test_data_in_another_file_is_read(dtype: str, tmp_path: Path) -> None:
    array = values(dtype, LARGE)
    whole = model(numpy_helper.from_array(array, "c"))
    onnx.save(
        whole, tmp_path / "m.onnx", save_as_external_data=True, location="data", size_threshold=0
    )
    found = load(tmp_path / "m.onnx").program.constants["c"].array
    assert found.dtype == array.dtype and (tmp_path / "data").stat().st_size
    np.testing.assert_array_equal(found.astype(np.float64), array.astype(np.float64))


@pytest.mark.parametrize("dtype", sorted(ITEM_BYTES))
def test_data_as_numbers_is_read(dtype: str, tmp_path: Path) -> None:
    array = values(dtype, ODD)
    code = helper.np_dtype_to_tensor_dtype(array.dtype)
    tensor = helper.make_tensor("c", code, ODD, array.ravel())
    found = constant(tensor, tmp_path)
    np.testing.assert_array_equal(found.astype(np.float64), array.astype(np.float64))


@pytest.mark.parametrize("dtype", sorted(SMALL_INTEGERS))
def test_small_integers_come_with_their_sign_in_every_bit(dtype: str, tmp_path: Path) -> None:
    array = values(dtype, ODD)
    found = constant(numpy_helper.from_array(array, "c"), tmp_path)
    plain = np.int8 if dtype.startswith("int") else np.uint8
    np.testing.assert_array_equal(found.view(plain), array.astype(plain))


@pytest.mark.parametrize("dtype", sorted(HOST_DTYPES))
def test_texts_and_complex_numbers_are_read(dtype: str, tmp_path: Path) -> None:
    array = values(dtype, ODD)
    tensor = numpy_helper.from_array(array, "c")
    assert (constant(tensor, tmp_path) == array).all()
    found = explorer.compile(load(tmp_path / "m.onnx")).run({})["y"]
    assert found.dtype == array.dtype and (found == array).all()


@pytest.mark.parametrize("length", [0, 7, 9])
def test_packed_data_of_another_length_is_refused(length: int, tmp_path: Path) -> None:
    tensor = numpy_helper.from_array(values("int4", ODD), "c")
    tensor.raw_data = bytes(length)
    with pytest.raises(BadModelFile, match="takes 8 bytes"):
        constant(tensor, tmp_path)


def test_packed_data_as_too_few_numbers_is_refused(tmp_path: Path) -> None:
    tensor = helper.make_tensor("c", TensorProto.UINT4, ODD, np.zeros(15, np.uint8))
    del tensor.int32_data[3:]
    with pytest.raises(BadModelFile, match="does not fit its shape"):
        constant(tensor, tmp_path)


@pytest.mark.parametrize("length", [3, 2000])
def test_texts_that_are_raw_bytes_are_refused(length: int, tmp_path: Path) -> None:
    tensor = TensorProto(name="c", data_type=TensorProto.STRING, dims=[1], raw_data=b"a" * length)
    with pytest.raises(BadModelFile, match="strings are raw data"):
        constant(tensor, tmp_path)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    tensor = TensorProto(name="c", data_type=TensorProto.STRING, dims=[1], string_data=[b"\xff"])
    with pytest.raises(BadModelFile):
        constant(tensor, tmp_path)


def test_elements_that_nothing_computes_with_are_refused_by_name(tmp_path: Path) -> None:
    tensor = numpy_helper.from_array(np.zeros(4, ml_dtypes.float6_e2m3fn), "c")
    with pytest.raises(BadModelFile, match="FLOAT6E2M3"):
        constant(tensor, tmp_path)


def test_texts_and_kernels_stand_in_one_program(tmp_path: Path) -> None:
    texts = numpy_helper.from_array(np.array(["a", "b", "c"], object), "texts")
    nodes = [
        helper.make_node("Equal", ["x", "texts"], ["same"]),
        helper.make_node("Cast", ["same"], ["real"], to=TensorProto.FLOAT),
        helper.make_node("Exp", ["real"], ["y"]),
        helper.make_node("StringConcat", ["x", "texts"], ["both"]),
    ]
    given = helper.make_tensor_value_info("x", TensorProto.STRING, ["n"])
    results = [onnx.ValueInfoProto(name=n) for n in ("y", "both")]
    graph = helper.make_graph(nodes, "g", [given], results, [texts])
    opset = helper.make_opsetid("", 20)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=9), tmp_path / "m.onnx")
    compiled = explorer.compile(load(tmp_path / "m.onnx"))
    for x in (np.array(["a", "x", "c"], object), np.array(["a", "x", "c"])):
        found = compiled.run({"x": x})
        np.testing.assert_allclose(found["y"], np.exp(np.float32([1, 0, 1])), 1e-6)
        assert list(found["both"]) == ["aa", "xb", "cc"]
