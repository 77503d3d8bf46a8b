"""Small ONNX models, written by hand."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper, save

from explorer.frontends.model import Model
from explorer.frontends.onnx_import import load

Node = tuple[str, Sequence[str], Sequence[str], Mapping[str, Any]]


def written(
    folder: Path,
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, Sequence[int | str]],
    outputs: Sequence[str],
    weights: Mapping[str, np.ndarray] | None = None,
    opset: int = 18,
) -> Model:
    """A model of float32 inputs, saved to a file and read again."""
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
        [numpy_helper.from_array(a, n) for n, a in (weights or {}).items()],
    )
    path = folder / "small.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    save(model, path)
    return load(path)


def mlp(folder: Path) -> Model:
    """Two layers over a symbolic batch, with a softmax."""
    random = np.random.default_rng(0)
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Gemm", ["r", "w2", "b2"], ["z"], transB=1),
        helper.make_node("Softmax", ["z"], ["y"], axis=-1),
    ]
    weights = {
        "w1": random.standard_normal((24, 32)).astype(np.float32),
        "w2": random.standard_normal((10, 32)).astype(np.float32),
        "b2": random.standard_normal(10).astype(np.float32),
    }
    return written(folder, nodes, {"x": ["batch", 24]}, ["y"], weights)
