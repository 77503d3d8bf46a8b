"""The graph of the program after a step, with the same node positions in every step.

A node stands at the place of the source operator that it is named after.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from explorer.compilation.operators import Operator, call_family, head, is_call
from explorer.differences.changes import difference
from explorer.ir.calls import OpCall
from explorer.ir.program import Program
from widgets.model.dataflow_graph import Graph, GraphNode, every_operator, graph_of

SIGNS = {"added": "+", "changed": "~", "moved": "↷"}
Place = tuple[int, int, int]  # row, place in the row, number of places


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


def data(
    before: Program, after: Program, source_operators: tuple[Operator, ...], at: GraphPlaces
) -> StepGraph:
    """Return the graph of the program after a step; nodes that the step changed carry a sign."""
    graph = _graph(after, source_operators, _signs(before, after))
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


def _graph(
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
