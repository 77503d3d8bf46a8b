"""Layered layout of a directed graph with few crossings (Sugiyama, Tagawa and Toda 1981).

Each node lies below the nodes that it reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LONGEST_ROUTED = 4  # a longer edge, in layers, runs beside the graph


@dataclass(frozen=True, slots=True)
class Layers:
    """A layered graph: `rows[i]` lists the nodes of layer i from left to right.

    Numbers from `nodes` on are bends of long edges. `routes` holds the bends of an edge by the
    edge's position; an edge without an entry is short or is drawn beside the graph.
    """

    nodes: int
    rows: tuple[tuple[int, ...], ...]
    routes: dict[int, tuple[int, ...]]


def layered(nodes: int, edges: Sequence[tuple[int, int]], sweeps: int = 8) -> Layers:
    """Lay out a graph: longest-path layers, bends on edges of a few layers, median ordering."""
    layer = _longest_paths(nodes, edges)
    links: list[tuple[int, int]] = []
    routes: dict[int, tuple[int, ...]] = {}
    for at, (a, b) in enumerate(edges):
        span = layer[b] - layer[a]
        if span > LONGEST_ROUTED:
            continue
        bends = tuple(range(len(layer), len(layer) + span - 1))
        layer.extend(range(layer[a] + 1, layer[b]))
        if bends:
            routes[at] = bends
        links.extend(zip((a, *bends), (*bends, b)))
    return Layers(nodes, _ordered(layer, links, sweeps), routes)


def _longest_paths(nodes: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return the layer of each node; a source lies right above its first reader."""
    readers: list[list[int]] = [[] for _ in range(nodes)]
    waiting = [0] * nodes
    for a, b in edges:
        readers[a].append(b)
        waiting[b] += 1
    sources = [v for v in range(nodes) if not waiting[v]]
    layer = [0] * nodes
    ready = list(sources)
    while ready:
        node = ready.pop()
        for reader in readers[node]:
            layer[reader] = max(layer[reader], layer[node] + 1)
            waiting[reader] -= 1
            if not waiting[reader]:
                ready.append(reader)
    for node in sources:
        if readers[node]:
            layer[node] = max(0, min(layer[r] for r in readers[node]) - 1)
    return layer


def _ordered(
    layer: Sequence[int], links: Sequence[tuple[int, int]], sweeps: int
) -> tuple[tuple[int, ...], ...]:
    """Order the nodes of each layer by the medians of their neighbours, in alternating sweeps."""
    above: list[list[int]] = [[] for _ in layer]
    below: list[list[int]] = [[] for _ in layer]
    for a, b in links:
        below[a].append(b)
        above[b].append(a)
    rows: list[list[int]] = [[] for _ in range(max(layer, default=-1) + 1)]
    for node in _depth_first(layer, below):
        rows[layer[node]].append(node)
    place = [0] * len(layer)
    for row in rows:
        _number(row, place)
    wide = [row for row in rows if len(row) > 1]  # a single node needs no order
    for sweep in range(sweeps):
        down = sweep % 2 == 0
        near = above if down else below
        for row in wide if down else reversed(wide):
            medians = {v: _median([place[u] for u in near[v]], place[v]) for v in row}
            row.sort(key=medians.__getitem__)
            _number(row, place)
    return tuple(map(tuple, rows))


def _number(row: Sequence[int], place: list[int]) -> None:
    for i, node in enumerate(row):
        place[node] = i


def _depth_first(layer: Sequence[int], below: Sequence[Sequence[int]]) -> list[int]:
    seen = [False] * len(layer)
    order: list[int] = []
    for root in sorted(range(len(layer)), key=layer.__getitem__):
        stack = [root]
        while stack:
            node = stack.pop()
            if not seen[node]:
                seen[node] = True
                order.append(node)
                stack.extend(reversed(below[node]))
    return order


def _median(places: list[int], otherwise: int) -> float:
    if not places:
        return otherwise
    places.sort()
    half = len(places) // 2
    return places[half] if len(places) % 2 else (places[half - 1] + places[half]) / 2
