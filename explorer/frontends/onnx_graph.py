"""ONNX nodes become bindings; subgraphs become functions, and what they capture parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import onnx

from explorer.errors import BadModelFile, UnsupportedOperator
from explorer.frontends.onnx_file import checked_shape, small_array, tensor_dtype
from explorer.frontends.opsets import Node, modern
from explorer.frontends.schema import check_node
from explorer.ir.calls import AttrValue, Branch, Expr, Loop, OpCall, Var
from explorer.ir.program import Binding, Constant, Function, SourceOp
from explorer.ir.types import Annotation, Tensor
from explorer.ops import RECORDS

UNKNOWN = Tensor()
MAX_FILLED_BYTES = 1 << 31  # all ConstantOfShape of a model together
MAX_DEPTH = 32
OUR_DOMAINS = ("", "ai.onnx")


class Importer:
    """One model being imported: the functions, constants and sources found so far."""

    def __init__(
        self, opset: int, constants: dict[str, Constant], outer_names: frozenset[str] = frozenset()
    ) -> None:
        self.opset, self.constants, self.outer_names = opset, constants, outer_names
        self.filled_bytes = 0
        self.functions: list[Function] = []
        self.sources: list[SourceOp] = []
        self.dropped: list[tuple[str, str]] = []
        self.node_names: dict[str, int] = {}
        self.value_names: dict[str, int] = dict.fromkeys(constants, 1)

    def node_name(self, node: onnx.NodeProto) -> str:
        """The node's name, or one made from its operator; no two are the same."""
        name = _fresh(node.name or f"{node.op_type}_{len(self.sources)}", self.node_names)
        self.sources.append(SourceOp(name, node.op_type, next(iter(node.output), "")))
        return name

    def value(self, name: str, type: Annotation = UNKNOWN, *, inner: bool = False) -> Var:
        """A new value; one of an inner graph is renamed if the program has one of that name."""
        if inner and name in self.outer_names:
            name = f"{name}.inner"
        return Var(_fresh(name, self.value_names), type)

    def constant(self, name: str, array: np.ndarray, *, inner: bool = False) -> Var:
        """A new constant of the program."""
        constant = Constant(array)
        made = self.value(name, constant.type, inner=inner)
        self.constants[made.name] = constant
        return made

    def drop(self, name: str, reason: str) -> None:
        """Say why a source operator will be in no kernel."""
        self.dropped.append((name, reason))


def _fresh(name: str, taken: dict[str, int]) -> str:
    """The name, or the name and a number; `taken` counts how often each was asked for."""
    found = name
    while found in taken:
        taken[name] += 1
        found = f"{name}.{taken[name]}"
    taken[found] = 1
    return found


class Scope:
    """The values that a graph's nodes see: its own, and those it captures from around it."""

    def __init__(
        self, importer: Importer, name: str, outer: Scope | None = None, depth: int = 0
    ) -> None:
        if depth > MAX_DEPTH:
            raise BadModelFile(f"nests more than {MAX_DEPTH} graphs")
        self.importer, self.name, self.outer, self.depth = importer, name, outer, depth
        self.values: dict[str, Var] = {}
        self.captured: dict[str, Var] = {}  # the outer graph's name -> our parameter
        self.body: list[Binding] = []

    def define(self, name: str, type: Annotation = UNKNOWN) -> Var:
        """A new value of this graph."""
        if name in self.values:
            raise BadModelFile(f"makes the value {name!r} twice")
        made = self.values[name] = self.importer.value(name, type, inner=self.outer is not None)
        return made

    def find(self, name: str) -> Var:
        """The value of that name; captured if only the graph around has it."""
        found = self.values.get(name) or self.captured.get(name)
        if found is not None:
            return found
        if self.outer is None:
            raise BadModelFile(f"reads the value {name!r} before any node makes it")
        outside = self.outer.find(name)
        if outside.name in self.importer.constants:
            return outside
        inside = self.importer.value(f"{self.name}.{name}", outside.type, inner=True)
        self.captured[name] = inside
        return inside


def import_graph(scope: Scope, graph: onnx.GraphProto) -> tuple[Var, ...]:
    """Bind every node of a graph, in order; its outputs."""
    for tensor in graph.initializer:  # those of the main graph have been read before
        array = small_array(tensor)
        scope.values[tensor.name] = scope.importer.constant(tensor.name, array, inner=True)
    for node in graph.node:
        import_node(scope, node)
    return tuple(scope.find(o.name) for o in graph.output)


def import_node(scope: Scope, proto: onnx.NodeProto) -> None:
    """Bind one node, or make its result a constant."""
    importer = scope.importer
    name = importer.node_name(proto)
    if proto.domain not in OUR_DOMAINS:
        raise UnsupportedOperator(
            f"{proto.op_type} at {name!r} is of the operator domain {proto.domain!r}; "
            "only ONNX's own operators are known",
            where=name,
        )
    check_node(proto, name, importer.opset)
    match proto.op_type:
        case "If":
            _import_if(scope, proto, name)
        case "Loop":
            _import_loop(scope, proto, name)
        case "Constant":
            _constant(scope, proto.output[0], _constant_value(proto, name))
            importer.drop(name, "became a constant")
        case _:
            node = Node(
                proto.op_type,
                name,
                tuple(proto.input),
                tuple(proto.output),
                _attributes(proto, name),
                importer.opset,
            )
            if not _filled_constant(scope, node):
                _bind(scope, modern(node))


def _bind(scope: Scope, node: Node) -> None:
    record = RECORDS.get(node.op)
    attrs = dict(node.attrs)
    if record is None:
        attrs["opset"] = node.opset
    elif node.opset < record.first:
        raise UnsupportedOperator(
            f"{node.op} at {node.name!r} is of version {node.opset} of the operator set; "
            f"it is known from version {record.first} on",
            where=node.name,
        )
    args = [scope.find(i) if i else None for i in node.inputs]
    while args and args[-1] is None:
        args.pop()
    _add(scope, node.outputs, OpCall(node.op, tuple(args), tuple(attrs.items())), node.name)


def _add(scope: Scope, outputs: Sequence[str], expr: Expr, name: str) -> None:
    results = tuple(
        scope.define(o) if o else scope.importer.value(f"{name}.{i}") for i, o in enumerate(outputs)
    )
    scope.body.append(Binding(results, expr, frozenset((name,))))


# Constants.


def _constant(scope: Scope, name: str, array: np.ndarray) -> None:
    if name in scope.values:
        raise BadModelFile(f"makes the value {name!r} twice")
    inner = scope.outer is not None
    scope.values[name] = scope.importer.constant(name, array, inner=inner)


def _constant_value(proto: onnx.NodeProto, name: str) -> np.ndarray:
    kinds = {
        "value_float": np.float32,
        "value_floats": np.float32,
        "value_int": np.int64,
        "value_ints": np.int64,
    }
    for attribute in proto.attribute:
        if attribute.name == "value":
            return small_array(attribute.t)
        if attribute.name in kinds:
            value = onnx.helper.get_attribute_value(attribute)
            return np.array(value, kinds[attribute.name])
    raise UnsupportedOperator(f"Constant at {name!r} holds no number or tensor", where=name)


def _filled_constant(scope: Scope, node: Node) -> bool:
    """ConstantOfShape of a shape that is known is a constant."""
    if node.op != "ConstantOfShape" or len(node.inputs) != 1 or len(node.outputs) != 1:
        return False
    known = scope.importer.constants.get(scope.find(node.inputs[0]).name)
    if known is None:
        return False
    dtype = np.dtype(str(node.attrs.get("dtype", "float32")))
    shape = checked_shape(known.array.reshape(-1).tolist(), node.name)
    scope.importer.filled_bytes += prod(shape) * dtype.itemsize
    if scope.importer.filled_bytes > MAX_FILLED_BYTES:
        raise BadModelFile(f"fills {node.outputs[0]!r} with {prod(shape)} equal elements")
    value: Any = node.attrs.get("value", 0)
    _constant(scope, node.outputs[0], np.full(shape, value, dtype))
    scope.importer.drop(node.name, "became a constant")
    return True


# Attributes.


def _attributes(proto: onnx.NodeProto, name: str) -> dict[str, AttrValue]:
    found: dict[str, AttrValue] = {}
    for attribute in proto.attribute:
        found.update(_attribute(proto, attribute, name))
    return found


def _attribute(
    proto: onnx.NodeProto, attribute: onnx.AttributeProto, name: str
) -> Mapping[str, AttrValue]:
    kinds = onnx.AttributeProto
    if proto.op_type == "Cast" and attribute.name == "to":
        return {"to": tensor_dtype(attribute.i, name).name}
    match attribute.type:
        case kinds.INT:
            return {attribute.name: attribute.i}
        case kinds.FLOAT:
            return {attribute.name: attribute.f}
        case kinds.STRING:
            return {attribute.name: attribute.s.decode("utf-8", "replace")}
        case kinds.INTS:
            return {attribute.name: tuple(attribute.ints)}
        case kinds.FLOATS:
            return {attribute.name: tuple(attribute.floats)}
        case kinds.STRINGS:
            return {attribute.name: tuple(s.decode("utf-8", "replace") for s in attribute.strings)}
        case kinds.TENSOR if proto.op_type == "ConstantOfShape":
            value = small_array(attribute.t)
            if value.size != 1:
                raise BadModelFile(f"fills the result of {name!r} with {value.size} values")
            return {"value": value.reshape(()).item(), "dtype": value.dtype.name}
    raise UnsupportedOperator(
        f"{proto.op_type} at {name!r}: the attribute {attribute.name!r} has no meaning here",
        where=name,
    )


# Control flow.


def _graph_attribute(proto: onnx.NodeProto, wanted: str, name: str) -> onnx.GraphProto:
    for attribute in proto.attribute:
        if attribute.name == wanted and attribute.type == onnx.AttributeProto.GRAPH:
            graph: onnx.GraphProto = attribute.g
            return graph
    raise BadModelFile(f"holds {proto.op_type} at {name!r} without its {wanted}")


def _import_if(scope: Scope, proto: onnx.NodeProto, name: str) -> None:
    cond = scope.find(proto.input[0])
    inner = [
        _inner(scope, _graph_attribute(proto, f"{side}_branch", name), f"{name}.{side}")
        for side in ("then", "else")
    ]
    names = _captures(s for s, _ in inner)
    for side, outputs in inner:
        if len(outputs) != len(proto.output):
            raise BadModelFile(f"holds If at {name!r} whose branches give other numbers of values")
        _function(side, (), names, outputs)
    args = tuple(scope.find(n) for n in names)
    then, orelse = (s.name for s, _ in inner)
    _add(scope, proto.output, Branch(cond, then, orelse, args), name)


def _import_loop(scope: Scope, proto: onnx.NodeProto, name: str) -> None:
    body = _graph_attribute(proto, "body", name)
    state = tuple(scope.find(i) for i in proto.input[2:])
    trip, cond = (scope.find(i) if i else None for i in (*proto.input, "", "")[:2])
    if len(body.input) != 2 + len(state) or len(body.output) < 1 + len(state):
        raise BadModelFile(
            f"holds Loop at {name!r} whose body does not fit its {len(state)} values"
        )
    if len(proto.output) != len(body.output) - 1:
        raise BadModelFile(f"wants {len(proto.output)} values of Loop at {name!r}")
    if len(body.output) > 1 + len(state):
        raise UnsupportedOperator(
            f"Loop at {name!r} gathers a value of each iteration, which has no rule", where=name
        )
    inner, outputs = _inner(scope, body, f"{name}.body")
    names = _captures([inner])
    params = tuple(inner.values[i.name] for i in body.input)
    _function(inner, params, names, outputs)
    args = tuple(scope.find(n) for n in names)
    _add(scope, proto.output, Loop(inner.name, trip, cond, state, args), name)


def _inner(outer: Scope, graph: onnx.GraphProto, name: str) -> tuple[Scope, tuple[Var, ...]]:
    scope = Scope(outer.importer, name, outer, outer.depth + 1)
    for value in graph.input:
        scope.define(value.name)
    return scope, import_graph(scope, graph)


def _captures(scopes: Iterable[Scope]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(n for s in scopes for n in s.captured))


def _function(
    scope: Scope, params: tuple[Var, ...], captures: Sequence[str], outputs: tuple[Var, ...]
) -> None:
    """Close a graph over what it captures; the other branch's captures are parameters too."""
    taken = tuple(
        scope.captured.get(n) or scope.importer.value(f"{scope.name}.{n}", inner=True)
        for n in captures
    )
    scope.importer.functions.append(
        Function(scope.name, (*params, *taken), tuple(scope.body), outputs)
    )
