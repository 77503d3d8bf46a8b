"""The values that a graph's nodes see while a model is imported, and what was found so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import onnx

from explorer.cached_property import cached_property
from explorer.errors import BadModelFile
from explorer.frontends.files.tensors import small_array
from explorer.frontends.onnx.functions import Body, Key, local_functions
from explorer.frontends.onnx.inferred import Types, tensor_type, types_of_body, types_of_model
from explorer.ir.calls import Expr, Var
from explorer.ir.program import Binding, Constant, Function, SourceOp
from explorer.ir.shapes.dims import Dim
from explorer.ir.types import Annotation, Tensor

UNKNOWN = Tensor()
MAX_DEPTH = 32
MAX_INLINED_NODES = 1 << 16  # of all function calls together

BindNode: TypeAlias = Callable[["Scope", onnx.NodeProto], None]


DimKey: TypeAlias = "str | tuple[str, int]"  # a name, or an input's axis that has none


class Importer:
    """One model being imported: the functions, constants and sources found so far."""

    def __init__(
        self,
        model: onnx.ModelProto,
        constants: dict[str, Constant],
        bind_node: BindNode,
        outer_names: frozenset[str] = frozenset(),
    ) -> None:
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
        """The node's name, or one made from its operator; no two are the same."""
        given = node.name if isinstance(node.name, str) else ""  # bytes, where it is no text
        plain = prefix + (given or f"{node.op_type}_{len(self.sources)}")
        name = _fresh(plain, self.node_names)
        self.sources.append(SourceOp(name, node.op_type, next(iter(node.output), "")))
        return name

    def label(self, name: str) -> str:
        """A name for a part of a source operator; no two are the same."""
        return _fresh(name, self.node_names)

    def inlined(self, nodes: int) -> None:
        """Count the nodes of a function's body; BadModelFile where calls multiply without end."""
        self.inlined_nodes += nodes
        if self.inlined_nodes > MAX_INLINED_NODES:
            raise BadModelFile(f"calls functions of more than {MAX_INLINED_NODES} nodes in all")

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
        self,
        importer: Importer,
        name: str,
        opsets: Mapping[str, int],
        outer: Scope | None = None,
        depth: int = 0,
    ) -> None:
        if depth > MAX_DEPTH:
            raise BadModelFile(f"nests more than {MAX_DEPTH} graphs")
        self.importer, self.name, self.outer, self.depth = importer, name, outer, depth
        self.opsets = opsets
        self.values: dict[str, Var] = {}
        self.captured: dict[str, Var] = {}  # the outer graph's name -> our parameter
        self.body: list[Binding] = []
        self.called: tuple[Key, ...] = outer.called if outer else ()
        self.origin: str = outer.origin if outer else ""  # of all nodes here
        self.prefix: str = outer.prefix if outer else ""  # of the names of nodes

    @cached_property
    def types(self) -> Types:
        """What ONNX infers of the types of the values seen here."""
        if self.outer is not None:
            return self.outer.types
        constants = {
            n: tensor_type(c.type.element, c.array.shape)
            for n, c in self.importer.constants.items()
        }
        return types_of_model(self.importer.model, constants)

    @property
    def is_inner(self) -> bool:
        """Whether this is no graph of the file's top level."""
        return self.outer is not None

    def named(self, name: str) -> str:
        """What a value of this graph is called in the program."""
        return name

    def define(self, name: str, type: Annotation = UNKNOWN) -> Var:
        """A new value of this graph."""
        if name in self.values:
            raise BadModelFile(f"makes the value {name!r} twice")
        plain = self.named(name)
        made = self.values[name] = self.importer.value(plain, type, inner=self.is_inner)
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


class Call(Scope):
    """A function's body at one call: nodes are bound where the call stands."""

    def __init__(self, caller: Scope, node: onnx.NodeProto, body: Body, name: str) -> None:
        # a body of ONNX's own may name only the domain that it is of
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
        """What ONNX infers for this call."""
        pairs = zip(self.content.inputs, self.node.input, strict=False)
        inputs = {f: self.caller.types[a] for f, a in pairs if a in self.caller.types}
        local = self.importer.local.values()
        return types_of_body(self.content.nodes, inputs, self.opsets, local)

    @property
    def is_inner(self) -> bool:
        return True

    def named(self, name: str) -> str:
        return self.results.get(name) or f"{self.name}.{name}"


def import_graph(scope: Scope, graph: onnx.GraphProto) -> tuple[Var, ...]:
    """Bind every node of a graph, in order; its outputs."""
    for tensor in graph.initializer:  # those of the main graph have been read before
        array = small_array(tensor)
        scope.values[tensor.name] = scope.importer.constant(tensor.name, array, inner=True)
    for node in graph.node:
        scope.importer.bind_node(scope, node)
    return tuple(scope.find(o.name) for o in graph.output)


def add(scope: Scope, outputs: Sequence[str], expr: Expr, name: str) -> None:
    """Bind a node's results."""
    results = tuple(
        scope.define(o) if o else scope.importer.value(f"{name}.{i}") for i, o in enumerate(outputs)
    )
    scope.body.append(Binding(results, expr, frozenset((name,))))
