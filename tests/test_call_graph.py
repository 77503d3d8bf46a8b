"""The graph that is given away for questions of one's own."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

import explorer
import explorer.np as enp
from explorer.ir.dims import evaluate_dim

SIZES = {"batch": 2, "seq": 5}


@pytest.mark.parametrize("until", ["typed", "planned"])
def test_calls_stand_in_the_order_of_the_program(until: str) -> None:
    c = explorer.compile("tests/data/tiny_bert.onnx", until=until)
    g = c.graph(SIZES)
    calls = [n for n, kind in g.nodes(data="kind") if kind == "call"]
    assert nx.is_directed_acyclic_graph(g)
    assert calls == [b.name for b in c.program.main.body if b.name in calls]
    assert all(kind == "call" or not us for _, kind, us in _rows(g))


def _rows(g: Any) -> list[tuple[str, str, float]]:
    return [(name, data["kind"], data["us"]) for name, data in g.nodes(data=True)]


def test_every_call_has_its_planned_time_and_what_it_reads() -> None:
    c = explorer.compile("tests/data/tiny_bert.onnx", until="planned")
    g, wall = c.graph(SIZES), c.planned_wall(SIZES)
    busy = sum(b.end_us - b.start_us for b in wall.everything)
    assert sum(us for _, _, us in _rows(g)) == pytest.approx(busy)
    way = nx.dag_longest_path(g)
    assert way[0].startswith("input ") and way[-1].startswith("output ")
    types = {v.name: v.type for _, b in c.program.bindings() for v in b.vars}
    types |= {p.name: p.type for p in c.program.main.params}
    for _, _, data in g.edges(data=True):
        read = [evaluate_dim(types[name].bytes, SIZES) for name in data["values"]]
        assert data["bytes"] == sum(read) > 0
    read_by = {b.name: {v.name for v in b.reads} for b in c.program.main.body}
    for _, reader, data in g.edges(data=True):
        if reader in read_by:
            assert {*data["values"]} <= read_by[reader]


def test_views_are_looked_through_and_a_loop_is_one_node() -> None:
    @explorer.trace
    def model(x: explorer.tensor("float32", "steps", 8)) -> Any:  # type: ignore[valid-type]
        h = x[0]
        for row in x:
            if row.sum() > 0:
                h = enp.tanh(row + h)
        return enp.reshape(h, (2, 4)) * 2.0

    c = explorer.compile(model, until="planned")
    g = c.graph({"steps": 3})
    assert nx.has_path(g, "input x", "output output")
    assert "control flow" in {family for _, family in g.nodes(data="family")}
    calls = {n for n, kind in g.nodes(data="kind") if kind == "call"}
    assert calls < {b.name for b in c.program.main.body}
    assert len(calls) < sum(1 for _ in c.program.bindings())


def test_an_output_that_is_an_input_is_an_edge() -> None:
    def model(x: explorer.tensor("float32", 2), y: explorer.tensor("float32", 2)) -> Any:  # type: ignore[valid-type]
        return x, x + y

    c = explorer.compile(explorer.trace(model), until="planned")
    g = c.graph()
    outputs = [n for n, kind in g.nodes(data="kind") if kind == "output"]
    assert g.has_edge("input x", outputs[0]) and not g.has_edge("input x", outputs[1])
    assert np.isclose(g.edges["input x", outputs[0]]["bytes"], 8)
