"""Kernels for vectors of 16, 8 and 4 floats, with the register tiles that Roller takes for each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import explorer
from explorer.devices.model import Device
from explorer.measure.this_cpu import this_cpu

WIDTHS = ((16, 32), (8, 16), (4, 16))  # AVX-512, AVX2, any


def narrower(lanes: int, registers: int) -> Device:
    if lanes > this_cpu().lanes:
        pytest.skip("this processor's vectors are narrower")
    return replace(this_cpu(), name=f"cpu-{lanes}", lanes=lanes, registers=registers)


def initial(name: str, *shape: int, dtype: str = "float32") -> Any:
    rng = np.random.default_rng(len(name))
    if dtype == "int8":
        return numpy_helper.from_array(rng.integers(-128, 128, shape).astype(np.int8), name)
    return numpy_helper.from_array((rng.standard_normal(shape) / 4).astype(dtype), name)


def network() -> Any:
    """Convolutions of several kinds, a pool, a product, softmax, in odd sizes."""
    nodes = (
        helper.make_node("Conv", ["x", "w0", "b0"], ["c0"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["c0"], ["r0"]),
        helper.make_node("Conv", ["r0", "w1"], ["c1"], pads=[1, 1, 1, 1], group=13),
        helper.make_node("Conv", ["c1", "w2"], ["c2"]),
        helper.make_node("MaxPool", ["c2"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "w3", "b3"], ["g"]),
        helper.make_node("Softmax", ["g"], ["y"]),
    )
    given = (
        initial("w0", 13, 3, 3, 3), initial("b0", 13), initial("w1", 13, 1, 3, 3),
        initial("w2", 17, 13, 1, 1), initial("w3", 17 * 9, 11), initial("b3", 11),
    )  # fmt: skip
    return model(nodes, "float32", [1, 3, 13, 13], given)


def model(nodes: tuple[Any, ...], dtype: str, shape: list[int], given: tuple[Any, ...]) -> Any:
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    x = helper.make_tensor_value_info("x", code, shape)
    y = onnx.ValueInfoProto(name="y")
    graph = helper.make_graph(list(nodes), "g", [x], [y], list(given))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.few(2)
@pytest.mark.parametrize(("lanes", "registers"), WIDTHS)
def test_a_network_gives_the_same_at_every_width(
    lanes: int, registers: int, tmp_path: Path
) -> None:
    onnx.save(network(), tmp_path / "m.onnx")
    values = {"x": np.random.default_rng(5).standard_normal((1, 3, 13, 13)).astype(np.float32)}
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    (want,) = session.run(None, values)
    compiled = explorer.compile(tmp_path / "m.onnx", target=narrower(lanes, registers))
    np.testing.assert_allclose(compiled.run(values)["y"], want, rtol=1e-4, atol=1e-6)
    for k in compiled.kernels:
        tile = k.tiling.micro
        assert tile.lanes == lanes
        assert tile.registers <= registers


@pytest.mark.parametrize(("lanes", "registers"), WIDTHS)
def test_products_of_bytes_are_exact_at_every_width(
    lanes: int, registers: int, tmp_path: Path
) -> None:
    node = helper.make_node("MatMulInteger", ["x", "w", "zero"], ["y"])
    zero = numpy_helper.from_array(np.array(131, np.uint8), "zero")
    proto = model((node,), "uint8", [9, 31], (initial("w", 31, 19, dtype="int8"), zero))
    onnx.save(proto, tmp_path / "m.onnx")
    compiled = explorer.compile(tmp_path / "m.onnx", target=narrower(lanes, registers))
    for seed, fill in ((0, None), (1, 255), (2, 0)):
        rng = np.random.default_rng(seed)
        x = rng.integers(0, 256, (9, 31)).astype(np.uint8)
        x = x if fill is None else np.full_like(x, fill)
        weights = numpy_helper.to_array(initial("w", 31, 19, dtype="int8")).astype(np.int32)
        want = (x.astype(np.int32) - 131) @ weights
        np.testing.assert_array_equal(compiled.run({"x": x})["y"], want)
