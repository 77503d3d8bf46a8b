"""Elements that one tile of a kernel's output touches, in numbers.

Clipped axes, skipped elements and the few kinds of tiles are taken into account.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import NamedTuple, TypeAlias

from explorer.ir.affine import Affine
from explorer.ir.by_identity import by_identity
from explorer.ir.dims import Dim
from explorer.ir.kernel import Axis, Expr, Kernel, reads
from explorer.ir.kernels.regions import Interval, Regions, interval, tile_variable

Origin: TypeAlias = Mapping[str, int]  # the value of each tile variable, for one tile
Range: TypeAlias = tuple[int, int]  # half-open
ENUMERATED_VALUES = 4096  # largest number of index values to enumerate: a bound on time, chosen
MOST_KINDS = (
    1024  # kinds of tiles; beyond, some represent their neighbours: a bound on time, chosen
)


class Steps(NamedTuple):
    """The values of an index: their range and at most how many; `apart` if data selects them."""

    low: int
    high: int  # not included
    places: int
    apart: bool = False


@dataclass(frozen=True, slots=True)
class TouchedPart:
    """The part of a tensor that a tile touches: in each dim a range and its number of positions."""

    tensor: str
    dims: tuple[Steps, ...]
    points: int  # loads, repeats included; 0 if only written

    @property
    def box(self) -> tuple[int, ...]:
        """The extents of the bounding box."""
        return tuple([d.high - d.low for d in self.dims])

    @property
    def elements(self) -> int:
        """The largest number of touched elements."""
        positions = prod([d.places for d in self.dims])
        return min(positions, self.points) if self.points else positions

    @property
    def room(self) -> int:
        """The elements of a copy: of the box, or of the loads if that is less."""
        positions = prod(self.box)
        return min(positions, self.points) if self.points else positions

    def moved(self, shape: tuple[int, ...], item_bytes: int, line_bytes: int) -> int:
        """Return the bytes of the part in full transactions.

        Adjacent rows are one run of transactions, rows that data selects are not.
        """
        if line_bytes == 1:
            return self.elements * item_bytes
        run, inner, d = 1, 1, len(shape) - 1
        while d >= 0 and not (self.dims[d].apart and d < len(shape) - 1):
            dim = self.dims[d]
            run, inner, d = run * (dim.high - dim.low), inner * dim.places, d - 1
            if dim.high - dim.low != shape[d + 1]:
                break
        rows = prod([dim.places for dim in self.dims[: d + 1]])
        lines = rows * min(-(-run * item_bytes // line_bytes), inner)
        return min(lines, self.points or lines) * max(line_bytes, item_bytes)


def number(dim: Dim) -> int:
    """Return a dim of a bound kernel as a number."""
    return int(dim)


def at(index: Affine, origin: Origin) -> int:
    """Evaluate an affine index."""
    total = number(index.const)
    for name, factor in index.terms:
        total += number(factor) * origin[name]
    return total


def range_of(axis: Axis, part: Interval, origin: Origin) -> Range:
    """Return the iterations of an axis in a tile, clipped to its extent."""
    low = at(part.lo, origin)
    high = min(number(axis.extent), low + number(part.size))
    low = max(0, low)
    return low, max(low, high)


def steps_of(const: int, factors: Sequence[int], ranges: Sequence[Range], extent: int) -> Steps:
    """Return the values of `const + sum(factor * i)` inside a dim, each `i` in its range."""
    low = high = const
    walks = []
    for step, (first, last) in zip(factors, ranges):
        if first >= last:
            return Steps(0, 0, 0)
        begin, end = step * first, step * (last - 1)
        if begin > end:
            begin, end = end, begin
        low += begin
        high += end
        if last - first > 1:
            walks.append((abs(step), last - first))
    first, last = max(0, low), min(extent, high + 1)
    if first >= last:
        return Steps(0, 0, 0)
    return Steps(first, last, _count_values(low, sorted(walks), first, last))


def _count_values(low: int, walks: list[tuple[int, int]], first: int, last: int) -> int:
    """Return how many values `low + sum(step * i)` with `0 <= i < n` lie in a range."""
    reach = 1  # length of the runs of consecutive values
    while walks and walks[0][0] <= reach:
        step, n = walks.pop(0)
        reach += step * (n - 1)
    if not walks:
        return last - first
    if prod([n for _, n in walks]) > ENUMERATED_VALUES:
        return last - first
    starts = {low}
    for step, n in walks:
        starts = {s + step * i for s in starts for i in range(n)}
    total, end = 0, first
    for start in sorted(starts):
        total += max(0, min(last, start + reach) - max(end, start))
        end = max(end, start + reach)
    return total


class MemoryAccess(NamedTuple):
    """A load or store of an input or output.

    `dims`: in each dim the constant of its index, the factors, and the positions of their axes in
    `axes`; None if data selects. `selects`: the positions of the axes that the selecting data
    depends on. Accesses of the same elements have one `number`, whatever the names of axes.
    """

    number: int
    tensor: str
    extents: tuple[int, ...]
    dims: tuple[tuple[int, tuple[int, ...], tuple[int, ...]] | None, ...]
    selects: tuple[tuple[int, ...], ...]
    axes: tuple[str, ...]
    is_store: bool


@by_identity
def accesses(kernel: Kernel) -> tuple[tuple[MemoryAccess, ...], ...]:
    """Return the accesses of each compute of a bound kernel, its store first."""
    numbers: dict[object, int] = {}
    border = {*kernel.inputs, *kernel.outputs}
    by_compute = []
    for c in kernel.computes:
        indices = [(c.out, c.target, True), *((r.tensor, r.index, False) for r in reads(c.expr))]
        mine = (_access(kernel, *index, numbers) for index in indices if index[0] in border)
        by_compute.append(tuple(mine))
    return tuple(by_compute)


def _access(
    kernel: Kernel,
    tensor: str,
    index: tuple[Affine | Expr, ...],
    is_store: bool,
    numbers: dict[object, int],
) -> MemoryAccess:
    places: dict[str, int] = {}
    for name in (n for i in index for n in _names(i)):
        places.setdefault(name, len(places))
    dims = tuple(_dim(i, places) if isinstance(i, Affine) else None for i in index)
    selects = tuple(i for i in index if not isinstance(i, Affine))
    extents = tuple(number(n) for n in kernel.shape(tensor))
    access_number = numbers.setdefault((tensor, dims, selects, is_store), len(numbers))
    by = tuple(tuple(sorted({places[n] for n in _names(i)})) for i in index)
    return MemoryAccess(access_number, tensor, extents, dims, by, tuple(places), is_store)


def _dim(i: Affine, places: Mapping[str, int]) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    factors = tuple(number(k) for _, k in i.terms)
    return number(i.const), factors, tuple(places[n] for n, _ in i.terms)


def _names(index: Affine | Expr) -> Iterator[str]:
    """Yield the axes of an index in the order of their first use."""
    if isinstance(index, Affine):
        yield from (name for name, _ in index.terms)
    else:
        yield from (n for r in reads(index) for i in r.index for n in _names(i))


class TouchedParts:
    """The parts that tiles of a kernel touch, for regions of one tile size."""

    def __init__(self, kernel: Kernel, regions: Regions) -> None:
        """Prepare the accesses of a kernel."""
        self.walks = [
            ([(a, axes[a.name]) for a in (*c.axes, *c.reduce)], {a.name for a in c.reduce}, mine)
            for c, axes, mine in zip(kernel.computes, regions.axes, accesses(kernel))
        ]
        self._parts_by_ranges: dict[
            tuple[int, tuple[Range, ...]], tuple[tuple[Steps, ...], int]
        ] = {}

    def at(self, origin: Origin, steps: Mapping[str, int] | None = None) -> dict[str, TouchedPart]:
        """Return the part of every input and output that one tile touches.

        `steps`: reduced axes of which a load takes only so many elements at once.
        """
        parts: dict[str, TouchedPart] = {}
        seen: set[tuple[int, tuple[Range, ...]]] = set()
        for axes, reduced, mine in self.walks:
            if not mine:
                continue
            ranges = {a.name: range_of(a, part, origin) for a, part in axes}
            for name in reduced & steps.keys() if steps else ():
                first, last = ranges[name]
                ranges[name] = first, min(last, first + steps[name]) if steps else last
            for access in mine:
                key = access.number, tuple([ranges[a] for a in access.axes])
                if key in seen and not access.is_store:
                    continue
                seen.add(key)
                dims, points = self._parts_by_ranges.get(key) or self._part(access, key)
                earlier = parts.get(access.tensor)
                if earlier is not None:
                    dims, points = tuple(map(_union, earlier.dims, dims)), earlier.points + points
                parts[access.tensor] = TouchedPart(access.tensor, dims, points)
        return parts

    def _part(
        self, access: MemoryAccess, key: tuple[int, tuple[Range, ...]]
    ) -> tuple[tuple[Steps, ...], int]:
        ranges = key[1]
        dims = tuple(
            [
                steps_of(dim[0], dim[1], [ranges[n] for n in dim[2]], extent)
                if dim is not None
                else Steps(0, extent, extent)
                if access.is_store
                else Steps(0, extent, min(extent, _iterations(by, ranges)), True)
                for dim, by, extent in zip(access.dims, access.selects, access.extents, strict=True)
            ]
        )
        points = 0 if access.is_store else prod([high - low for low, high in ranges])
        self._parts_by_ranges[key] = dims, points
        return dims, points


def _iterations(axes: Sequence[int], ranges: Sequence[Range]) -> int:
    """Return the number of iterations of these axes together."""
    return prod([ranges[n][1] - ranges[n][0] for n in axes])


def touched(
    kernel: Kernel, regions: Regions, origin: Origin, steps: Mapping[str, int] | None = None
) -> dict[str, TouchedPart]:
    """Return the parts that one tile touches, as `TouchedParts.at`."""
    return TouchedParts(kernel, regions).at(origin, steps)


def _union(a: Steps, b: Steps) -> Steps:
    """Return the union of two indices' values, at most the sum of their numbers.

    Values in equal ranges may be disjoint, such as even and odd ones.
    """
    if not b.places:
        return a
    if not a.places:
        return b
    low, high = min(a.low, b.low), max(a.high, b.high)
    return Steps(low, high, min(high - low, a.places + b.places), a.apart or b.apart)


def kinds(
    kernel: Kernel, regions: Regions, tile: Mapping[str, int]
) -> Iterator[tuple[Origin, int]]:
    """Yield one tile of each kind of equal content, with the number of its kind.

    The first is a full one from the middle, if there is one. Beyond `MOST_KINDS`, some tiles
    represent their neighbours.
    """
    grid = grid_of(kernel, tile)
    parts = [*_clippable_intervals(kernel, regions)]
    ends = {tile_variable(a): size * (count - 1) for a, (size, count) in grid.items()}
    uneven = _uneven_variables(kernel, regions)
    places = [
        [(n * size, 1) for n in range(count)]
        if tile_variable(a) in uneven
        else _tile_positions(parts, ends, a, size, count)
        for a, (size, count) in grid.items()
    ]
    if prod(map(len, places)) > MOST_KINDS:
        most = max(4, int(MOST_KINDS ** (1 / len(places))))
        places = [_thin(p, most) for p in places]
    for chosen in product(*places):
        yield (
            {tile_variable(name): place for name, (place, _) in zip(grid, chosen)},
            prod([times for _, times in chosen]),
        )


def _thin(places: list[tuple[int, int]], most: int) -> list[tuple[int, int]]:
    """Thin positions to at most `most`, each but the first representing its neighbours."""
    if len(places) <= most:
        return places
    first, others = places[:1], places[1:]
    group = -(-len(others) // (most - 1))
    groups = [others[n : n + group] for n in range(0, len(others), group)]
    return first + [(g[len(g) // 2][0], sum(times for _, times in g)) for g in groups]


def grid_of(kernel: Kernel, tile: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Return the cut axes of the output, outermost first, with tile size and tile count."""
    last = next(c for c in reversed(kernel.computes) if c.out in kernel.outputs)
    return {
        a.name: (tile[a.name], -(-number(a.extent) // tile[a.name]))
        for a in last.axes
        if a.name in tile and tile[a.name] < number(a.extent)
    }


def middle(kernel: Kernel, tile: Mapping[str, int]) -> Origin:
    """Return the origin of the tile in the middle: a full one if there are three."""
    grid = grid_of(kernel, tile)
    return {tile_variable(a): size * ((count - 1) // 2) for a, (size, count) in grid.items()}


def _clippable_intervals(kernel: Kernel, regions: Regions) -> Iterator[tuple[Interval, int]]:
    """Yield every interval that may leave its axis or dim, with the extent of that."""
    for n, c in enumerate(kernel.computes):
        for a in (*c.axes, *c.reduce):
            yield regions.axes[n][a.name], number(a.extent)
        for r in reads(c.expr):
            if r.fill is not None:
                for i, extent in zip(r.index, kernel.shape(r.tensor), strict=True):
                    if isinstance(i, Affine):
                        yield interval(i, regions.axes[n]), number(extent)


def _uneven_variables(kernel: Kernel, regions: Regions) -> frozenset[str]:
    """Return the tile variables along which loads of one input move differently.

    Their overlap changes from tile to tile.
    """
    moves: dict[tuple[str, int], set[tuple[tuple[str, Dim], ...]]] = {}
    covered: set[tuple[str, int]] = set()
    for n, c in enumerate(kernel.computes):
        for r in reads(c.expr):
            for d, i in enumerate(r.index if r.tensor in kernel.inputs else ()):
                part = interval(i, regions.axes[n]) if isinstance(i, Affine) else None
                if part is None or _covers(part, number(kernel.shape(r.tensor)[d])):
                    covered.add((r.tensor, d))
                else:
                    moves.setdefault((r.tensor, d), set()).add(part.lo.terms)
    differ = (terms for at, terms in moves.items() if len(terms) > 1 and at not in covered)
    return frozenset(v for terms in differ for term_list in terms for v, _ in term_list)


def _covers(part: Interval, extent: int) -> bool:
    low = number(part.lo.const)
    return not part.lo.terms and low <= 0 and low + number(part.size) >= extent


def _tile_positions(
    parts: list[tuple[Interval, int]], ends: Origin, axis: str, size: int, count: int
) -> list[tuple[int, int]]:
    """Return the first tile of each kind along an axis and the number of its kind.

    Tiles without a clipped interval are alike.
    """
    variable = tile_variable(axis)
    first, last = 0, count - 1
    for part, extent in parts:
        if part.lo.factor(variable):
            low, high = _full_tiles(part, extent, variable, size, ends)
            first, last = max(first, low), min(last, high)
    middle = [(first * size, last - first + 1)] if first <= last else []
    others = [*range(first), *range(last + 1, count)] if middle else [*range(count)]
    return middle + [(n * size, 1) for n in others]


def _full_tiles(
    part: Interval, extent: int, variable: str, size: int, ends: Origin
) -> tuple[int, int]:
    """Return the first and last tile whose intervals stay inside, whatever the other axes."""
    factor = number(part.lo.factor(variable)) * size
    others = [number(k) * ends.get(v, 0) for v, k in part.lo.terms if v != variable]
    low = number(part.lo.const) + sum(min(0, o) for o in others)
    high = number(part.lo.const) + number(part.size) + sum(max(0, o) for o in others)
    if factor > 0:
        return -(low // factor), (extent - high) // factor
    return -((extent - high) // -factor), low // -factor
