"""The light models of the onnx package, with weights that an answer can be wrong by.

As they ship, every weight is 0.02 and every answer 0.001: almost any wrong compiler passes them.
Salted, the same graphs have random weights, and no closing Softmax.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
BATCH_NORM = ("scale", "bias", "mean", "variance")
Shape = tuple[int, ...]


def salted(name: str, seed: int = 0) -> onnx.ModelProto:
    """The light model of that name with random weights; one seed gives one model."""
    made = onnx.load(LIGHT / f"light_{name}.onnx")
    random = np.random.default_rng(seed)
    shapes = _weight_shapes(made)
    roles = _roles(made.graph)
    used = {i for node in made.graph.node for i in node.input}
    kept = [t for t in made.graph.initializer if t.name not in shapes and t.name in used]
    weights = {n: _draw(random, roles.get(n, ""), s) for n, s in shapes.items()}
    kept += [numpy_helper.from_array(a, n) for n, a in weights.items() if n in used]
    del made.graph.initializer[:]
    made.graph.initializer.extend(kept)
    _drop_inputs(made.graph, used, {t.name for t in kept})
    _drop_softmax(made.graph)
    made.ir_version = max(made.ir_version, 8)
    return made


def _weight_shapes(made: onnx.ModelProto) -> dict[str, Shape]:
    """The weights, which are filled by nodes or stand in the file; the nodes are removed."""
    graph = made.graph
    known = {t.name: t for t in graph.initializer}
    shapes: dict[str, Shape] = {}
    for node in list(graph.node):
        if node.op_type == "ConstantOfShape" and node.input[0] in known:
            dims = numpy_helper.to_array(known[node.input[0]])
            shapes[node.output[0]] = tuple(int(d) for d in dims)
            graph.node.remove(node)
    for tensor in graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            shapes.setdefault(tensor.name, tuple(tensor.dims))
    return shapes


def _roles(graph: onnx.GraphProto) -> Mapping[str, str]:
    roles: dict[str, str] = {}
    for node in graph.node:
        if node.op_type == "BatchNormalization":
            roles.update(zip(node.input[1:], BATCH_NORM, strict=True))
        elif node.op_type in ("Conv", "Gemm"):
            roles.update(zip(node.input[1:], ("weight", "bias"), strict=False))
    return roles


def _draw(random: np.random.Generator, role: str, shape: Shape) -> np.ndarray:
    """Weights that keep activations near 1."""
    if role == "weight":
        depth = max(1, int(np.prod(shape[1:])))
        return (random.standard_normal(shape) * np.sqrt(2 / depth)).astype(np.float32)
    if role in ("scale", "variance"):
        return random.uniform(0.5, 1.5, shape).astype(np.float32)
    return (random.standard_normal(shape) * 0.1).astype(np.float32)


def _drop_inputs(graph: onnx.GraphProto, used: set[str], constants: set[str]) -> None:
    inputs = [i for i in graph.input if i.name in used and i.name not in constants]
    del graph.input[:]
    graph.input.extend(inputs)


def _drop_softmax(graph: onnx.GraphProto) -> None:
    last = graph.node[-1]
    if last.op_type == "Softmax":
        graph.output[0].name = last.input[0]
        graph.node.remove(last)
