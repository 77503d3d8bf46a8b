"""Products with weights that are dequantized by blocks, against plain NumPy and the interpreter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import explorer
from explorer.ops.interpreter.evaluate import evaluate

KINDS = {
    "int8": (np.int8, -128, 127),
    "uint8": (np.uint8, 0, 255),
    "int4": (ml_dtypes.int4, -8, 7),
    "uint4": (ml_dtypes.uint4, 0, 15),
}


def model(
    rng: np.random.Generator, kind: str, depth: int, block: int, zeros: bool, axis: int = 0
) -> tuple[onnx.ModelProto, np.ndarray]:
    """A product, and its weights as numbers."""
    dtype, low, high = KINDS[kind]
    columns, blocks = int(rng.integers(1, 40)), -(-depth // block)
    q = rng.integers(low, high, (depth, columns), endpoint=True)
    scale = rng.uniform(0.01, 0.1, (blocks, columns)).astype(np.float32)
    zero = rng.integers(low, high, (blocks, columns), endpoint=True) if zeros else 0 * scale
    spread = [np.repeat(a, block, 0)[:depth] for a in (scale, zero)]
    arrays = {"q": q.astype(dtype), "scale": scale}
    if zeros:
        arrays["zero"] = zero.astype(dtype)
    node = helper.make_node(
        "DequantizeLinear", list(arrays), ["w"], "dequantize", axis=axis, block_size=block
    )
    product = helper.make_node("MatMul", ["x", "w"], ["y"], "product")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", depth])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", columns])
    weights = [numpy_helper.from_array(a, n) for n, a in arrays.items()]
    graph = helper.make_graph([node, product], "g", [x], [y], weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return made, (q - spread[1]) * spread[0]


def compiled(proto: onnx.ModelProto, folder: Path) -> explorer.Compilation:
    onnx.save(proto, folder / "model.onnx")
    return explorer.compile(explorer.load(folder / "model.onnx"))


def operators(c: explorer.Compilation) -> list[str]:
    """Those after the step."""
    program: Any = c.snapshot("keep weights in blocks").after
    return [b.expr.op for _, b in program.bindings()]


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_product_reads_bytes_and_is_right(kind: str, zeros: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(len(kind) + zeros)
    for depth, block in ((64, 32), (37, 16), (16, 16), (200, 64)):
        proto, weights = model(rng, kind, depth, block, zeros, axis=int(rng.choice([0, -2])))
        c = compiled(proto, tmp_path)
        assert operators(c) == ["MatMulNBits"]
        assert {str(k.dtype) for k in (x.array for x in c.program.constants.values())} >= {"int8"}
        for rows in (1, 5):
            x = rng.standard_normal((rows, depth)).astype(np.float32)
            right = x.astype(np.float64) @ weights
            size = (np.abs(x).astype(np.float64) @ np.abs(weights)).max()
            for found in (c.run({"x": x})["y"], evaluate(c.model.program, {"x": x})["y"]):
                assert np.abs(found - right).max() <= 2e-6 * size


def test_other_forms_stay_as_they_are(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for kind, block, axis in (("int8", 8, 0), ("int8", 24, 0)):
        proto, weights = model(rng, kind, 48, block, False, axis)
        c = compiled(proto, tmp_path)
        x = rng.standard_normal((3, 48)).astype(np.float32)
        np.testing.assert_allclose(c.run({"x": x})["y"], x @ weights, rtol=1e-4, atol=1e-4)
        assert "MatMulNBits" not in operators(c)
    proto, _ = model(rng, "int8", 48, 16, False)
    w = helper.make_tensor_value_info("w", TensorProto.FLOAT, [48, None])
    proto.graph.output.append(w)  # the weights are an output, too
    c = compiled(proto, tmp_path)
    assert sorted(operators(c)) == ["DequantizeLinear", "MatMulNBits"]
    found = c.run({"x": x})
    np.testing.assert_allclose(found["y"], x @ found["w"], rtol=1e-4, atol=1e-4)
