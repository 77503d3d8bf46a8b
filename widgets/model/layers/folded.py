"""A graph with its repeated layers folded into one node with their count.

A group that is opened shows one node per layer; a layer that is opened shows its nodes. Everything
else stays in its place.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass

from widgets.draw.layered import Layers, layered
from widgets.model.dataflow_graph import Graph, GraphNode
from widgets.model.layers.repeats import Part, Repeat, positions, repeats

EVERYTHING = "*"  # opens all
CLOSED, OPEN = "group", "open"  # kinds of nodes


@dataclass(frozen=True, slots=True)
class LayerGroup:
    """`count` layers that are alike, or one such layer (`count` 1).

    `key` names it; `children` are its parts, numbers for nodes of the graph.
    """

    key: str
    label: str
    count: int
    children: tuple[int | LayerGroup, ...]
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tree:
    """A graph's nodes, grouped by the layers that hold them."""

    graph: Graph
    parts: tuple[int | LayerGroup, ...]

    @property
    def groups(self) -> int:
        """The number of groups of repeated layers, nested ones included."""
        return sum(_count(p) for p in self.parts)


def _count(part: int | LayerGroup) -> int:
    if isinstance(part, int):
        return 0
    return (part.count > 1) + sum(map(_count, part.children))


def tree(graph: Graph, does: Mapping[str, Hashable]) -> Tree:
    """Find the repeated layers of a graph; `does` maps a node's name to what it computes."""
    own = [n for n, node in enumerate(graph.nodes) if node.kind in ("operator", "kernel")]
    at = {n: i for i, n in enumerate(own)}
    kind_numbers: dict[Hashable, int] = {}
    kinds = [
        kind_numbers.setdefault(does.get(graph.nodes[n].name, n), len(kind_numbers)) for n in own
    ]
    edges = [(at[a], at[b]) for a, b in graph.edges if a in at and b in at]
    parts = repeats(kinds, edges)
    inside = _groups(parts, own, graph, "")
    ends = [n for n in range(len(graph.nodes)) if n not in at]
    first = [n for n in ends if graph.nodes[n].kind == "input"]
    last = [n for n in ends if graph.nodes[n].kind != "input"]
    return Tree(graph, (*first, *inside, *last))


def _groups(
    parts: Sequence[Part], own: Sequence[int], graph: Graph, where: str
) -> tuple[int | LayerGroup, ...]:
    groups: list[int | LayerGroup] = []
    for n, part in enumerate(parts):
        if isinstance(part, int):
            groups.append(own[part])
            continue
        key = f"{where}{n}"
        nodes = tuple(own[i] for i in positions(part))
        copies = tuple(_layer(part, i, own, graph, key) for i in range(len(part.copies)))
        names = [c.label for c in copies]
        groups.append(LayerGroup(key, _common_label(names), len(copies), copies, nodes))
    return tuple(groups)


def _layer(part: Repeat, number: int, own: Sequence[int], graph: Graph, where: str) -> LayerGroup:
    copy, key = part.copies[number], f"{where}.{number}"
    nodes = tuple(own[i] for p in copy for i in positions(p))
    label = _path([graph.nodes[n].name for n in nodes]) or f"layer {number + 1}"
    return LayerGroup(key, label, 1, _groups(copy, own, graph, f"{key}."), nodes)


def _path(names: Sequence[str]) -> str:
    """Return the last two parts of the path that most names begin with, which identify a layer."""
    rows = [name.strip("/").split("/")[:-1] for name in names]
    rows = [row for row in rows if row]
    if len(rows) * 2 < len(names):
        return ""
    common: list[str] = []
    for part in zip(*rows):
        if part.count(part[0]) < 0.9 * len(part):
            break
        common.append(part[0])
    return "/".join(common[-2:])


def _common_label(names: Sequence[str]) -> str:
    """Return the common label of layers: `layers.0 … 11`."""
    first, last = names[0], names[-1]
    if first.startswith("layer ") and first[6:].isdigit():
        return "layers"
    head = 0
    while head < min(len(first), len(last)) and first[head] == last[head]:
        head += 1
    ending = last[head:]
    return f"{first} … {ending}" if ending and first != last else first


def visible_graph(of: Tree, opened: Collection[str]) -> Graph:
    """Return the graph with the groups of these keys opened."""
    return _VisibleGraph(of, opened).graph()


class _VisibleGraph:
    def __init__(self, of: Tree, opened: Collection[str]) -> None:
        self.of, self.opened = of, opened
        self.nodes: list[GraphNode] = []
        self.shown: dict[int, int] = {}  # a node of the graph -> the visible node for it
        self.rows: list[list[int]] = []

    def graph(self) -> Graph:
        """Return all open levels as one graph."""
        full_graph = self.of.graph
        self.rows = self._level(self.of.parts)
        pairs = dict.fromkeys((self.shown[a], self.shown[b]) for a, b in full_graph.edges)
        edges = tuple((a, b) for a, b in pairs if a != b)
        layers = Layers(len(self.nodes), tuple(map(tuple, self.rows)), {})
        return Graph(tuple(self.nodes), edges, full_graph.operators, full_graph.folded, layers)

    def _is_open(self, group: LayerGroup) -> bool:
        return EVERYTHING in self.opened or group.key in self.opened

    def _level(self, parts: Sequence[int | LayerGroup]) -> list[list[int]]:
        """Return the rows of one level; an opened group's rows follow below its header."""
        home = {
            n: i
            for i, p in enumerate(parts)
            for n in (p.nodes if isinstance(p, LayerGroup) else (p,))
        }
        edges = dict.fromkeys(
            (home[a], home[b]) for a, b in self.of.graph.edges if a in home and b in home
        )
        layout = layered(len(parts), [(a, b) for a, b in edges if a != b])
        rows: list[list[int]] = []
        for row in layout.rows:
            mine = [i for i in row if i < len(parts)]
            rows.append([self._add(parts[i]) for i in mine])
            for i in mine:
                part = parts[i]
                if isinstance(part, LayerGroup) and self._is_open(part):
                    rows += self._level(part.children)
        return rows

    def _add(self, part: int | LayerGroup) -> int:
        at = len(self.nodes)
        if isinstance(part, int):
            self.nodes.append(self.of.graph.nodes[part])
            self.shown[part] = at
            return at
        ops = tuple(o for n in part.nodes for o in self.of.graph.nodes[n].ops)
        note = f"×{part.count}" if part.count > 1 else ""
        kind = OPEN if self._is_open(part) else CLOSED
        self.nodes.append(GraphNode(part.key, part.label, kind, "", ops, note))
        if kind == CLOSED:
            self.shown |= dict.fromkeys(part.nodes, at)
        return at
