"""Dequantised weights that stay integers, against onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import explorer

SIDE = 640  # large enough not to be dequantised when the model is compiled


def model(
    op: str, dtype: str, axis: int, zero: int | None, x: list[int], w: tuple[int, ...], **attrs: Any
) -> Any:
    rng = np.random.default_rng(0)
    low, high = (0, 256) if dtype == "uint8" else (-128, 128)
    given = {
        "w": rng.integers(max(low, low + (zero or 0) - 128), high, w).astype(dtype),
        "s": rng.uniform(0.01, 0.02, w[axis]).astype(np.float32),
    }
    if zero is not None:
        given["z"] = np.full(w[axis], zero, dtype)
    nodes = [
        helper.make_node("DequantizeLinear", list(given), ["wf"], axis=axis),
        helper.make_node(op, ["x", "wf"], ["y"], **attrs),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(v, n) for n, v in given.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def compiled_and_equal(proto: Any, path: Path, shape: list[int]) -> list[str]:
    """The dtypes of the packed weights, after the results were found equal."""
    onnx.save(proto, path / "m.onnx")
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    plain = onnxruntime.SessionOptions()  # optimised, it rounds activations to bytes
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    (want,) = onnxruntime.InferenceSession(path / "m.onnx", plain).run(None, {"x": x})
    compiled = explorer.compile(path / "m.onnx")
    got = compiled.run({"x": x})["y"]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * float(np.abs(want).max()))
    return [q.dtype for c in compiled.codes.values() for q in c.tile_program.packings]


@pytest.mark.parametrize(("dtype", "zero"), [("int8", None), ("int8", 0), ("uint8", 128)])
def test_a_scale_by_column_leaves_the_sum(dtype: str, zero: int | None, tmp_path: Path) -> None:
    proto = model("MatMul", dtype, 1, zero, [3, SIDE], (SIDE, SIDE + 1))
    assert compiled_and_equal(proto, tmp_path, [3, SIDE]) == ["int8"]


def test_turned_weights_stay_integers(tmp_path: Path) -> None:
    proto = model("Gemm", "int8", 0, None, [3, SIDE], (SIDE + 1, SIDE), transB=1)
    assert compiled_and_equal(proto, tmp_path, [3, SIDE]) == ["int8"]


def test_weights_of_a_convolution_stay_integers(tmp_path: Path) -> None:
    proto = model("Conv", "int8", 0, None, [1, SIDE, 3, 3], (SIDE, SIDE, 1, 1))
    assert {*compiled_and_equal(proto, tmp_path, [1, SIDE, 3, 3])} == {"int8"}  # once a tiling


def test_a_scale_along_the_sum_stays_inside(tmp_path: Path) -> None:
    proto = model("MatMul", "int8", 0, None, [3, SIDE], (SIDE, SIDE + 1))
    assert "int8" not in compiled_and_equal(proto, tmp_path, [3, SIDE])


def test_integers_that_a_byte_cannot_hold_stay_as_they_are(tmp_path: Path) -> None:
    proto = model("MatMul", "uint8", 1, 3, [3, SIDE], (SIDE, SIDE + 1))
    assert "int8" not in compiled_and_equal(proto, tmp_path, [3, SIDE])
