"""The layers as an ONNX graph; a value is its name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, TensorProto, helper

from explorer.frontends.zoo.layers import Dims, Layers
from explorer.frontends.zoo.weights import Weight

OPSET = 20  # the first version with Gelu
IR_VERSION = 9


class OnnxLayers(Layers[str]):
    """Backend that emits nodes; weights are drawn when the graph is requested."""

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
