"""The dataflow graph: by source operator, or with one node per kernel."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from explorer.compilation.operators import (
    Operator,
    call_family,
    call_labels,
    has_kernels,
    is_call,
    operators,
)
from explorer.ir.by_identity import by_identity
from explorer.ir.calls import Branch, Loop, Var
from explorer.ir.program import Binding, Function, Program
from widgets.draw.layered import Layers, layered
from widgets.model.compiled import Compiled

NOTHING = frozenset[int]()
FOLD_ABOVE = 60  # more operators than this are first shown folded by kernel


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A node of the graph.

    `kind` is "operator", "kernel", "input" or "output"; `ops` are its source operators.
    """

    name: str
    label: str
    kind: str
    family: str = ""
    ops: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes and edges; `operators` counts the source operators.

    `placed` is set if its layers are not those of all its nodes and edges.
    """

    nodes: tuple[GraphNode, ...]
    edges: tuple[tuple[int, int], ...]
    operators: int
    folded: bool
    placed: Layers | None = None

    @property
    def rows(self) -> tuple[tuple[int, ...], ...]:
        """The rows of its layers, as in `layered.Layers`."""
        return (self.placed or _layers(self)).rows

    @property
    def routes(self) -> dict[int, tuple[int, ...]]:
        """The bends of its edges, as in `layered.Layers`."""
        return (self.placed or _layers(self)).routes


@by_identity
def _layers(graph: Graph) -> Layers:
    """Lay the graph out on first use: of a large graph only a part is shown."""
    return layered(len(graph.nodes), graph.edges)


def data(
    c: Compiled, folded: bool | None = None, source_operators: tuple[Operator, ...] = ()
) -> Graph:
    """Return the graph of a compilation; the edges of values without a kernel are joined."""
    source_operators = source_operators or operators(c.model.program, c.program)
    shown = [o for o in source_operators if o.calls or not has_kernels(c.program)]
    if folded is None:
        folded = len(shown) > FOLD_ABOVE
    program = c.program if folded else c.model.program
    nodes = _kernel_nodes(program, source_operators) if folded else _operator_nodes(program, shown)
    return _graph(program, nodes, len(source_operators), folded)


def every_operator(source: Program, source_operators: tuple[Operator, ...]) -> Graph:
    """Return the graph of all operators of a model, also those that were removed."""
    return _graph(source, _operator_nodes(source, source_operators), len(source_operators), False)


def graph_of(program: Program, nodes: dict[str, GraphNode], count: int) -> Graph:
    """Return the graph of these bindings of a program, by their names."""
    return _graph(program, nodes, count, False)


def _operator_nodes(program: Program, shown: Iterable[Operator]) -> dict[str, GraphNode]:
    """Return the node of each binding that is drawn, by the binding's first value."""
    by_name = {o.name: o for o in shown}
    nodes = {}
    for _, binding in program.bindings():
        for name in binding.origin & by_name.keys():
            o = by_name[name]
            nodes[binding.vars[0].name] = GraphNode(name, o.label, "operator", o.family, (name,))
    return nodes


def _kernel_nodes(program: Program, source_operators: tuple[Operator, ...]) -> dict[str, GraphNode]:
    order, labels = (
        {o.name: i for i, o in enumerate(source_operators)},
        call_labels(source_operators, program),
    )
    nodes = {}
    for _, binding in program.bindings():
        if not is_call(binding):
            continue
        ops = [source_operators[i] for i in sorted(order[o] for o in binding.origin & order.keys())]
        name, kind = binding.name, call_family(binding, ops)
        more = f"+{len(ops) - 1}" if len(ops) > 1 and " + " not in labels[name] else ""
        nodes[name] = GraphNode(
            name, labels[name], "kernel", kind, tuple(o.name for o in ops), more
        )
    return nodes


def _graph(program: Program, drawn: dict[str, GraphNode], count: int, folded: bool) -> Graph:
    nodes: list[GraphNode] = []
    index: dict[str, int] = {}
    edges: dict[tuple[int, int], None] = {}
    makers: dict[str, frozenset[int]] = {}  # for each value, the drawn nodes that it comes from

    def add(key: str, node: GraphNode) -> int:
        index[key] = len(nodes)
        nodes.append(node)
        return index[key]

    def read(variables: Iterable[Var]) -> frozenset[int]:
        sources_read = NOTHING
        for v in variables:
            producers = makers.get(v.name, NOTHING)
            sources_read = sources_read | producers if sources_read else producers
        return sources_read

    def walk(function: Function) -> None:
        for binding in function.body:
            sources, key = read(binding.reads), binding.vars[0].name
            node = drawn.get(key)
            if node is not None:
                at = add(key, node)
                for source in sorted(sources):
                    edges[source, at] = None
                sources = frozenset((at,))
            inner = NOTHING
            for name in _bodies(binding):
                body = program.function(name)
                makers.update((p.name, sources) for p in body.params)
                walk(body)
                inner |= read(body.outputs)
            for v in binding.vars:
                makers[v.name] = inner or sources

    main = program.main
    for param in main.params:
        makers[param.name] = frozenset((add(param.name, _input(param)),))
    walk(main)
    names = main.output_names or tuple(v.name for v in main.outputs)
    for var, name in zip(main.outputs, names):
        at = add("output " + name, GraphNode("output " + name, name, "output"))
        edges.update(dict.fromkeys((s, at) for s in sorted(read((var,)))))
    return Graph(tuple(nodes), tuple(edges), count, folded)


def _input(param: Var) -> GraphNode:
    shape = getattr(param.type, "shape", None)
    dims = "" if shape is None else f" [{', '.join(map(str, shape))}]"
    return GraphNode("input " + param.name, param.name + dims, "input")


def _bodies(binding: Binding) -> tuple[str, ...]:
    match binding.expr:
        case Branch(_, then, orelse, _):
            return (then, orelse)
        case Loop(body):
            return (body,)
    return ()
