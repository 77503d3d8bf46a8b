"""Scopes of values and the importer's state while a model is imported.

A call of a function is inlined: the nodes of the body are bound at the call. ONNX infers the types
of a graph's values once, and only where a body depends on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import onnx
from onnx import helper

from explorer.cached_property import cached_property
from explorer.errors import BadModelFile
from explorer.frontends.onnx.functions import (
    Body,
    FunctionKey,
    body_of,
    key_of,
    local_functions,
    schema_body,
)
from explorer.frontends.onnx.tensors import small_array
from explorer.ir.calls import Expr, Var
from explorer.ir.dims import Dim
from explorer.ir.program import Binding, Constant, Function, SourceOp
from explorer.ir.types import Annotation, DType, Tensor, numpy_dtype

UNKNOWN = Tensor()
MAX_DEPTH = 32
MAX_INLINED_NODES = 1 << 16  # of all function calls in total

BindNode: TypeAlias = Callable[["Scope", onnx.NodeProto], None]


DimKey: TypeAlias = "str | tuple[str, int]"  # a name, or an axis of an input without one


class Importer:
    """State of one model's import: its functions, constants and sources so far."""

    def __init__(
        self,
        model: onnx.ModelProto,
        constants: dict[str, Constant],
        bind_node: BindNode,
        outer_names: frozenset[str] = frozenset(),
    ) -> None:
        """Create the state; `outer_names` are the names of the main graph's values."""
        self.bind_node = bind_node
        self.model, self.constants, self.outer_names = model, constants, outer_names
        self.local = local_functions(model)
        self.filled_bytes = self.inlined_nodes = 0
        self.functions: list[Function] = []
        self.sources: list[SourceOp] = []
        self.dropped: list[tuple[str, str]] = []
        self.node_names: dict[str, int] = {}
        self.value_names: dict[str, int] = dict.fromkeys(constants, 1)
        self.dims: Mapping[DimKey, Dim] = {}  # of the inputs

    def node_name(self, node: onnx.NodeProto, prefix: str = "") -> str:
        """Record a node's source and return its unique name, derived from its operator if empty."""
        declared = node.name if isinstance(node.name, str) else ""  # bytes if it is not valid text
        plain = prefix + (declared or f"{node.op_type}_{len(self.sources)}")
        name = _fresh(plain, self.node_names)
        self.sources.append(SourceOp(name, node.op_type, next(iter(node.output), "")))
        return name

    def label(self, name: str) -> str:
        """Return a unique name for a part of a source operator."""
        return _fresh(name, self.node_names)

    def inlined(self, nodes: int) -> None:
        """Count the nodes of an inlined body; raise BadModelFile if calls grow without bound."""
        self.inlined_nodes += nodes
        if self.inlined_nodes > MAX_INLINED_NODES:
            raise BadModelFile(f"calls functions of more than {MAX_INLINED_NODES} nodes in total")

    def value(self, name: str, type: Annotation = UNKNOWN, *, inner: bool = False) -> Var:
        """Return a new value; one of an inner graph is renamed if the main graph has its name."""
        if inner and name in self.outer_names:
            name = f"{name}.inner"
        return Var(_fresh(name, self.value_names), type)

    def constant(self, name: str, array: np.ndarray, *, inner: bool = False) -> Var:
        """Add a constant to the program."""
        constant = Constant(array)
        value = self.value(name, constant.type, inner=inner)
        self.constants[value.name] = constant
        return value

    def drop(self, name: str, reason: str) -> None:
        """Record why a source operator is in no kernel."""
        self.dropped.append((name, reason))


def _fresh(name: str, taken: dict[str, int]) -> str:
    """Return the name, with a number appended if taken; `taken` counts the requests for each."""
    candidate = name
    while candidate in taken:
        taken[name] += 1
        candidate = f"{name}.{taken[name]}"
    taken[candidate] = 1
    return candidate


class Scope:
    """The values visible to a graph's nodes: its own, and captures of the enclosing graph."""

    def __init__(
        self,
        importer: Importer,
        name: str,
        opsets: Mapping[str, int],
        outer: Scope | None = None,
        depth: int = 0,
    ) -> None:
        """Create an empty scope in `outer`; raise BadModelFile if graphs nest too deeply."""
        if depth > MAX_DEPTH:
            raise BadModelFile(f"nests more than {MAX_DEPTH} graphs")
        self.importer, self.name, self.outer, self.depth = importer, name, outer, depth
        self.opsets = opsets
        self.values: dict[str, Var] = {}
        self.captured: dict[str, Var] = {}  # the outer graph's name -> our parameter
        self.body: list[Binding] = []
        self.called: tuple[FunctionKey, ...] = outer.called if outer else ()
        self.origin: str = outer.origin if outer else ""  # the source operator of all nodes
        self.prefix: str = outer.prefix if outer else ""  # of node names

    @cached_property
    def types(self) -> Types:
        """Infer the types of the visible values by ONNX."""
        if self.outer is not None:
            return self.outer.types
        constants = {
            n: tensor_type(c.type.element, c.type.dims) for n, c in self.importer.constants.items()
        }
        return _types_of_model(self.importer.model, constants)

    @property
    def is_inner(self) -> bool:
        """True for a subgraph or a function's body."""
        return self.outer is not None

    def named(self, name: str) -> str:
        """Return the program's name of a value of this graph."""
        return name

    def define(self, name: str, type: Annotation = UNKNOWN) -> Var:
        """Return a new value of this graph."""
        if name in self.values:
            raise BadModelFile(f"defines the value {name!r} twice")
        plain = self.named(name)
        value = self.values[name] = self.importer.value(plain, type, inner=self.is_inner)
        return value

    def find(self, name: str) -> Var:
        """Return the value of that name; capture it if only the enclosing graph has it."""
        value = self.values.get(name) or self.captured.get(name)
        if value is not None:
            return value
        if self.outer is None:
            raise BadModelFile(f"reads the value {name!r} before any node defines it")
        outside = self.outer.find(name)
        if outside.name in self.importer.constants:
            return outside
        inside = self.importer.value(f"{self.name}.{name}", outside.type, inner=True)
        self.captured[name] = inside
        return inside


class InlinedCall(Scope):
    """A function's body at one call; its nodes are bound in the caller."""

    def __init__(self, caller: Scope, node: onnx.NodeProto, body: Body, name: str) -> None:
        """Bind the formal parameters of a body to the arguments of a call."""
        # a body of ONNX's may import its own domain only
        opsets = {**caller.opsets, **body.opsets}
        super().__init__(caller.importer, name, opsets, None, caller.depth + 1)
        self.called = (*caller.called, body.key)
        self.origin, self.prefix = caller.origin, caller.prefix
        self.caller, self.node, self.content, self.body = caller, node, body, caller.body
        self.results = {f: a for f, a in zip(body.outputs, node.output, strict=False) if a}
        for formal, actual in zip(body.inputs, node.input, strict=False):
            if actual:
                self.values[formal] = caller.find(actual)

    @cached_property
    def types(self) -> Types:
        """Infer the types of this call's values by ONNX."""
        pairs = zip(self.content.inputs, self.node.input, strict=False)
        inputs = {f: self.caller.types[a] for f, a in pairs if a in self.caller.types}
        local = self.importer.local.values()
        return _types_of_body(self.content.nodes, inputs, self.opsets, local)

    @property
    def is_inner(self) -> bool:
        """True: a call is never the main graph."""
        return True

    def named(self, name: str) -> str:
        """Return the caller's name of a result, else a name of its own."""
        return self.results.get(name) or f"{self.name}.{name}"


def import_graph(scope: Scope, graph: onnx.GraphProto) -> tuple[Var, ...]:
    """Bind every node of a graph in order and return its outputs."""
    for tensor in graph.initializer:  # those of the main graph were read before
        array = small_array(tensor)
        scope.values[tensor.name] = scope.importer.constant(tensor.name, array, inner=True)
    for node in graph.node:
        scope.importer.bind_node(scope, node)
    return tuple(scope.find(o.name) for o in graph.output)


def add_binding(scope: Scope, outputs: Sequence[str], expr: Expr, name: str) -> None:
    """Bind a node's results."""
    results = tuple(
        scope.define(o) if o else scope.importer.value(f"{name}.{i}") for i, o in enumerate(outputs)
    )
    scope.body.append(Binding(results, expr, frozenset((name,))))


# Inlining.


def import_local(scope: Scope, proto: onnx.NodeProto, function: onnx.FunctionProto) -> None:
    """Inline a call of one of the model's functions; its nodes are source operators."""
    if key_of(proto) in scope.called:
        raise BadModelFile(f"calls the function {proto.op_type!r} from itself")
    name = scope.origin or scope.importer.node_name(proto, scope.prefix)
    call = InlinedCall(scope, proto, body_of(function, proto), scope.importer.label(f"{name}.call"))
    call.prefix = f"{name}/"
    _inline(scope, call, proto)
    if not scope.origin:
        scope.importer.drop(name, "replaced by its function's nodes")


def inline_schema_body(
    scope: Scope, proto: onnx.NodeProto, opset: int, name: str, label: str
) -> bool:
    """Inline the function by which ONNX defines an operator, if all its nodes have kernel rules."""
    body = schema_body(
        proto, opset, lambda: [scope.types.get(i) if i else None for i in proto.input]
    )
    if body is None or body.key in scope.called:
        return False
    call = InlinedCall(scope, proto, body, label)
    call.origin = name
    _inline(scope, call, proto)
    return True


def _inline(scope: Scope, call: InlinedCall, proto: onnx.NodeProto) -> None:
    body = call.content
    scope.importer.inlined(len(body.nodes))
    for node in body.nodes:
        scope.importer.bind_node(call, node)
    for formal, actual in zip(body.outputs, proto.output, strict=False):
        if actual in scope.values and actual:
            raise BadModelFile(f"defines the value {actual!r} twice")
        if actual:
            scope.values[actual] = call.find(formal)


# Types inferred by ONNX.


Types = Mapping[str, onnx.TypeProto]


def tensor_type(dtype: DType, shape: Sequence[int]) -> onnx.TypeProto:
    """Return the type of a constant."""
    kind = helper.np_dtype_to_tensor_dtype(numpy_dtype(dtype))
    return helper.make_tensor_type_proto(kind, list(shape))


def _types_of_model(model: onnx.ModelProto, constants: Types) -> Types:
    """Return the types of all values of a model's graphs, as far as ONNX infers them."""
    complete = onnx.ModelProto()
    complete.CopyFrom(model)
    input_names = {i.name for i in complete.graph.input}
    complete.graph.input.extend(
        helper.make_value_info(name, type)
        for name, type in constants.items()
        if name not in input_names
    )
    return {**constants, **_infer(complete)}


def _types_of_body(
    nodes: Iterable[onnx.NodeProto],
    inputs: Types,
    opsets: Mapping[str, int],
    functions: Iterable[onnx.FunctionProto],
) -> Types:
    """Return the types of all values of a function's body for inputs of these types."""
    values = [helper.make_value_info(name, type) for name, type in inputs.items()]
    graph = helper.make_graph(list(nodes), "body", values, [])
    imports = [helper.make_opsetid(d, v) for d, v in opsets.items()]
    model = helper.make_model(graph, opset_imports=imports, functions=list(functions))
    return {**inputs, **_infer(model)}


def _infer(model: onnx.ModelProto) -> Types:
    try:
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    except Exception:  # of any type; the import itself reports errors of the model
        return {}
    return dict(_values(inferred.graph, 0))


def _values(graph: onnx.GraphProto, depth: int) -> Iterable[tuple[str, onnx.TypeProto]]:
    for tensor in graph.initializer:
        yield tensor.name, helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims))
    for value in (*graph.input, *graph.value_info, *graph.output):
        if value.HasField("type"):
            yield value.name, value.type
    for node in graph.node if depth < 32 else ():
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _values(attribute.g, depth + 1)
