"""One operator at one batch: its values, and the models of it that each runtime is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod, sqrt
from pathlib import Path
from zlib import crc32

import numpy as np
import onnx
from onnx import NodeProto, helper, numpy_helper

from explorer.cached_property import cached_property
from explorer.frontends.load import load
from explorer.frontends.model import Model
from tests.benchmarks.single_kernels.operators import Operator

OPSET, IR_VERSION = 20, 9
LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)  # channels last from channels first, and back


@dataclass(frozen=True)
class Case:
    """An operator at a batch, with random values that are the same in every run, of a type."""

    operator: Operator
    batch: int
    dtype: str = "float32"

    @cached_property
    def inputs(self) -> dict[str, np.ndarray]:
        """The values of its inputs by name, images with channels first."""
        return {
            f"x{n}": self._values(n, shape)
            for n, shape in enumerate(self.operator.shapes(self.batch))
        }

    @cached_property
    def weights(self) -> dict[str, np.ndarray]:
        """The values of its constants by name."""
        found = {
            f"w{n}": _random(n, shape, _spread(shape)).astype(self.dtype)
            for n, shape in enumerate(self.operator.weights)
        }
        return found | {f"p{n}": value for n, value in enumerate(self.operator.parameters)}

    def _values(self, n: int, shape: tuple[int, ...]) -> np.ndarray:
        if self.operator.choices:
            return np.random.default_rng(n).integers(0, self.operator.choices, shape)
        return _random(n, shape, 1.0).astype(self.dtype)

    @property
    def operations(self) -> int:
        """Floating-point operations, a multiply-add as two; 0 where bytes are what counts."""
        return self.operator.operations * self.batch

    def channels_last(self) -> dict[str, np.ndarray]:
        """The same inputs, images with channels last."""
        if not self.operator.is_image:
            return self.inputs
        return {n: np.ascontiguousarray(x.transpose(LAST)) for n, x in self.inputs.items()}

    def proto(self) -> onnx.ModelProto:
        """The operator as it stands in a file, images with channels first."""
        o = self.operator
        names = [*self.inputs, *self.weights]
        if o.choices:  # a Gather reads the table first
            names = [*self.weights, *self.inputs]
        return self._model([helper.make_node(o.op, names, ["y"], **o.attrs)], self.inputs)

    def proto_channels_last(self) -> onnx.ModelProto:
        """The same between two transposes, which are free where channels lie last."""
        o = self.operator
        if not o.is_image:
            return self.proto()
        inner = {n: f"{n}.first" for n in self.inputs}
        names = [*inner.values(), *self.weights]
        nodes = [helper.make_node("Transpose", [n], [inner[n]], perm=FIRST) for n in inner]
        nodes.append(helper.make_node(o.op, names, ["y.first"], **o.attrs))
        nodes.append(helper.make_node("Transpose", ["y.first"], ["y"], perm=LAST))
        return self._model(nodes, self.channels_last())

    def _model(self, nodes: list[NodeProto], inputs: Mapping[str, np.ndarray]) -> onnx.ModelProto:
        def info(name: str, x: np.ndarray) -> onnx.ValueInfoProto:
            return helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape
            )

        kind = helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        graph = helper.make_graph(
            nodes,
            self.operator.name,
            [info(n, x) for n, x in inputs.items()],
            [helper.make_tensor_value_info("y", kind, None)],
            [numpy_helper.from_array(x, n) for n, x in self.weights.items()],
        )
        opset = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION)


def written(proto: onnx.ModelProto, folder: Path) -> Model:
    """The model, read back from a file in the folder; its path is that file."""
    path = folder / f"{proto.graph.name}.{crc32(proto.SerializeToString()):08x}.onnx"
    onnx.save(proto, str(path))
    return load(path)


def _random(seed: int, shape: tuple[int, ...], spread: float) -> np.ndarray:
    found: np.ndarray = np.random.default_rng(seed).standard_normal(shape, np.float32)
    return found * np.float32(spread)


def _spread(shape: tuple[int, ...]) -> float:
    """Results of about 1, whatever is summed."""
    summed = prod(shape[1:]) if len(shape) == 4 else shape[0] if len(shape) == 2 else 1
    return 1 / sqrt(summed)
