"""An access-count simulator: executes a tile of a kernel point by point and counts what it touches.

It knows nothing of intervals: what a tile needs is the set of elements that its points load, one
by one, from the output back to the inputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from math import prod

from explorer.ir.affine import Affine
from explorer.ir.kernel import Axis, Compute, Kernel, Read, reads
from explorer.ir.types import ITEM_BYTES

Element = tuple[int, ...]


@dataclass
class Counted:
    """What all tiles did: elements of each tensor that each touched, points of each compute."""

    tiles: int = 0
    elements: Counter[str] = field(default_factory=Counter)
    transactions: Counter[str] = field(default_factory=Counter)
    points: Counter[int] = field(default_factory=Counter)

    def bytes(self, kernel: Kernel) -> int:
        """Bytes of inputs and output that tiles touched, each element once a tile."""
        border = (*kernel.inputs, kernel.output)
        return sum(self.elements[n] * ITEM_BYTES[kernel.dtype(n)] for n in border)


def value(index: Affine, point: Mapping[str, int]) -> int:
    """An index at one point."""
    return int(index.const) + sum(int(k) * point[n] for n, k in index.terms)


def walk(axes: tuple[Axis, ...]) -> Iterator[dict[str, int]]:
    """Every point of some axes."""
    names = [a.name for a in axes]
    for place in product(*(range(int(a.extent)) for a in axes)):
        yield dict(zip(names, place, strict=True))


def element(read: Read, point: Mapping[str, int], shape: tuple[int, ...]) -> Element | None:
    """The element that a load takes at one point; None where it takes its fill."""
    found = tuple(value(i, point) for i in read.index if isinstance(i, Affine))
    inside = all(0 <= f < n for f, n in zip(found, shape, strict=True))
    assert inside or read.fill is not None
    return found if inside else None


def in_tile(c: Compute, point: Mapping[str, int], origin: Mapping[str, range]) -> bool:
    return all(point[a] in r for a, r in origin.items())


def runs(elements: set[Element], shape: tuple[int, ...]) -> list[int]:
    """How many elements lie side by side in memory, run by run."""
    strides = [prod(shape[d + 1 :]) for d in range(len(shape))]
    flat = sorted(sum(e * s for e, s in zip(one, strides, strict=True)) for one in elements)
    found: list[int] = []
    last = None
    for f in flat:
        if last is not None and f == last + 1:
            found[-1] += 1
        else:
            found.append(1)
        last = f
    return found


def one_tile(
    kernel: Kernel, origin: Mapping[str, range]
) -> tuple[dict[str, set[Element]], Counter[int]]:
    """The elements of every tensor that one tile of the output needs, and the points it has."""
    needed: dict[str, set[Element]] = {}
    points: Counter[int] = Counter()
    for n, c in reversed(list(enumerate(kernel.computes))):
        for point in walk(c.axes):
            out = tuple(value(i, point) for i in c.target)
            if c.out == kernel.output:
                if not in_tile(c, point, origin):
                    continue
                needed.setdefault(c.out, set()).add(out)
            elif out not in needed.get(c.out, ()):
                continue
            for more in walk(c.reduce):
                points[n] += 1
                for read in reads(c.expr):
                    shape = tuple(int(d) for d in kernel.shape(read.tensor))
                    found = element(read, point | more, shape)
                    if found is not None:
                        needed.setdefault(read.tensor, set()).add(found)
    return needed, points


def count(
    kernel: Kernel, tile: Mapping[str, int], read_bytes: int = 1, write_bytes: int = 1
) -> Counted:
    """Executes every tile of the output."""
    last = kernel.computes[-1]
    sizes = {a.name: (tile.get(a.name, int(a.extent)), int(a.extent)) for a in last.axes}
    total = Counted()
    for place in product(*(range(0, extent, size) for size, extent in sizes.values())):
        origin = {
            name: range(p, min(p + size, extent))
            for (name, (size, extent)), p in zip(sizes.items(), place, strict=True)
        }
        needed, points = one_tile(kernel, origin)
        total.tiles += 1
        total.points += points
        for name, elements in needed.items():
            total.elements[name] += len(elements)
            line = write_bytes if name == kernel.output else read_bytes
            shape = tuple(int(d) for d in kernel.shape(name))
            item = ITEM_BYTES[kernel.dtype(name)]
            total.transactions[name] += sum(-(-n * item // line) for n in runs(elements, shape))
    return total
