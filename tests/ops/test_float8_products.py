"""Products with weights that are dequantized from float8, against NumPy in float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from ml_dtypes import float8_e4m3fn
from onnx import TensorProto, helper

import explorer
from explorer.ops.interpreter.evaluate import evaluate
from tests.ops.test_low_bit_products import loaded

DEPTH, COLUMNS = 70, 40
CODES = np.arange(256, dtype=np.uint8)


def codes(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Random finite float8, all of them among many."""
    finite = CODES[np.isfinite(CODES.view(float8_e4m3fn).astype(np.float32))]
    drawn = np.random.default_rng(seed).choice(finite, shape)
    drawn.reshape(-1)[: len(finite)] = finite
    return drawn.view(float8_e4m3fn)


# The shape of the scales, the axis and the block, and how the product reads the weights.
FORMS: dict[str, tuple[tuple[int, ...], int, int, str]] = {
    "by column": ((COLUMNS,), 1, 0, "MatMul"),
    "one scale": ((), 1, 0, "MatMul"),
    "blocks": ((5, COLUMNS), 0, 16, "MatMul"),
    "by row, transposed": ((COLUMNS,), 0, 0, "Transpose"),
    "blocks along rows, transposed": ((COLUMNS, 3), -1, 32, "Transpose"),
    "by row, Gemm": ((COLUMNS,), 0, 0, "Gemm"),
    "blocks along rows, Gemm": ((COLUMNS, 3), 1, 32, "Gemm"),
}


def model(form: str, rows: Any) -> tuple[onnx.ModelProto, np.ndarray, np.ndarray | float]:
    """A model of one product, its weights [K, N] in float64, and its bias."""
    shape, axis, block, op = FORMS[form]
    by_rows = op != "MatMul"
    q = codes((COLUMNS, DEPTH) if by_rows else (DEPTH, COLUMNS))
    scales = np.random.default_rng(1).uniform(0.001, 0.002, shape).astype(np.float32)
    spread: Any = scales
    if block:
        spread = np.repeat(scales, block, axis=axis).take(range(DEPTH), axis=axis)
    elif by_rows and shape:
        spread = scales[:, None]
    weights = q.astype(np.float64) * spread
    bias = np.random.default_rng(2).standard_normal(COLUMNS).astype(np.float32)
    attrs = {"axis": axis, **({"block_size": block} if block else {})}
    nodes = [helper.make_node("DequantizeLinear", ["q", "scale"], ["w"], **attrs)]
    if op == "Gemm":
        nodes.append(helper.make_node("Gemm", ["x", "w", "bias"], ["y"], transB=1))
    elif op == "Transpose":
        nodes.append(helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0]))
        nodes.append(helper.make_node("MatMul", ["x", "t"], ["y"]))
    else:
        nodes.append(helper.make_node("MatMul", ["x", "w"], ["y"]))
    constants = [
        helper.make_tensor("q", TensorProto.FLOAT8E4M3FN, q.shape, q.tobytes(), raw=True),
        helper.make_tensor("scale", TensorProto.FLOAT, scales.shape, scales.tobytes(), raw=True),
        helper.make_tensor("bias", TensorProto.FLOAT, bias.shape, bias),
    ]
    constants = constants if op == "Gemm" else constants[:2]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, DEPTH])
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, COLUMNS])
    graph = helper.make_graph(nodes, "g", [given], [out], constants)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return proto, weights.T if by_rows else weights, bias if op == "Gemm" else 0.0


@pytest.mark.parametrize("rows", [1, 3, 20])
@pytest.mark.parametrize("form", FORMS)
def test_products_with_float8_weights_are_right(form: str, rows: int, tmp_path: Path) -> None:
    proto, weights, bias = model(form, rows)
    x = np.random.default_rng(rows).standard_normal((rows, DEPTH)).astype(np.float32)
    right = x.astype(np.float64) @ weights + bias
    ours = loaded(proto, tmp_path)
    c = explorer.compile(ours)
    most = 1e-6 * abs(right).max()
    assert abs(evaluate(ours.program, {"x": x})["y"] - right).max() <= most
    assert abs(c.run({"x": x})["y"] - right).max() <= most
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    assert abs(session.run(None, {"x": x})[0] - right).max() <= most
    step = next(s.after for s in c.snapshots if s.name == "keep weights in blocks")
    assert "MatMulFloat8" in {b.expr.op for _, b in step.bindings()}
    matrices = {v.type.dtype for v in c.program.constants.values() if v.size >= DEPTH * COLUMNS}
    assert matrices == {"float8_e4m3fn"}


def test_nan_weights_are_nan_in_their_columns(tmp_path: Path) -> None:
    proto, _, _ = model("by column", 2)
    q = codes((DEPTH, COLUMNS))
    q.view(np.uint8)[3, 5], q.view(np.uint8)[9, 8] = 127, 255
    proto.graph.initializer[0].raw_data = q.tobytes()
    x = np.ones((2, DEPTH), np.float32)
    y = explorer.compile(loaded(proto, tmp_path)).run({"x": x})["y"]
    assert np.flatnonzero(np.isnan(y).all(axis=0)).tolist() == [5, 8]
    assert np.isnan(y).sum() == 4
