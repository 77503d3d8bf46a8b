"""NASNet-A for images of 32 by 32: a stack of two cells found by search (Zoph et al. 2018).

NASNet-A (6 @ 768): three times six normal cells, with a reduction cell between them. A cell reads
the two previous values and adds pairs of operations on them (figure 4 of the paper).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from explorer.frontends.zoo.blocks import conv_norm
from explorer.frontends.zoo.layers import Layers, V

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
    """Sizes of the model."""

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


SMALL = NasNet(size=12, cells=1, filters=4, stem=6)
