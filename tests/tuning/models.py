"""Small ONNX models, written by hand, and operators that other runtimes must understand alike."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper, save

from explorer.frontends.load import load
from explorer.frontends.model import Model

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


IMAGE = {"x": [2, 8, 9, 11]}
CASES: Mapping[str, tuple[Mapping[str, Any], Sequence[np.ndarray]]] = {  # attributes, arguments
    "MaxPool": ({"kernel_shape": [3, 2], "strides": [2, 1], "pads": [0, 1, 2, 0]}, ()),
    "AveragePool": ({"kernel_shape": [3, 3], "strides": [2, 2], "pads": [0, 0, 1, 1]}, ()),
    "Conv": (
        {"kernel_shape": [3, 3], "pads": [0, 1, 2, 1], "group": 2, "dilations": [1, 2]},
        (np.linspace(-1, 1, 4 * 4 * 9, dtype=np.float32).reshape(4, 4, 3, 3),),
    ),
    "LRN": ({"size": 3, "alpha": 0.1}, ()),
    "GlobalMaxPool": ({}, ()),
    "ReduceMax": ({"keepdims": 0}, (np.array([1, -1]),)),
    "Slice": ({}, (np.array([7, 1]), np.array([-20, 9]), np.array([-1, 2]), np.array([-2, 3]))),
    "Split": ({"axis": 3, "num_outputs": 3}, ()),
    "Squeeze": ({}, ()),
    "Transpose": ({}, ()),
    "Flatten": ({"axis": 2}, ()),
    "Gather": ({"axis": -2}, (np.array([[0, -1], [3, 2]]),)),
    "LogSoftmax": ({"axis": 1}, ()),
    "Pow": ({}, (np.array(2.0, np.float32),)),
    "Clip": ({}, (np.array(-0.5, np.float32), np.array(0.25, np.float32))),
    "Expand": ({}, (np.array([3, 2, 1, 1, 1]),)),
    "Pad": ({}, (np.array([0, 1, 0, 2, 1, 0, 3, 0]), np.array(0.5, np.float32))),
    "DepthToSpace": ({"blocksize": 2}, ()),
    "ReduceL2": ({"keepdims": 1}, (np.array([1, -1]),)),
    "Resize": (
        {"mode": "linear"},
        (np.zeros(0, np.float32), np.zeros(0, np.float32), np.array([2, 8, 5, 16])),
    ),
}


def of_one_operator(op: str, folder: Path) -> Model:
    """A model of one of the cases."""
    attributes, weights = CASES[op]
    named = {f"w{n}": array for n, array in enumerate(weights)}
    outputs = [f"y{n}" for n in range(attributes.get("num_outputs", 1))]
    node = helper.make_node(op, ["x", *named], outputs, **attributes)
    return written(folder, [node], IMAGE, outputs, named)
