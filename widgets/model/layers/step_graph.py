"""The graph of the program after a step, in which everything stands where it stands in every step:
at the place of the source operator that it is named after.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from explorer.compilation.operators import Operator, call_family, head, is_call
from explorer.differences.changes import difference
from explorer.ir.calls import OpCall
from explorer.ir.program import Program
from widgets.model.dataflow_graph import Graph, Node, drawn, every_operator

SIGNS = {"added": "+", "changed": "~", "moved": "↷"}
Place = tuple[int, int, int]  # row, which of its places, how many it has


@dataclass(frozen=True, slots=True)
class StepGraph:
    """Nodes and edges of one step; `places` of each node its row, its place there, of how many, and
    which part of the place is its own, of how many.
    """

    nodes: tuple[Node, ...]
    edges: tuple[tuple[int, int], ...]
    places: tuple[tuple[int, int, int, int, int], ...]
    rows: int


@dataclass(frozen=True, slots=True)
class Places:
    """Where each source operator stands, and each input and output, whatever step is shown."""

    of_operator: Mapping[str, Place]
    of_end: Mapping[str, Place]
    rows: int


def places(source: Program, known: tuple[Operator, ...]) -> Places:
    """The places in the graph of all operators of the model."""
    graph = every_operator(source, known)
    found: dict[str, Place] = {}
    ends: dict[str, Place] = {}
    for r, row in enumerate(graph.rows):
        own = [n for n in row if n < len(graph.nodes)]
        for at, n in enumerate(own):
            node = graph.nodes[n]
            home = found if node.kind == "operator" else ends
            home[node.name] = (r, at, len(own))
    return Places(found, ends, len(graph.rows))


def data(before: Program, after: Program, known: tuple[Operator, ...], at: Places) -> StepGraph:
    """The program after a step; what the step changed has a sign."""
    graph = _graph(after, known, _signs(before, after))
    homes = [_home(node, at) for node in graph.nodes]
    for a, b in graph.edges:  # what no operator tells of stands with what it reads
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
    found = tuple((*home, *own[n]) for n, home in enumerate(settled))
    return StepGraph(graph.nodes, graph.edges, found, at.rows)


def _signs(before: Program, after: Program) -> Mapping[str, str]:
    rows = difference(before, after).changes
    return {
        r.after.binding.name: SIGNS.get(r.kind, "") for r in rows if r.after and r.what != "loop"
    }


def _graph(program: Program, known: tuple[Operator, ...], signs: Mapping[str, str]) -> Graph:
    order = {o.name: i for i, o in enumerate(known)}
    nodes = {}
    for _, b in program.bindings():
        if not is_call(b) and not isinstance(b.expr, OpCall):
            continue
        ops = [known[i] for i in sorted(order[o] for o in b.origin if o in order)]
        kind = "operator" if isinstance(b.expr, OpCall) else "kernel"
        first = head(ops)
        label = first.label if first else b.name
        family = call_family(b, ops)
        names = tuple(o.name for o in sorted(ops, key=lambda o: o is not first))
        nodes[b.name] = Node(b.name, label, kind, family, names, signs.get(b.name, ""))
    return drawn(program, nodes, len(known))


def _home(node: Node, at: Places) -> Place | None:
    """The place of a node: that of the operator whose name it has, else of any that it computes."""
    if node.kind in ("input", "output"):
        return at.of_end.get(node.name)
    return next((at.of_operator[o] for o in node.ops if o in at.of_operator), None)
