"""The dataflow graph: by source operator, with one node per kernel, or after a step.

In every step a node stands at the place of the source operator that it is named after.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from explorer.compiler.operators import (
    Operator,
    call_family,
    call_labels,
    has_kernels,
    head,
    is_call,
    operators,
)
from explorer.ir.by_identity import by_identity
from explorer.ir.calls import Branch, Loop, OpCall, Var
from explorer.ir.program import Binding, Function, Program
from explorer.views.differences import difference
from widgets.draw.layered import Layers, layered
from widgets.model.compiled import Compiled

NOTHING = frozenset[int]()
FOLD_ABOVE = 60  # more operators than this are first shown folded by kernel
SIGNS = {"added": "+", "changed": "~", "moved": "↷"}
Place = tuple[int, int, int]  # row, place in the row, number of places


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


@dataclass(frozen=True, slots=True)
class StepGraph:
    """Nodes and edges of one step.

    `places` holds for each node its row, its place in the row, the number of places, its part of
    the place, and the number of parts.
    """

    nodes: tuple[GraphNode, ...]
    edges: tuple[tuple[int, int], ...]
    places: tuple[tuple[int, int, int, int, int], ...]
    rows: int


@dataclass(frozen=True, slots=True)
class GraphPlaces:
    """The place of each source operator, input and output, the same for every step."""

    of_operator: Mapping[str, Place]
    of_end: Mapping[str, Place]
    rows: int


def places(source: Program, source_operators: tuple[Operator, ...]) -> GraphPlaces:
    """Return the places in the graph of all operators of the model."""
    graph = every_operator(source, source_operators)
    of_operator: dict[str, Place] = {}
    ends: dict[str, Place] = {}
    for r, row in enumerate(graph.rows):
        own = [n for n in row if n < len(graph.nodes)]
        for at, n in enumerate(own):
            node = graph.nodes[n]
            home = of_operator if node.kind == "operator" else ends
            home[node.name] = (r, at, len(own))
    return GraphPlaces(of_operator, ends, len(graph.rows))


def step_graph(
    before: Program, after: Program, source_operators: tuple[Operator, ...], at: GraphPlaces
) -> StepGraph:
    """Return the graph of the program after a step; nodes that the step changed carry a sign."""
    graph = _step_graph(after, source_operators, _signs(before, after))
    homes = [_home(node, at) for node in graph.nodes]
    for a, b in graph.edges:  # a node without an operator takes the place of a node that it reads
        if homes[b] is None:
            homes[b] = homes[a]
    for a, b in reversed(graph.edges):
        if homes[a] is None:
            homes[a] = homes[b]
    settled = [home or (0, 0, 1) for home in homes]
    shared: dict[Place, list[int]] = defaultdict(list)
    for n, home in enumerate(settled):
        shared[home].append(n)
    own = {n: (i, len(nodes)) for nodes in shared.values() for i, n in enumerate(nodes)}
    all_places = tuple((*home, *own[n]) for n, home in enumerate(settled))
    return StepGraph(graph.nodes, graph.edges, all_places, at.rows)


def _signs(before: Program, after: Program) -> Mapping[str, str]:
    rows = difference(before, after).changes
    return {
        r.after.binding.name: SIGNS.get(r.kind, "") for r in rows if r.after and r.what != "loop"
    }


def _step_graph(
    program: Program, source_operators: tuple[Operator, ...], signs: Mapping[str, str]
) -> Graph:
    order = {o.name: i for i, o in enumerate(source_operators)}
    nodes = {}
    for _, b in program.bindings():
        if not is_call(b) and not isinstance(b.expr, OpCall):
            continue
        ops = [source_operators[i] for i in sorted(order[o] for o in b.origin if o in order)]
        kind = "operator" if isinstance(b.expr, OpCall) else "kernel"
        first = head(ops)
        label = first.label if first else b.name
        family = call_family(b, ops)
        names = tuple(o.name for o in sorted(ops, key=lambda o: o is not first))
        nodes[b.name] = GraphNode(b.name, label, kind, family, names, signs.get(b.name, ""))
    return graph_of(program, nodes, len(source_operators))


def _home(node: GraphNode, at: GraphPlaces) -> Place | None:
    """Return a node's place: that of the operator that names it, else of any that it computes."""
    if node.kind in ("input", "output"):
        return at.of_end.get(node.name)
    return next((at.of_operator[o] for o in node.ops if o in at.of_operator), None)
