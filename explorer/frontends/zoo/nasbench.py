"""Random modules as NASBench-101 has them: vertices that convolve or pool, and edges between them.

A module has at most seven vertices, the first its input and the last its output, and at most nine
edges (Ying et al. 2019, section 2). What reaches a vertex is added up; what reaches the output lies
side by side. Rammer raced 5,000 of them (Ma et al. 2020, section 5.2). `zoo:nasbench_17` is the
module of seed 17, small enough that thousands can be compiled: 24 channels can be halved, and cut
in three and in four, and more vertices than four never reach the output.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np

from explorer.frontends.zoo.blocks import conv_norm
from explorer.frontends.zoo.layers import Layers, V

PREFIX = "nasbench_"
VERTICES, EDGES = 7, 9  # at most
OPERATIONS = ("conv3x3", "conv1x1", "maxpool3x3")

Edges = frozenset[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Module:
    """A module for images of [1, channels, size, size].

    `operations` are those of the vertices between the first and the last; an edge goes from a
    vertex to a later one, and every vertex lies between the first and the last.
    """

    operations: tuple[str, ...]
    edges: Edges
    channels: int = 24
    size: int = 8

    @property
    def last(self) -> int:
        """The vertex of the output."""
        return len(self.operations) + 1

    def __call__(self, net: Layers[V]) -> None:
        image = (1, self.channels, self.size, self.size)
        x = net.input("image", image)
        widths, values = self.widths(), [x]
        for vertex, (operation, width) in enumerate(zip(self.operations, widths), 1):
            with net.inside(f"vertices.{vertex}"):
                seen = self._seen(net, values, vertex, width)
                values.append(_operation(net, operation, seen, width))
        joined = [v for n, v in enumerate(values) if n and (n, self.last) in self.edges]
        parts = [net.concat(joined, 1)] if len(joined) > 1 else joined
        if (0, self.last) in self.edges:
            parts.append(_projected(net, x, self.channels, self.channels))
        net.output("image_out", reduce(net.add, parts), image)

    def widths(self) -> tuple[int, ...]:
        """The channels of the vertices between: those that reach the output share its channels, the
        others have as many as the widest that they reach.
        """
        outermost = [n for n in range(1, self.last) if (n, self.last) in self.edges]
        found = dict.fromkeys(range(1, self.last), 0)
        for place, vertex in enumerate(outermost):
            share, more = divmod(self.channels, len(outermost))
            found[vertex] = share + (place < more)
        for vertex in reversed(range(1, self.last)):
            if vertex not in outermost:
                found[vertex] = max(found[b] for a, b in self.edges if a == vertex)
        return tuple(found.values())

    def _seen(self, net: Layers[V], values: list[V], vertex: int, width: int) -> V:
        """The sum of what reaches a vertex, as wide as the vertex is."""
        parts, widths = [], self.widths()
        for n in range(1, vertex):
            if (n, vertex) in self.edges:
                wider = widths[n - 1] > width
                parts.append(net.slice(values[n], 1, 0, width) if wider else values[n])
        if (0, vertex) in self.edges:
            parts.append(_projected(net, values[0], self.channels, width))
        return reduce(net.add, parts)


def drawn(seed: int) -> Module:
    """A module whose edges and operations are drawn until it is one that NASBench allows."""
    random = np.random.default_rng([seed, 101])
    while True:
        matrix = np.triu(random.integers(0, 2, (VERTICES, VERTICES)), 1)
        operations = tuple(str(o) for o in random.choice(OPERATIONS, VERTICES - 2))
        module = _pruned({(int(a), int(b)) for a, b in np.argwhere(matrix)}, operations)
        if module is not None and len(module.edges) <= EDGES:
            return module


def _pruned(edges: set[tuple[int, int]], operations: tuple[str, ...]) -> Module | None:
    """What lies between the first vertex and the last; None where nothing does."""
    last = len(operations) + 1
    below = _reached(edges, 0) & _reached({(b, a) for a, b in edges}, last)
    if last not in below or len(below) == 2:
        return None
    new = {vertex: n for n, vertex in enumerate(sorted(below))}
    kept = frozenset((new[a], new[b]) for a, b in edges if {a, b} <= below)
    return Module(tuple(operations[v - 1] for v in sorted(below)[1:-1]), kept)


def _reached(edges: set[tuple[int, int]], start: int) -> set[int]:
    found, rest = {start}, [start]
    while rest:
        here = rest.pop()
        more = {b for a, b in edges if a == here} - found
        found |= more
        rest.extend(more)
    return found


def _operation(net: Layers[V], operation: str, x: V, width: int) -> V:
    match operation:
        case "conv3x3":
            return conv_norm(net, operation, x, width, width, 3, activation=net.relu)
        case "conv1x1":
            return conv_norm(net, operation, x, width, width, activation=net.relu)
        case _:
            return net.max_pool(x, 3, 1, 1)


def _projected(net: Layers[V], x: V, channels: int, width: int) -> V:
    return conv_norm(net, "projection", x, channels, width, activation=net.relu)
