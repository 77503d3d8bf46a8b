"""What one tile of a kernel's output touches, counted in numbers: axes that end, elements that are
skipped, and the few kinds of tiles that all of them are of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import NamedTuple, TypeAlias

from explorer.ir.affine import Affine
from explorer.ir.kernel import Compute, Expr, Kernel, reads
from explorer.ir.patterns.regions import Interval, Regions, interval, tile_variable
from explorer.ir.shapes.dims import Dim

Origin: TypeAlias = Mapping[str, int]  # of one tile: the value of each tile variable
Range: TypeAlias = tuple[int, int]  # from, and up to but not including
ENUMERATED_VALUES = 4096  # of an index at most, to be counted one by one: a bound on time, chosen
MOST_KINDS = 1024  # of tiles: beyond, some stand for their neighbours; a bound on time, chosen


class Steps(NamedTuple):
    """The values of an affine index: from which to which, and how many of those there are."""

    low: int
    high: int  # not included
    places: int


@dataclass(frozen=True, slots=True)
class Part:
    """The part of a tensor that a tile touches: in each dim a range and how many places of it."""

    tensor: str
    dims: tuple[Steps, ...]
    points: int  # loads, repeats included; 0 where it is only written

    @property
    def box(self) -> tuple[int, ...]:
        """The extents of the box around it."""
        return tuple([d.high - d.low for d in self.dims])

    @property
    def elements(self) -> int:
        """How many elements are touched, at most."""
        found = prod([d.places for d in self.dims])
        return min(found, self.points) if self.points else found

    @property
    def room(self) -> int:
        """Elements of a copy of it: of the box, or of what is loaded where that is less."""
        found = prod(self.box)
        return min(found, self.points) if self.points else found

    def moved(self, shape: tuple[int, ...], item_bytes: int, line_bytes: int) -> int:
        """Bytes of it in whole transactions: rows that lie side by side are one run of them."""
        if line_bytes == 1:
            return self.elements * item_bytes
        run, inner, d = 1, 1, len(shape) - 1
        while d >= 0:
            run, inner = run * (self.dims[d].high - self.dims[d].low), inner * self.dims[d].places
            if self.dims[d].high - self.dims[d].low != shape[d]:
                break
            d -= 1
        rows = prod([one.places for one in self.dims[: max(0, d)]])
        lines = rows * min(-(-run * item_bytes // line_bytes), inner)
        return min(lines, self.points or lines) * max(line_bytes, item_bytes)


def number(dim: Dim) -> int:
    """A dim of a kernel that is bound."""
    return int(dim)


def at(index: Affine, origin: Origin) -> int:
    """An affine value in numbers."""
    total = number(index.const)
    for name, factor in index.terms:
        total += number(factor) * origin[name]
    return total


def ranges_of(c: Compute, axes: Mapping[str, Interval], origin: Origin) -> dict[str, Range]:
    """The iterations of a compute for one tile: those of its regions that exist."""
    found = {}
    for a in (*c.axes, *c.reduce):
        low = at(axes[a.name].lo, origin)
        high = low + number(axes[a.name].size)
        low, high = max(0, low), min(number(a.extent), high)
        found[a.name] = (low, max(low, high))
    return found


def steps_of(index: Affine, ranges: Mapping[str, Range], extent: int) -> Steps:
    """The values of an index inside its dim."""
    low = high = number(index.const)
    walks = []
    for name, factor in index.terms:
        step, (first, last) = number(factor), ranges[name]
        if first >= last:
            return Steps(0, 0, 0)
        ends = step * first, step * (last - 1)
        low, high = low + min(ends), high + max(ends)
        if last - first > 1:
            walks.append((abs(step), last - first))
    first, last = max(0, low), min(extent, high + 1)
    if first >= last:
        return Steps(0, 0, 0)
    return Steps(first, last, _count(low, sorted(walks), first, last))


def _count(low: int, walks: list[tuple[int, int]], first: int, last: int) -> int:
    """How many values `low + sum(step * i)` with `0 <= i < n` lie in a range."""
    reach = 1  # consecutive values from any that is reached
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


def touched(
    kernel: Kernel, regions: Regions, origin: Origin, steps: Mapping[str, int] | None = None
) -> dict[str, Part]:
    """The part of every input and of every output that one tile touches. `steps`: reduced axes of
    which a load takes only so many at once.
    """
    found: dict[str, Part] = {}
    seen: set[tuple[object, ...]] = set()
    border = {*kernel.inputs, *kernel.outputs}
    for n, c in enumerate(kernel.computes):
        ranges = ranges_of(c, regions.axes[n], origin)
        if steps:
            short = (a.name for a in c.reduce if a.name in steps)
            ranges |= {a: _shorter(ranges[a], steps[a]) for a in short}
        if c.out in border:
            _add(found, kernel, c.out, c.target, ranges, 0)
        for read in reads(c.expr):
            if read.tensor in border:
                key = read.tensor, *_key(read.index, ranges)
                if key not in seen:
                    _add(found, kernel, read.tensor, read.index, ranges, 1)
                seen.add(key)
    return found


def _shorter(whole: Range, size: int) -> Range:
    return whole[0], min(whole[1], whole[0] + size)


def _key(
    index: tuple[Affine | Expr, ...], ranges: Mapping[str, Range]
) -> tuple[object, tuple[Range, ...]]:
    """What tells loads of other elements apart, whatever axes are called."""
    names: dict[str, int] = {}
    dims = tuple(
        (i.const, *((names.setdefault(n, len(names)), k) for n, k in i.terms))
        if isinstance(i, Affine)
        else i
        for i in index
    )
    return dims, tuple([ranges[n] for n in names])


def _add(
    found: dict[str, Part],
    kernel: Kernel,
    tensor: str,
    index: tuple[Affine | Expr, ...],
    ranges: Mapping[str, Range],
    times: int,
) -> None:
    """Adds what one load takes at every point, `times` 0 where it is stored."""
    shape = [number(n) for n in kernel.shape(tensor)]
    dims = tuple(
        steps_of(i, ranges, n) if isinstance(i, Affine) else Steps(0, n, n)
        for i, n in zip(index, shape, strict=True)
    )
    used = {name for i in index for name in _names(i)}
    points = times and prod([high - low for a, (low, high) in ranges.items() if a in used])
    known = found.get(tensor)
    if known is None:
        found[tensor] = Part(tensor, dims, points)
    else:
        found[tensor] = Part(tensor, tuple(map(_join, known.dims, dims)), known.points + points)


def _names(index: Affine | Expr) -> frozenset[str]:
    if isinstance(index, Affine):
        return index.variables
    return frozenset[str]().union(*(_names(i) for r in reads(index) for i in r.index))


def _join(a: Steps, b: Steps) -> Steps:
    """The values of two indices; those of equal range may all be others, even ones and odd ones."""
    if not b.places:
        return a
    if not a.places:
        return b
    low, high = min(a.low, b.low), max(a.high, b.high)
    return Steps(low, high, min(high - low, a.places + b.places))


def kinds(
    kernel: Kernel, regions: Regions, tile: Mapping[str, int]
) -> Iterator[tuple[Origin, int]]:
    """Tiles of equal content, one of each kind with how many there are; the first is a whole one
    from the middle where there is one. Of very many kinds, some stand for their neighbours.
    """
    grid = grid_of(kernel, tile)
    parts = [*_clipped(kernel, regions)]
    ends = {tile_variable(a): size * (count - 1) for a, (size, count) in grid.items()}
    uneven = _uneven(kernel, regions)
    places = [
        [(n * size, 1) for n in range(count)]
        if tile_variable(a) in uneven
        else _places(parts, ends, a, size, count)
        for a, (size, count) in grid.items()
    ]
    if prod(map(len, places)) > MOST_KINDS:
        most = max(4, int(MOST_KINDS ** (1 / len(places))))
        places = [_fewer(p, most) for p in places]
    for chosen in product(*places):
        yield (
            {tile_variable(name): place for name, (place, _) in zip(grid, chosen)},
            prod([times for _, times in chosen]),
        )


def _fewer(places: list[tuple[int, int]], most: int) -> list[tuple[int, int]]:
    """At most so many of the places, each but the first for as many neighbours."""
    if len(places) <= most:
        return places
    first, others = places[:1], places[1:]
    group = -(-len(others) // (most - 1))
    groups = [others[n : n + group] for n in range(0, len(others), group)]
    return first + [(g[len(g) // 2][0], sum(times for _, times in g)) for g in groups]


def grid_of(kernel: Kernel, tile: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """The axes of the output that are cut, outermost first: the tile's size and how many there
    are.
    """
    last = next(c for c in reversed(kernel.computes) if c.out in kernel.outputs)
    return {
        a.name: (tile[a.name], -(-number(a.extent) // tile[a.name]))
        for a in last.axes
        if a.name in tile and tile[a.name] < number(a.extent)
    }


def middle(kernel: Kernel, tile: Mapping[str, int]) -> Origin:
    """Where the tile in the middle of the output begins: a whole one where there are three."""
    grid = grid_of(kernel, tile)
    return {tile_variable(a): size * ((count - 1) // 2) for a, (size, count) in grid.items()}


def _clipped(kernel: Kernel, regions: Regions) -> Iterator[tuple[Interval, int]]:
    """Every interval that may leave its axis or its dim, with the extent of that."""
    for n, c in enumerate(kernel.computes):
        for a in (*c.axes, *c.reduce):
            yield regions.axes[n][a.name], number(a.extent)
        for r in reads(c.expr):
            if r.fill is not None:
                for i, extent in zip(r.index, kernel.shape(r.tensor), strict=True):
                    if isinstance(i, Affine):
                        yield interval(i, regions.axes[n]), number(extent)


def _uneven(kernel: Kernel, regions: Regions) -> frozenset[str]:
    """The tile variables along which loads of one input move differently: how far these overlap
    changes from tile to tile.
    """
    moves: dict[tuple[str, int], set[tuple[tuple[str, Dim], ...]]] = {}
    whole: set[tuple[str, int]] = set()
    for n, c in enumerate(kernel.computes):
        for r in reads(c.expr):
            for d, i in enumerate(r.index if r.tensor in kernel.inputs else ()):
                part = interval(i, regions.axes[n]) if isinstance(i, Affine) else None
                if part is None or _covers(part, number(kernel.shape(r.tensor)[d])):
                    whole.add((r.tensor, d))
                else:
                    moves.setdefault((r.tensor, d), set()).add(part.lo.terms)
    differ = (terms for at, terms in moves.items() if len(terms) > 1 and at not in whole)
    return frozenset(v for terms in differ for one in terms for v, _ in one)


def _covers(part: Interval, extent: int) -> bool:
    low = number(part.lo.const)
    return not part.lo.terms and low <= 0 and low + number(part.size) >= extent


def _places(
    parts: list[tuple[Interval, int]], ends: Origin, axis: str, size: int, count: int
) -> list[tuple[int, int]]:
    """Where tiles along an axis begin, one of each kind, and how many are of that kind: those with
    no interval cut are alike.
    """
    variable = tile_variable(axis)
    first, last = 0, count - 1
    for part, extent in parts:
        if part.lo.factor(variable):
            low, high = _whole(part, extent, variable, size, ends)
            first, last = max(first, low), min(last, high)
    middle = [(first * size, last - first + 1)] if first <= last else []
    others = [*range(first), *range(last + 1, count)] if middle else [*range(count)]
    return middle + [(n * size, 1) for n in others]


def _whole(part: Interval, extent: int, variable: str, size: int, ends: Origin) -> tuple[int, int]:
    """The tiles, from which to which, of which no interval leaves its axis, wherever they lie along
    other axes.
    """
    factor = number(part.lo.factor(variable)) * size
    others = [number(k) * ends.get(v, 0) for v, k in part.lo.terms if v != variable]
    low = number(part.lo.const) + sum(min(0, o) for o in others)
    high = number(part.lo.const) + number(part.size) + sum(max(0, o) for o in others)
    if factor > 0:
        return -(low // factor), (extent - high) // factor
    return -((extent - high) // -factor), low // -factor
