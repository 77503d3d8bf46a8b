"""Distinct weights for graphs that are shipped without any.

Every weight of the light models is the same small number, so that every answer is 1/1000, a
thousand times. A wrong compiler would pass. Salting draws each weight from one seeded stream:

    Conv and Gemm weights   normal, scaled by sqrt(2 / fan-in): activations keep their size
                            (He et al. 2015)
    scales and variances    uniform in [0.5, 1.5], never near zero
    everything else         normal, scaled by 0.1

It also removes the closing Softmax, which would compress all answers. Shapes and integer constants
stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod, sqrt

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper

ALIGNMENT = 64  # bytes, for vector loads
PIECE = 1 << 20  # values drawn at a time: no second copy of a large weight in float64
LEAST_IR = 8


def salt_graph(model: ModelProto, seed: int = 0) -> tuple[ModelProto, dict[str, np.ndarray]]:
    """Return the graph, changed in place, without its weights, and the weights by name.

    A seed determines the weights.
    """
    graph = model.graph
    filled = dict(_fill_nodes(graph))
    shapes = _weight_shapes(graph, filled)
    for node in filled.values():
        graph.node.remove(node)
    used = {name for node in graph.node for name in node.input}
    weights = {
        t.name: numpy_helper.to_array(t)
        for t in graph.initializer
        if t.name in used and t.name not in shapes
    }
    random, roles = np.random.default_rng(seed), _roles(graph)
    for name, shape in shapes.items():
        if name in used:
            weights[name] = _draw(random, roles.get(name, ""), shape)
    del graph.initializer[:]
    _keep_real_inputs(graph, weights)
    _drop_closing_softmax(graph)
    model.ir_version = max(model.ir_version, LEAST_IR)
    return model, weights


def _fill_nodes(graph: GraphProto) -> Iterator[tuple[str, NodeProto]]:
    """Yield the nodes that fill a weight with one number, by the weight's name."""
    initializer_names = {t.name for t in graph.initializer}
    for node in graph.node:
        if node.op_type == "ConstantOfShape" and node.input[0] in initializer_names:
            yield node.output[0], node


def _weight_shapes(
    graph: GraphProto, filled: Mapping[str, NodeProto]
) -> dict[str, tuple[int, ...]]:
    tensors = {t.name: t for t in graph.initializer}
    shapes = {
        name: tuple(int(d) for d in numpy_helper.to_array(tensors[node.input[0]]))
        for name, node in filled.items()
    }
    for tensor in graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            shapes.setdefault(tensor.name, tuple(tensor.dims))
    return shapes


def _roles(graph: GraphProto) -> dict[str, str]:
    roles: dict[str, str] = {}
    for node in graph.node:
        if node.op_type == "BatchNormalization":
            roles.update(zip(node.input[1:], ("scale", "bias", "mean", "variance")))
        elif node.op_type in ("Conv", "Gemm"):
            roles.update(zip(node.input[1:], ("weight", "bias")))
    return roles


def _draw(random: np.random.Generator, role: str, shape: tuple[int, ...]) -> np.ndarray:
    values = _aligned(prod(shape))
    if role in ("scale", "variance"):
        values[:] = random.uniform(0.5, 1.5, values.size)
        return values.reshape(shape)
    scale = sqrt(2.0 / max(1, prod(shape[1:]))) if role == "weight" else 0.1
    for start in range(0, values.size, PIECE):
        piece = values[start : start + PIECE]
        piece[:] = random.standard_normal(piece.size) * scale
    return values.reshape(shape)


def _aligned(count: int) -> np.ndarray:
    room = np.empty(4 * count + ALIGNMENT, np.uint8)
    skip = -room.ctypes.data % ALIGNMENT
    return room[skip : skip + 4 * count].view(np.float32)


def _keep_real_inputs(graph: GraphProto, weights: Mapping[str, np.ndarray]) -> None:
    """Remove weights and unread values from the inputs."""
    used = {name for node in graph.node for name in node.input}
    inputs = [i for i in graph.input if i.name in used and i.name not in weights]
    del graph.input[:]
    graph.input.extend(inputs)


def _drop_closing_softmax(graph: GraphProto) -> None:
    """Remove a closing Softmax: `z = f(x); y = Softmax(z)` → `z = f(x)`, with output z."""
    last = graph.node[-1]
    if last.op_type == "Softmax":
        graph.output[0].name = last.input[0]
        graph.node.remove(last)
