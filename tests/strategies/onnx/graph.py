"""A graph being drawn: nodes are added one by one, their types inferred by onnx's own rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference

from tests.strategies.choices import Choices, Refused

EXTENTS = (1, 1, 1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 19, 23, 31, 33, 37, 64, 65)
FLOATS = ("float32", "float16", "float64")
WHOLE = ("int64", "int32", "int8", "uint8")
MOST_ELEMENTS = 6000

Extent = int | str  # a string is a symbol


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of the graph; `constant` where it is an initializer."""

    name: str
    dtype: str
    shape: tuple[Extent, ...]
    constant: np.ndarray | None = None

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def static(self) -> bool:
        """Whether every extent is a number."""
        return all(isinstance(n, int) for n in self.shape)

    @property
    def extents(self) -> tuple[int, ...]:
        """The shape as numbers; Refused where there is a symbol."""
        if not self.static:
            raise Refused
        return tuple(n for n in self.shape if isinstance(n, int))

    def extent(self, axis: int) -> int:
        """One extent as a number; Refused where it is a symbol."""
        found = self.shape[axis]
        if isinstance(found, str):
            raise Refused
        return found


class Graph:
    """Nodes, inputs and constants so far. `hints` are example sizes of the symbols."""

    def __init__(self, choices: Choices, opset: int, outer: Graph | None = None) -> None:
        self.choices, self.opset, self.outer = choices, opset, outer
        self.one, self.chance, self.number = choices.one, choices.chance, choices.number
        self.rng = choices.rng if outer is None else outer.rng
        self.values: list[Value] = []
        self.inputs: list[Value] = []
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self.hints: dict[str, int] = {} if outer is None else outer.hints
        self.root: Graph = self if outer is None else outer.root
        self.count = 0

    def fresh(self) -> str:
        """A name that nothing has."""
        self.root.count += 1
        return f"v{self.root.count}"

    def input(self, dtype: str, shape: Sequence[Extent]) -> Value:
        """A new input of the graph."""
        found = Value(
            f"x{len(self.inputs)}" if self.outer is None else self.fresh(), dtype, tuple(shape)
        )
        self.inputs.append(found)
        self.values.append(found)
        return found

    def constant(self, array: Any, dtype: str = "") -> Value:
        """A new initializer."""
        made = np.asarray(array, dtype or None)
        found = Value(self.fresh(), made.dtype.name, made.shape, made)
        self.constants[found.name] = made
        return found

    def whole(self, *numbers: int) -> Value:
        """A row of int64."""
        return self.constant(np.array(numbers, np.int64))

    def elements(self, value: Value) -> int:
        """How many elements there are at the hints."""
        return prod(self.hints.get(n, 7) if isinstance(n, str) else n for n in value.shape)

    def pick(
        self,
        dtypes: Sequence[str] = FLOATS,
        ranks: Sequence[int] = (1, 2, 3, 4, 5),
        where: Callable[[Value], bool] = lambda value: True,
    ) -> Value:
        """A value of the graph, late ones more often; Refused where there is none."""
        found = [v for v in self.values if v.dtype in dtypes and v.rank in ranks and where(v)]
        if not found:
            raise Refused
        late = found[-4:]
        return self.one(late if self.chance(0.6) else found)

    def axis(self, value: Value) -> int:
        """An axis, from either end."""
        if not value.rank:
            raise Refused
        return self.number(-value.rank, value.rank - 1)

    def add(self, op: str, *args: Value | None, results: int = 1, **attributes: Any) -> Value:
        """The first result of a new node; Refused where onnx infers no type for it."""
        found: Value = self.add_all(op, *args, results=results, **attributes)[0]
        return found

    def add_all(
        self, op: str, *args: Value | None, results: int = 1, **attributes: Any
    ) -> list[Value]:
        """Every result of a new node."""
        while args and args[-1] is None:
            args = args[:-1]
        names = [self.fresh() for _ in range(results)]
        node = helper.make_node(
            op,
            ["" if a is None else a.name for a in args],
            names,
            name=f"{op}_{names[0]}",
            **attributes,
        )
        found = self.inferred(node, [a for a in args if a is not None])
        if any(self.elements(v) > MOST_ELEMENTS * 4 for v in found):
            raise Refused
        self.nodes.append(node)
        self.values += found
        return found

    def inferred(self, node: onnx.NodeProto, args: Sequence[Value]) -> list[Value]:
        """The results of a node with their types."""
        types = {a.name: type_of(a) for a in args}
        data = {
            a.name: numpy_helper.from_array(a.constant, a.name)
            for a in args
            if a.constant is not None
        }
        try:
            schema = onnx.defs.get_schema(node.op_type, self.opset, "")
            found = shape_inference.infer_node_outputs(
                schema, node, types, data, opset_imports=[helper.make_opsetid("", self.opset)]
            )
        except Exception as problem:  # onnx raises errors of several kinds, some of C++
            raise Refused from problem
        return [self._value(name, found.get(name)) for name in node.output]

    def _value(self, name: str, kind: onnx.TypeProto | None) -> Value:
        if kind is None or not kind.tensor_type.HasField("shape"):
            raise Refused
        dims: list[Extent] = []
        for d in kind.tensor_type.shape.dim:
            match d.WhichOneof("value"):
                case "dim_value":
                    dims.append(d.dim_value)
                case "dim_param":
                    dims.append(d.dim_param)
                case _:
                    dims.append(f"unknown_{self.fresh()}")
        if any(isinstance(n, int) and n < 0 for n in dims):
            raise Refused
        dtype = helper.tensor_dtype_to_np_dtype(kind.tensor_type.elem_type).name
        return Value(name, dtype, tuple(dims))

    def body(self, name: str, outputs: Sequence[Value]) -> onnx.GraphProto:
        """This graph as a body of If, Loop or Scan."""
        return helper.make_graph(
            self.nodes,
            name,
            [info_of(v) for v in self.inputs],
            [info_of(v) for v in outputs],
            [numpy_helper.from_array(a, n) for n, a in self.constants.items()],
        )


def type_of(value: Value) -> onnx.TypeProto:
    """The type of a value as onnx writes it; a shape that only a run knows has no names."""
    dims = [None if str(n).startswith("unknown") else n for n in value.shape]
    return helper.make_tensor_type_proto(code(value.dtype), dims)


def code(dtype: str) -> int:
    """The number of an element type in ONNX files."""
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def info_of(value: Value) -> onnx.ValueInfoProto:
    """A value as a typed input or output."""
    return helper.make_value_info(value.name, type_of(value))
