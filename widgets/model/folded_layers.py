"""A graph with its repeated layers folded into one node with their count.

A group that is opened shows one node per layer; a layer that is opened shows its nodes. Everything
else stays in its place.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from widgets.draw.layered import Layers, layered
from widgets.model.dataflow_graph import Graph, GraphNode

EVERYTHING = "*"  # opens all
CLOSED, OPEN = "group", "open"  # kinds of nodes
LEAST = 3  # nodes of a layer; chosen
LONGEST = 2048  # nodes of a layer that is looked for; chosen
PARTS = 200  # a repeat covers at least this fraction (1/PARTS) of its piece; chosen


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


@dataclass(frozen=True, slots=True)
class Repeat:
    """Layers that are alike, each as its parts: positions, and nested repeats."""

    copies: tuple[tuple[Part, ...], ...]


Part: TypeAlias = int | Repeat


def repeats(kinds: Sequence[int], edges: Sequence[tuple[int, int]]) -> tuple[Part, ...]:
    """Return the sequence with each repeat as one part.

    `kinds` are equal for nodes that compute the same; `edges` give producers and readers. Copies
    read alike inside, and begin where the fewest values are live.
    """
    finder = _Finder(np.asarray(kinds, dtype=np.int64), edges)
    return finder.parts(0, len(kinds))


class _Finder:
    def __init__(self, kinds: np.ndarray, edges: Sequence[tuple[int, int]]) -> None:
        self.kinds = kinds
        self.sources: list[list[int]] = [[] for _ in kinds]
        last = np.arange(len(kinds))
        for a, b in edges:
            self.sources[b].append(a)
            last[a] = max(last[a], b)
        change = np.zeros(len(kinds) + 1, dtype=np.int64)
        for a, end in enumerate(last):  # alive in the gaps before a + 1 .. end
            change[a + 1] += 1
            change[end + 1] -= 1
        self.alive = np.cumsum(change)

    def parts(self, low: int, high: int) -> tuple[Part, ...]:
        """Return the parts of a piece of the sequence."""
        repeat = self._best(low, high)
        if repeat is None:
            return tuple(range(low, high))
        start, size, count = repeat
        inner = (
            self.parts(start, start + size)
            if size >= 2 * LEAST
            else tuple(range(start, start + size))
        )
        copies = tuple(tuple(_moved(p, n * size) for p in inner) for n in range(count))
        end = start + size * count
        return (*self.parts(low, start), Repeat(copies), *self.parts(end, high))

    def _best(self, low: int, high: int) -> tuple[int, int, int] | None:
        """Return the repeat that covers most: its start, the size of a layer, and their number."""
        piece, best = self.kinds[low:high], None
        most = max(2 * LEAST, (high - low) // PARTS) - 1
        for size in range(LEAST, min((high - low) // 2, LONGEST) + 1):
            equal = piece[:-size] == piece[size:]
            if int(equal.sum()) < max(size, most - size):
                continue
            for start, length in _runs(equal, max(size, most - size + 1)):
                if (length + size) // size * size <= most:
                    continue
                placed = self._placed(low + start, length, size)
                if placed is not None and placed[1] * placed[2] > most:
                    best, most = placed, placed[1] * placed[2]
        return best

    def _placed(self, start: int, length: int, size: int) -> tuple[int, int, int] | None:
        """Place a run where the fewest values are live between copies that read alike."""
        choices = []
        for shift in range(min(size, length - size + 1)):
            count = (length + size - shift) // size
            gaps = [start + shift + n * size for n in range(count)]
            alive = float(np.mean(self.alive[gaps[1:]])) if count > 1 else float("inf")
            choices.append((alive, -count, shift))
        for alive, _, shift in sorted(choices)[:4]:
            if alive == float("inf"):
                break
            count = (length + size - shift) // size
            row = self._alike(start + shift, size, count)
            if row is not None:
                return row
        return None

    def _alike(self, start: int, size: int, count: int) -> tuple[int, int, int] | None:
        """Return the longest row of copies that read alike inside."""
        wiring = [self._wiring(start + n * size, size) for n in range(count)]
        best, begin = (0, 0), 0
        for n in range(1, count + 1):
            if n == count or wiring[n] != wiring[begin]:
                best = max(best, (n - begin, -begin))
                begin = n
        copies, first = best[0], -best[1]
        return (start + first * size, size, copies) if copies > 1 else None

    def _wiring(self, start: int, size: int) -> tuple[tuple[int, ...], ...]:
        return tuple(
            tuple(a - start for a in self.sources[start + n] if a >= start) for n in range(size)
        )


def _runs(equal: np.ndarray, least: int) -> list[tuple[int, int]]:
    """Return the start and length of each run of at least `least` True values."""
    padded = np.concatenate(([False], equal, [False]))
    ends = np.flatnonzero(padded[1:] != padded[:-1])
    begins, lengths = ends[::2], ends[1::2] - ends[::2]
    long = lengths >= least
    return list(zip(begins[long].tolist(), lengths[long].tolist(), strict=True))


def _moved(part: Part, by: int) -> Part:
    if isinstance(part, int):
        return part + by
    return Repeat(tuple(tuple(_moved(p, by) for p in copy) for copy in part.copies))


def positions(part: Part) -> tuple[int, ...]:
    """Return all nodes of a part."""
    if isinstance(part, int):
        return (part,)
    return tuple(n for copy in part.copies for p in copy for n in positions(p))
