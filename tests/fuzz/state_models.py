"""The small models that odd states are tried on, as files."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.two_inputs import two_inputs

DATA = Path(__file__).parents[1] / "data"


def _attention() -> onnx.ModelProto:
    """Scores, softmax, shares: what Welder joins and softmax walks in blocks."""
    rng = np.random.default_rng(0)
    keys = rng.standard_normal((2, 16, 33)).astype(np.float32)
    values = rng.standard_normal((2, 33, 16)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "k"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["shares"], axis=-1),
        helper.make_node("MatMul", ["shares", "v"], ["product"]),
        helper.make_node("Relu", ["product"], ["y"]),
    ]
    return _model(nodes, ["batch", 9, 16], {"k": keys, "v": values}, "attention")


def _convolutions() -> onnx.ModelProto:
    """Two convolutions and a pool."""
    rng = np.random.default_rng(1)
    first = rng.standard_normal((8, 3, 3, 3)).astype(np.float32)
    second = rng.standard_normal((8, 1, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["c"], pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Conv", ["r", "b"], ["d"], pads=[1] * 4, group=8),
        helper.make_node("GlobalAveragePool", ["d"], ["y"]),
    ]
    return _model(nodes, [1, 3, 9, 17], {"a": first, "b": second}, "convolutions")


def _model(
    nodes: list[onnx.NodeProto], shape: list[int | str], weights: dict[str, np.ndarray], name: str
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def _written() -> dict[str, Path]:
    folder = Path(tempfile.mkdtemp(prefix="ironworks-fuzz-models-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    found = {"skip": DATA / "tiny_skip.onnx", "while": DATA / "tiny_while.onnx"}
    drawn = {"two": two_inputs(), "attention": _attention(), "convolutions": _convolutions()}
    for name, model in drawn.items():
        found[name] = folder / f"{name}.onnx"
        found[name].write_bytes(model.SerializeToString())
    return found


MODELS = _written()
