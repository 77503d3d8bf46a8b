"""Small ONNX models, written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

DATA = Path(__file__).parent.parent / "data"
FLOAT = TensorProto.FLOAT


def value(name: str, shape: Sequence[Any] | None = None, kind: int = FLOAT) -> onnx.ValueInfoProto:
    """A typed input or output."""
    return helper.make_tensor_value_info(name, kind, shape)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[str],
    constants: dict[str, np.ndarray] | None = None,
    opset: int = 18,
    domains: dict[str, int] | None = None,
) -> onnx.ModelProto:
    """A model of these nodes."""
    weights = [numpy_helper.from_array(a, n) for n, a in (constants or {}).items()]
    results = [onnx.ValueInfoProto(name=o) for o in outputs]
    graph = helper.make_graph(list(nodes), "g", list(inputs), results, weights)
    opsets = {"": opset, **(domains or {})}
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid(d, v) for d, v in opsets.items()], ir_version=10
    )


def saved(made: onnx.ModelProto, folder: Path, name: str = "model.onnx") -> Path:
    """The model as a file."""
    path = folder / name
    path.write_bytes(made.SerializeToString())
    return path


def relu(shape: Sequence[Any] = (2, 3), **more: Any) -> onnx.ModelProto:
    """The smallest model."""
    return model([helper.make_node("Relu", ["x"], ["y"])], [value("x", shape)], ["y"], **more)
