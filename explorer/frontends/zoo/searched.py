"""Networks of searched cells: NASNet-A, and random modules of NASBench-101."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Generic

import numpy as np

from explorer.frontends.zoo.layers import Layers, V, conv_norm

# A pair of operations, each with the index of its input: 0 is the previous value, 1 the one before
# it, 2 and on are the sums of the cell.
Pair = tuple[str, int, str, int]


@dataclass(frozen=True, slots=True)
class Cell:
    """Pairs of operations, and the values that are concatenated, as in the authors' code."""

    pairs: tuple[Pair, ...]
    joined: tuple[int, ...]


NORMAL = Cell(
    (
        ("separable 5", 0, "separable 3", 1),
        ("separable 5", 1, "separable 3", 1),
        ("average", 0, "same", 1),
        ("average", 1, "average", 1),
        ("separable 3", 0, "same", 0),
    ),
    (1, 2, 3, 4, 5, 6),
)
REDUCTION = Cell(
    (
        ("separable 5", 0, "separable 7", 1),
        ("max", 0, "separable 7", 1),
        ("average", 0, "separable 5", 1),
        ("same", 3, "average", 2),
        ("separable 3", 2, "max", 0),
    ),
    (3, 4, 5, 6),
)
INPUTS = 2  # of a cell


@dataclass(frozen=True, slots=True)
class Image(Generic[V]):
    """A value of [batch, channels, extent, extent]."""

    value: V
    channels: int
    extent: int


@dataclass(frozen=True, slots=True)
class NasNet:
    """NASNet-A for images of 32 by 32: a stack of two cells found by search (Zoph et al. 2018).

    NASNet-A (6 @ 768): three times six normal cells, with a reduction cell between them. A cell
    reads the two previous values and adds pairs of operations on them (figure 4 of the paper). The
    fields are its sizes.
    """

    size: int = 32
    cells: int = 6  # of a stack, reductions not counted
    filters: int = 32  # of the first stack; each later one has twice as many
    stem: int = 96
    classes: int = 10

    def __call__(self, net: Layers[V]) -> None:
        """Build the model with the layers of `net`."""
        x = net.input("image", ("batch", 3, self.size, self.size))
        stem = Image(conv_norm(net, "stem", x, 3, self.stem, 3), self.stem, self.size)
        before, last = stem, stem
        for n in range(3):
            filters = self.filters << n
            if n:
                with net.inside(f"reductions.{n - 1}"):
                    before, last = last, _cell(net, REDUCTION, filters, last, before, 2)
            for m in range(self.cells):
                with net.inside(f"stacks.{n}.{m}"):
                    before, last = last, _cell(net, NORMAL, filters, last, before, 1)
        pooled = net.reshape(net.global_pool(net.relu(last.value)), 0, last.channels)
        scores = net.linear("classifier", pooled, last.channels, self.classes)
        net.output("scores", scores, ("batch", self.classes))


def _cell(
    net: Layers[V], cell: Cell, filters: int, last: Image[V], before: Image[V], stride: int
) -> Image[V]:
    values = [_squeezed(net, last, filters), _fitted(net, before, last.extent, filters)]
    for n, (left, left_input, right, right_input) in enumerate(cell.pairs):
        with net.inside(f"pairs.{n}"):
            first, second = (
                _operation(net, name, what, values[i], filters, stride if i < INPUTS else 1)
                for name, what, i in (("left", left, left_input), ("right", right, right_input))
            )
            values.append(net.add(first, second))
    joined = net.concat([values[n] for n in cell.joined], 1)
    return Image(joined, len(cell.joined) * filters, last.extent // stride)


def _squeezed(net: Layers[V], x: Image[V], filters: int) -> V:
    return conv_norm(net, "last", net.relu(x.value), x.channels, filters)


def _fitted(net: Layers[V], x: Image[V], extent: int, filters: int) -> V:
    """Project a value to the channels and the size of the value after it."""
    if x.extent == extent:
        return conv_norm(net, "before", net.relu(x.value), x.channels, filters)
    return _halved(net, net.relu(x.value), x.channels, filters)


def _halved(net: Layers[V], x: V, channels: int, filters: int) -> V:
    """Halve the size: half of the channels read the even pixels, the others the odd ones."""
    with net.inside("before"):
        odd = net.slice(net.slice(x, 2, 1), 3, 1)
        parts = [
            net.conv(name, pixels, channels, filters // 2, stride=2, pad=0, bias=False)
            for name, pixels in (("even", x), ("odd", odd))
        ]
        return net.batch_norm("norm", net.concat(parts, 1), filters)


def _operation(net: Layers[V], name: str, what: str, x: V, filters: int, stride: int) -> V:
    with net.inside(name):
        match what.split():
            case ["separable", kernel]:
                return _separable(net, x, filters, int(kernel), stride)
            case ["average"]:
                return net.average_pool(x, 3, stride, 1)
            case ["max"]:
                return net.max_pool(x, 3, stride, 1)
            case _:
                return x


def _separable(net: Layers[V], x: V, filters: int, kernel: int, stride: int) -> V:
    """Apply a depthwise and a pointwise convolution, twice."""
    for n in range(2):
        with net.inside(str(n)):
            x = net.conv(
                "depthwise",
                net.relu(x),
                filters,
                filters,
                kernel,
                1 if n else stride,
                groups=filters,
                gain=2,
                bias=False,
            )
            x = conv_norm(net, "pointwise", x, filters, filters)
    return x


SMALL_NASNET = NasNet(size=12, cells=1, filters=4, stem=6)


NASBENCH = "nasbench_"  # prefix of names: `zoo:nasbench_17` is the module of seed 17
VERTICES, EDGES = 7, 9  # at most
OPERATIONS = ("conv3x3", "conv1x1", "maxpool3x3")

Edges = frozenset[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Module:
    """A random module of NASBench-101, for images of [1, channels, size, size].

    It has at most seven vertices, the first its input and the last its output, and at most nine
    edges (Ying et al. 2019, section 2). The inputs of a vertex are added; those of the output are
    concatenated. Rammer ran 5,000 of them (Ma et al. 2020, section 5.2). The default is small
    enough that thousands can be compiled: 24 channels divide by two, three and four, and no more
    than four vertices ever reach the output.

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
                values.append(_vertex_operation(net, operation, vertex_input, width))
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


def _vertex_operation(net: Layers[V], operation: str, x: V, width: int) -> V:
    match operation:
        case "conv3x3":
            return conv_norm(net, operation, x, width, width, 3, activation=net.relu)
        case "conv1x1":
            return conv_norm(net, operation, x, width, width, activation=net.relu)
        case _:
            return net.max_pool(x, 3, 1, 1)


def _project(net: Layers[V], x: V, channels: int, width: int) -> V:
    return conv_norm(net, "projection", x, channels, width, activation=net.relu)
