"""Random modules of NASBench-101: vertices that convolve or pool, and edges between them.

A module has at most seven vertices, the first its input and the last its output, and at most nine
edges (Ying et al. 2019, section 2). The inputs of a vertex are added; those of the output are
concatenated. Rammer ran 5,000 of them (Ma et al. 2020, section 5.2). `zoo:nasbench_17` is the
module of seed 17, small enough that thousands can be compiled: 24 channels divide by two, three and
four, and no more than four vertices ever reach the output.
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

    `operations` are those of the vertices between the first and the last. An edge goes from a
    vertex to a later one. Every vertex lies on a path from the first to the last.
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
        """Build the model with the layers of `net`."""
        image = (1, self.channels, self.size, self.size)
        x = net.input("image", image)
        widths, values = self.widths(), [x]
        for vertex, (operation, width) in enumerate(zip(self.operations, widths), 1):
            with net.inside(f"vertices.{vertex}"):
                vertex_input = self._vertex_input(net, values, vertex, width)
                values.append(_operation(net, operation, vertex_input, width))
        joined = [v for n, v in enumerate(values) if n and (n, self.last) in self.edges]
        parts = [net.concat(joined, 1)] if len(joined) > 1 else joined
        if (0, self.last) in self.edges:
            parts.append(_project(net, x, self.channels, self.channels))
        net.output("image_out", reduce(net.add, parts), image)

    def widths(self) -> tuple[int, ...]:
        """Return the channels of the inner vertices.

        Those that reach the output share its channels. The others have as many as the widest
        successor.
        """
        outermost = [n for n in range(1, self.last) if (n, self.last) in self.edges]
        channels = dict.fromkeys(range(1, self.last), 0)
        for place, vertex in enumerate(outermost):
            share, more = divmod(self.channels, len(outermost))
            channels[vertex] = share + (place < more)
        for vertex in reversed(range(1, self.last)):
            if vertex not in outermost:
                channels[vertex] = max(channels[b] for a, b in self.edges if a == vertex)
        return tuple(channels.values())

    def _vertex_input(self, net: Layers[V], values: list[V], vertex: int, width: int) -> V:
        """Return the sum of a vertex's inputs, sliced to its width."""
        parts, widths = [], self.widths()
        for n in range(1, vertex):
            if (n, vertex) in self.edges:
                wider = widths[n - 1] > width
                parts.append(net.slice(values[n], 1, 0, width) if wider else values[n])
        if (0, vertex) in self.edges:
            parts.append(_project(net, values[0], self.channels, width))
        return reduce(net.add, parts)


def draw_module(seed: int) -> Module:
    """Return a module whose edges and operations are drawn until NASBench allows it."""
    random = np.random.default_rng([seed, 101])
    while True:
        matrix = np.triu(random.integers(0, 2, (VERTICES, VERTICES)), 1)
        operations = tuple(str(o) for o in random.choice(OPERATIONS, VERTICES - 2))
        module = _prune({(int(a), int(b)) for a, b in np.argwhere(matrix)}, operations)
        if module is not None and len(module.edges) <= EDGES:
            return module


def _prune(edges: set[tuple[int, int]], operations: tuple[str, ...]) -> Module | None:
    """Return the subgraph between the first and the last vertex; None if it is empty."""
    last = len(operations) + 1
    below = _reachable(edges, 0) & _reachable({(b, a) for a, b in edges}, last)
    if last not in below or len(below) == 2:
        return None
    new = {vertex: n for n, vertex in enumerate(sorted(below))}
    inner_edges = frozenset((new[a], new[b]) for a, b in edges if {a, b} <= below)
    return Module(tuple(operations[v - 1] for v in sorted(below)[1:-1]), inner_edges)


def _reachable(edges: set[tuple[int, int]], start: int) -> set[int]:
    reached, worklist = {start}, [start]
    while worklist:
        here = worklist.pop()
        more = {b for a, b in edges if a == here} - reached
        reached |= more
        worklist.extend(more)
    return reached


def _operation(net: Layers[V], operation: str, x: V, width: int) -> V:
    match operation:
        case "conv3x3":
            return conv_norm(net, operation, x, width, width, 3, activation=net.relu)
        case "conv1x1":
            return conv_norm(net, operation, x, width, width, activation=net.relu)
        case _:
            return net.max_pool(x, 3, 1, 1)


def _project(net: Layers[V], x: V, channels: int, width: int) -> V:
    return conv_norm(net, "projection", x, channels, width, activation=net.relu)
