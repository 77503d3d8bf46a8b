"""Dataflow of a compiled program as a networkx graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from explorer.compiler.operators import call_labels, is_call, operators
from explorer.ir.calls import Var
from explorer.ir.dims import Sizes, evaluate_dim, symbols_of
from explorer.ir.program import Program
from explorer.ir.types import Tensor
from explorer.ops import family

if TYPE_CHECKING:
    from networkx import DiGraph


def call_graph(
    source: Program, program: Program, sizes: Sizes, us: Mapping[str, float]
) -> DiGraph[str]:
    """Return a graph of every input, call and output, with edges from producers to readers.

    Views are looked through; loops and branches are one node each.

    Nodes have `kind` ("input", "call" or "output"), `label`, `family`, `operators` (those of the
    source) and `us`, the time of all units together in microseconds, 0.0 if unknown. Edges have
    `values` by name, and their `bytes` (0 if only a run knows the size).
    """
    from networkx import DiGraph

    graph: DiGraph[str] = DiGraph(name=source.name)
    labels = call_labels(operators(source, program), program)
    makers: dict[str, frozenset[str]] = {}

    def add(name: str, kind: str, label: str, **more: Any) -> None:
        """Add a node."""
        unknown = {"family": "", "operators": (), "us": 0.0}
        graph.add_node(name, kind=kind, label=label, **{**unknown, **more})

    def read(reader: str, value: Var) -> None:
        """Add an edge from each producer of a value to its reader."""
        for maker in sorted(makers.get(value.name, ())):
            edge = graph.get_edge_data(maker, reader) or {"values": (), "bytes": 0}
            if value.name not in edge["values"]:
                moved = edge["bytes"] + _bytes(value, sizes)
                graph.add_edge(maker, reader, values=(*edge["values"], value.name), bytes=moved)

    for param in program.main.params:
        add(f"input {param.name}", "input", param.name)
        makers[param.name] = frozenset((f"input {param.name}",))
    for b in program.main.body:
        producers = frozenset((b.name,))
        if is_call(b):
            ops = tuple(sorted(b.origin))
            label, took = labels.get(b.name, b.name), us.get(b.name, 0.0)
            add(b.name, "call", label, family=family(b), operators=ops, us=took)
            for value in b.reads:
                read(b.name, value)
        else:
            producers = frozenset[str]().union(*(makers.get(v.name, ()) for v in b.reads))
        makers |= dict.fromkeys((v.name for v in b.vars), producers)
    names = program.main.output_names or tuple(v.name for v in program.main.outputs)
    for name, value in zip(names, program.main.outputs):
        add(f"output {name}", "output", name)
        read(f"output {name}", value)
    return graph


def _bytes(value: Var, sizes: Sizes) -> int:
    """Return the bytes of a value, or 0 if only a run knows them."""
    kind = value.type
    if not isinstance(kind, Tensor) or kind.shape is None or kind.dtype is None:
        return 0
    return evaluate_dim(kind.bytes, sizes) if symbols_of(kind.bytes) <= sizes.keys() else 0
