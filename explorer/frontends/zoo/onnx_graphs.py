"""ONNX graphs of the zoo: written by the layers, or shipped without weights.

Every weight of the shipped light models is the same small number, so that every answer is 1/1000, a
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
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from explorer.frontends.zoo.layers import Dims, Layers, Weight, aligned

OPSET = 20  # the first version with Gelu
IR_VERSION = 9


class OnnxLayers(Layers[str]):
    """Backend that emits nodes; a value is its name, and weights are drawn on request."""

    def __init__(self) -> None:
        """Create an empty graph."""
        super().__init__()
        self.graph = GraphProto(name="zoo")
        self.weights: dict[str, Weight] = {}
        self.constants: dict[str, np.ndarray] = {}
        self._constant_names: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._names: dict[str, int] = {}
        self._outputs: dict[str, str] = {}  # names of the values that are outputs

    def input(self, name: str, dims: Dims, below: int | None = None) -> str:
        """Add a graph input."""
        kind = TensorProto.FLOAT if below is None else TensorProto.INT64
        self.graph.input.append(helper.make_tensor_value_info(name, kind, list(dims)))
        return name

    def output(self, name: str, value: str, dims: Dims) -> None:
        """Add a graph output and rename the value to it."""
        self._outputs[value] = name
        for node in self.graph.node:
            for names in (node.input, node.output):
                names[:] = [self._outputs.get(n, n) for n in names]
        info = helper.make_tensor_value_info(name, TensorProto.FLOAT, list(dims))
        self.graph.output.append(info)

    def constant(self, array: np.ndarray) -> str:
        """Add a constant; equal ones are shared."""
        key = (str(array.dtype), array.shape, array.tobytes())
        name = self._constant_names.setdefault(key, f"constant_{len(self._constant_names)}")
        self.constants[name] = array
        return name

    def parameter(self, weight: Weight) -> str:
        """Add a weight; raise ValueError if its name has another weight."""
        if self.weights.setdefault(weight.name, weight) != weight:
            raise ValueError(f"two weights are called {weight.name}")
        return weight.name

    def apply(
        self, op: str, *args: str | None, results: int = 1, **attributes: Any
    ) -> tuple[str, ...]:
        """Add a node."""
        name = self._fresh("/" + "/".join((*self._scope, op)))
        out = [f"{name}_output_{n}" for n in range(results)]
        inputs = [self._outputs.get(a, a) if a else "" for a in args]
        node = helper.make_node(op, inputs, out, name=name, **attributes)
        self.graph.node.append(node)
        return tuple(out)

    def _fresh(self, name: str) -> str:
        count = self._names.get(name, 0)
        self._names[name] = count + 1
        return f"{name}_{count}" if count else name

    # Results.

    def model(self) -> ModelProto:
        """Return the graph without its initializers."""
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(self.graph, opset_imports=opsets, ir_version=IR_VERSION)
        model.producer_name = "ironworks"
        return model

    def initializers(self, seed: int) -> Iterator[tuple[str, np.ndarray]]:
        """Yield names and values, one at a time."""
        yield from self.constants.items()
        for name, weight in self.weights.items():
            yield name, weight.drawn(seed)


# Salting.


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
    values = aligned(prod(shape))
    if role in ("scale", "variance"):
        values[:] = random.uniform(0.5, 1.5, values.size)
        return values.reshape(shape)
    scale = sqrt(2.0 / max(1, prod(shape[1:]))) if role == "weight" else 0.1
    for start in range(0, values.size, PIECE):
        piece = values[start : start + PIECE]
        piece[:] = random.standard_normal(piece.size) * scale
    return values.reshape(shape)


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
