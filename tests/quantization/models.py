"""Models with constant products of every form that is quantized."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def write_products(path: Path, seed: int = 0, **gemm: Any) -> dict[str, np.ndarray]:
    """Write an ONNX file: MatMul, MatMul of a transposed weight, and Gemm both ways, in a chain.

    The weights are returned as [inputs, outputs] by their names.
    """
    rng = np.random.default_rng(seed)
    shapes = {"first": (40, 48), "turned": (48, 64), "layer.weight": (64, 50), "last": (50, 33)}
    weights = {n: rng.normal(0, 0.2, s).astype(np.float32) for n, s in shapes.items()}
    bias = {n: rng.standard_normal(k).astype(np.float32) for n, k in (("b3", 50), ("b4", 33))}
    nodes = [
        helper.make_node("MatMul", ["x", "first"], ["h1"], "one"),
        helper.make_node("Relu", ["h1"], ["r1"], "relu"),
        helper.make_node("Transpose", ["turned"], ["t"], "turn", perm=[1, 0]),
        helper.make_node("MatMul", ["r1", "t"], ["h2"], "two"),
        helper.make_node("Tanh", ["h2"], ["r2"], "tanh"),
        helper.make_node("Gemm", ["r2", "layer.weight", "b3"], ["h3"], "three", transB=1),
        helper.make_node("Gemm", ["h3", "last", "b4"], ["y"], "four", **gemm),
    ]
    stored = {
        n: w.T.copy() if n in ("turned", "layer.weight") else w for n, w in weights.items()
    } | bias
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 40])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", 33])
    tensors = [numpy_helper.from_array(a, n) for n, a in stored.items()]
    graph = helper.make_graph(nodes, "g", [x], [y], tensors)
    opsets = [helper.make_opsetid("", 21)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return weights | bias


def results(weights: dict[str, np.ndarray], x: np.ndarray) -> dict[str, np.ndarray]:
    """The left operand of each product, and the output, in float64."""
    w = {n: a.astype(np.float64) for n, a in weights.items()}
    r1 = np.maximum(x @ w["first"], 0)
    r2 = np.tanh(r1 @ w["turned"])
    h3 = r2 @ w["layer.weight"] + w["b3"]
    y = h3 @ w["last"] + w["b4"]
    return {"first": x, "turned": r1, "layer.weight": r2, "last": h3, "y": y}
