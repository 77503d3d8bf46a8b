"""What reads what in a compiled program, as a networkx graph for questions of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from explorer.compilation.operators import call_labels, is_call, operators
from explorer.ir.calls import Var
from explorer.ir.program import Program
from explorer.ir.shapes.dims import Sizes, evaluate_dim, symbols_of
from explorer.ir.types import Tensor
from explorer.ops import family

if TYPE_CHECKING:
    from networkx import DiGraph


def call_graph(
    source: Program, program: Program, sizes: Sizes, us: Mapping[str, float]
) -> DiGraph[str]:
    """A node for every input, call and output of the main function, an edge from who makes values
    to who reads them; views are looked through, and loops and branches are one node each.

    Nodes have `kind` ("input", "call" or "output"), `label`, `family`, `operators` (those of the
    source) and `us`, the time of all units together, 0.0 where none is known. Edges have `values`
    by name, and their `bytes` (0 of those whose size only a run knows).
    """
    from networkx import DiGraph

    graph: DiGraph[str] = DiGraph(name=source.name)
    labels = call_labels(operators(source, program), program)
    makers: dict[str, frozenset[str]] = {}

    def add(name: str, kind: str, label: str, **more: Any) -> None:
        unknown = {"family": "", "operators": (), "us": 0.0}
        graph.add_node(name, kind=kind, label=label, **{**unknown, **more})

    def read(reader: str, value: Var) -> None:
        for maker in sorted(makers.get(value.name, ())):
            edge = graph.get_edge_data(maker, reader) or {"values": (), "bytes": 0}
            if value.name not in edge["values"]:
                moved = edge["bytes"] + _bytes(value, sizes)
                graph.add_edge(maker, reader, values=(*edge["values"], value.name), bytes=moved)

    for param in program.main.params:
        add(f"input {param.name}", "input", param.name)
        makers[param.name] = frozenset((f"input {param.name}",))
    for b in program.main.body:
        made = frozenset((b.name,))
        if is_call(b):
            ops = tuple(sorted(b.origin))
            label, took = labels.get(b.name, b.name), us.get(b.name, 0.0)
            add(b.name, "call", label, family=family(b), operators=ops, us=took)
            for value in b.reads:
                read(b.name, value)
        else:
            made = frozenset[str]().union(*(makers.get(v.name, ()) for v in b.reads))
        makers |= dict.fromkeys((v.name for v in b.vars), made)
    names = program.main.output_names or tuple(v.name for v in program.main.outputs)
    for name, value in zip(names, program.main.outputs):
        add(f"output {name}", "output", name)
        read(f"output {name}", value)
    return graph


def _bytes(value: Var, sizes: Sizes) -> int:
    kind = value.type
    if not isinstance(kind, Tensor) or kind.shape is None or kind.dtype is None:
        return 0
    return evaluate_dim(kind.bytes, sizes) if symbols_of(kind.bytes) <= sizes.keys() else 0
