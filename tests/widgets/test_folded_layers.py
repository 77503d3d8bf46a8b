"""Layers that repeat are found and folded with a count, and nodes stay where they are."""

from __future__ import annotations

from random import Random

import pytest

import explorer
from widgets.model.dataflow_graph import FOLD_ABOVE, Graph
from widgets.model.folded_layers import (
    EVERYTHING,
    LayerGroup,
    Repeat,
    positions,
    repeats,
    visible_graph,
)
from widgets.model.house import House, read, step_part
from widgets.session.session import Session


def chain(kinds: list[int]) -> list[tuple[int, int]]:
    return [(n, n + 1) for n in range(len(kinds) - 1)]


def shape(parts: tuple[object, ...]) -> list[object]:
    """Numbers of nodes, and of a repeat how many copies of which shape."""
    found: list[object] = []
    for p in parts:
        if isinstance(p, Repeat):
            found.append((len(p.copies), shape(p.copies[0])))
        elif found and isinstance(found[-1], int):
            found[-1] += 1
        else:
            found.append(1)
    return found


def test_layers_are_found_wherever_they_begin() -> None:
    kinds = [9, 8, *([1, 2, 3, 4] * 12), 7]
    assert shape(repeats(kinds, chain(kinds))) == [2, (12, [4]), 1]


def test_layers_of_layers_are_found() -> None:
    layer = [5, *([1, 2, 3] * 3), 6]
    kinds = [9, *(layer * 4), 7]
    assert shape(repeats(kinds, chain(kinds))) == [1, (4, [1, (3, [3]), 1]), 1]


def test_every_node_is_in_one_part_in_its_order() -> None:
    random = Random(3)
    for _ in range(60):
        kinds = [random.randrange(3) for _ in range(random.randrange(1, 60))]
        parts = repeats(kinds, chain(kinds))
        assert [n for p in parts for n in positions(p)] == list(range(len(kinds)))
        for p in parts:
            if isinstance(p, Repeat):
                copies = [[kinds[n] for q in copy for n in positions(q)] for copy in p.copies]
                assert len(copies) > 1 and all(c == copies[0] for c in copies)


def test_a_copy_that_reads_otherwise_is_none() -> None:
    kinds = [9, *([1, 2, 3] * 4)]
    edges = chain(kinds)
    other = [*edges, (4, 6)]  # the second copy reads its own first node once more
    assert shape(repeats(kinds, edges)) == [1, (4, [3])]
    assert shape(repeats(kinds, other)) == [7, (2, [3])]


@pytest.fixture(scope="module")
def resnet() -> House:
    return read(explorer.compile("zoo:resnet50", until="planned"))


@pytest.mark.exhaustive
def test_the_blocks_of_a_resnet_are_found(resnet: House) -> None:
    found = [p.count for p in resnet.tree("operators").parts if isinstance(p, LayerGroup)]
    assert found == [2, 3, 5, 2]  # each stage begins with a block of another kind
    kernels = [p.count for p in resnet.tree("kernels").parts if isinstance(p, LayerGroup)]
    assert kernels == [2, 3, 5] and len(resnet.folded("kernels", ()).nodes) < 35


def test_every_operator_is_seen_once_however_far_it_is_opened(resnet: House) -> None:
    whole = resnet.graph("operators")
    every = sorted(op for n in whole.nodes for op in n.ops)
    tree = resnet.tree("operators")
    groups = [p for p in tree.parts if isinstance(p, LayerGroup)]
    opened = [(), (groups[0].key,), (groups[0].key, f"{groups[0].key}.1"), (EVERYTHING,)]
    for keys in opened:
        graph = visible_graph(tree, keys)
        assert sorted(op for n in graph.nodes if n.kind != "open" for op in n.ops) == every
        drawn = sorted(n for row in graph.rows for n in row)
        assert drawn == list(range(len(graph.nodes)))
        layer = {n: r for r, row in enumerate(graph.rows) for n in row}
        assert all(layer[a] < layer[b] for a, b in graph.edges)


def names(graph: Graph) -> list[list[str]]:
    return [[graph.nodes[n].name for n in row] for row in graph.rows]


def test_what_is_not_opened_stays_where_it_was(resnet: House) -> None:
    tree = resnet.tree("operators")
    for group in (p for p in tree.parts if isinstance(p, LayerGroup)):
        before, after = names(visible_graph(tree, ())), names(visible_graph(tree, (group.key,)))
        at = next(r for r, row in enumerate(before) if group.key in row)
        more = len(after) - len(before)
        assert more == group.count and after[: at + 1] == before[: at + 1]
        assert after[at + 1 + more :] == before[at + 1 :]


def test_a_large_model_opens_folded_and_a_small_one_does_not(resnet: House) -> None:
    part = resnet.parts["graph_operators"]
    assert part["opened"] == [] and part["groups"] == 4
    assert any(n["kind"] == "group" and n["note"] == "×5" for n in part["nodes"])
    small = read(explorer.compile("zoo:tiny_bert", until="planned"))
    assert len(small.graph("kernels").nodes) < FOLD_ABOVE
    assert small.parts["graph_kernels"]["opened"] is None
    session = Session(small.compiled)
    folded = session.answer("graph", {"view": "kernels"})
    assert any(n["kind"] == "group" for n in folded["nodes"])
    flat = session.answer("graph", {"view": "kernels", "opened": "flat"})
    assert len(flat["nodes"]) == len(small.graph("kernels").nodes)


@pytest.mark.few(1)
@pytest.mark.parametrize("model", ["zoo:tiny_bert", "zoo:small_mobilevit", "zoo:small_lstm"])
def test_an_operator_stands_at_one_place_in_every_step(model: str) -> None:
    house = read(explorer.compile(model, until="planned"))
    where: dict[str, tuple[int, int, int]] = {}
    for number in range(len(house.compiled.snapshots)):
        part = step_part(house, number)
        taken = [tuple(p) for p in part["places"]]
        assert len(taken) == len(set(taken)) == len(part["nodes"])
        for node, place in zip(part["nodes"], part["places"], strict=True):
            if node["ops"] and node["kind"] in ("operator", "kernel"):
                op = house.operators[node["ops"][0]].name
                assert where.setdefault(op, tuple(place[:3])) == tuple(place[:3])
            if node["kind"] in ("input", "output"):
                assert where.setdefault(node["name"], tuple(place[:3])) == tuple(place[:3])
    assert len(where) > 20


def test_what_a_step_changed_has_its_sign() -> None:
    house = read(explorer.compile("zoo:tiny_bert", until="planned"))
    steps = [s.name for s in house.compiled.snapshots]
    weld = step_part(house, steps.index("fuse (Welder)"))
    assert {n["note"] for n in weld["nodes"]} >= {"~", ""}
    idle = step_part(house, steps.index("inline calls"))
    assert {n["note"] for n in idle["nodes"]} == {""}
