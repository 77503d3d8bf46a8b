"""Quantised weights that stay integers, against onnxruntime."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import explorer
import explorer.np as xp
from explorer import tensor

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


def compiled_and_equal(proto: Any, path: Path, shape: list[int]) -> set[str]:
    """The dtypes of the weights that tilings pack, after the results were found equal."""
    onnx.save(proto, path / "m.onnx")
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    plain = onnxruntime.SessionOptions()  # optimised, it rounds activations to bytes
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    (want,) = onnxruntime.InferenceSession(path / "m.onnx", plain).run(None, {"x": x})
    compiled = explorer.compile(path / "m.onnx")
    got = compiled.run({"x": x})["y"]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * float(np.abs(want).max()))
    return {q.dtype for c in compiled.codes.values() for q in c.tile_program.packings}


@pytest.mark.parametrize(("dtype", "zero"), [("int8", None), ("int8", 0), ("uint8", 128)])
def test_a_scale_by_column_leaves_the_sum(dtype: str, zero: int | None, tmp_path: Path) -> None:
    proto = model("MatMul", dtype, 1, zero, [3, SIDE], (SIDE, SIDE + 1))
    assert compiled_and_equal(proto, tmp_path, [3, SIDE]) == {"int8"}


def test_turned_weights_stay_integers(tmp_path: Path) -> None:
    proto = model("Gemm", "int8", 0, None, [3, SIDE], (SIDE + 1, SIDE), transB=1)
    assert compiled_and_equal(proto, tmp_path, [3, SIDE]) == {"int8"}


def test_weights_of_a_convolution_stay_integers(tmp_path: Path) -> None:
    proto = model("Conv", "int8", 0, None, [1, SIDE, 3, 3], (SIDE, SIDE, 1, 1))
    assert compiled_and_equal(proto, tmp_path, [1, SIDE, 3, 3]) == {"int8"}


def test_a_scale_along_the_sum_stays_inside(tmp_path: Path) -> None:
    proto = model("MatMul", "int8", 0, None, [3, SIDE], (SIDE, SIDE + 1))
    assert "int8" not in compiled_and_equal(proto, tmp_path, [3, SIDE])


def test_integers_that_a_byte_cannot_hold_stay_as_they_are(tmp_path: Path) -> None:
    proto = model("MatMul", "uint8", 1, 3, [3, SIDE], (SIDE, SIDE + 1))
    assert "int8" not in compiled_and_equal(proto, tmp_path, [3, SIDE])


def blocked(dtype: int, side: int, axis: int, zero: bool) -> Any:
    """A product by weights of a scale for each block of 32 along one axis."""
    rng = np.random.default_rng(0)
    low, high = {TensorProto.INT8: (-128, 128), TensorProto.UINT4: (0, 16)}[dtype]
    scales = [side, side]
    scales[axis] = -(-side // 32)
    given = [
        helper.make_tensor("w", dtype, [side, side], rng.integers(low, high, side * side).tolist()),
        numpy_helper.from_array(rng.uniform(0.01, 0.02, scales).astype(np.float32), "s"),
    ]
    if zero:
        zeros = rng.integers(0, 4, scales).reshape(-1).tolist()
        given.append(helper.make_tensor("z", dtype, scales, zeros))
    nodes = [
        helper.make_node(
            "DequantizeLinear", [g.name for g in given], ["wf"], axis=axis, block_size=32
        ),
        helper.make_node("MatMul", ["x", "wf"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", side])
    graph = helper.make_graph(nodes, "g", [x], [onnx.ValueInfoProto(name="y")], given)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", [TensorProto.INT8, TensorProto.UINT4])
def test_a_scale_of_blocks_is_right_and_made_once(
    dtype: int, axis: int, zero: bool, tmp_path: Path
) -> None:
    proto = blocked(dtype, SIDE, axis, zero)
    onnx.save(proto, tmp_path / "m.onnx")
    x = np.random.default_rng(1).standard_normal((2, SIDE)).astype(np.float32)
    (want,) = ReferenceEvaluator(proto).run(None, {"x": x})
    c = explorer.compile(tmp_path / "m.onnx")
    np.testing.assert_allclose(c.run({"x": x})["y"], want, rtol=1e-4, atol=1e-3)
    assert len(c.program.kernel_calls) == 1  # what a run does


W8 = np.random.default_rng(2).integers(-127, 128, (SIDE, SIDE)).astype(np.int8)
SCALE = np.linspace(0.01, 0.02, SIDE, dtype=np.float32)


@explorer.trace
def scaled_before(x: tensor("float32", 3, SIDE)) -> Any:
    return x @ (xp.asarray(W8).astype("float32") * SCALE)


@explorer.trace
def scaled_after(x: tensor("float32", 3, SIDE)) -> Any:
    return (x @ xp.asarray(W8).astype("float32")) * SCALE


@pytest.mark.parametrize("function", [scaled_before, scaled_after])
def test_weights_that_are_converted_in_python_stay_integers(function: Any) -> None:
    c = explorer.compile(function)
    assert [p.dtype for k in c.codes.values() for p in k.tile_program.packings] == ["int8"]
    x = np.random.default_rng(1).standard_normal((3, SIDE)).astype(np.float32)
    want = x.astype(np.float64) @ (W8 * SCALE.astype(np.float64))
    (got,) = c.run({"x": x}).values()
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * float(np.abs(want).max()))
