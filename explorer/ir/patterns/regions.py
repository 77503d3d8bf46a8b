"""From an output tile to the part of every tensor that it needs: interval arithmetic on affine
indices (Welder, section 3.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from explorer.ir.affine import Affine, is_zero, times, var
from explorer.ir.by_identity import by_identity, by_identity_at
from explorer.ir.kernel import Axis, Compute, Expr, Kernel, Read, reads
from explorer.ir.patterns.running import running
from explorer.ir.shapes.algebra import sympy
from explorer.ir.shapes.dims import Dim, Shape, simplify

REMEMBERED = 128  # tiles, of all kernels


@dataclass(frozen=True, slots=True)
class Interval:
    """`lo <= value < lo + size`, with `lo` affine in the tile variables."""

    lo: Affine
    size: Dim


Region = tuple[Interval, ...]


@dataclass(slots=True)
class Regions:
    """What one output tile needs: the range of every axis of every compute, and the box of every
    tensor.
    """

    axes: list[dict[str, Interval]]
    tensors: dict[str, Region] = field(default_factory=dict)


def tile_variable(axis: str) -> str:
    """The first index of the current tile along an axis."""
    return f"t_{axis}"


def whole(shape: Shape) -> Region:
    """The region that is all of a tensor."""
    return tuple(Interval(Affine(), n) for n in shape)


def interval(index: Affine, ranges: Mapping[str, Interval]) -> Interval:
    """The values of an index while its axes run over their ranges; exact where each axis occurs
    once, and the sign of its factor is known.
    """
    name = index.bare
    if name is not None:
        return ranges[name]
    lo, size, ones = Affine((), index.const), 0, 1
    for name, factor in index.terms:
        r = ranges[name]
        up, down = reach(factor)
        lo = lo + r.lo * factor
        if not is_zero(down):
            lo = lo + (r.size - 1) * -down
        steps = up + down
        size, ones = size + times(steps, r.size), ones - steps
    return Interval(lo, simplify(size + ones))


def reach(factor: Dim) -> tuple[Dim, Dim]:
    """How far up and how far down one step goes at most; symbols are never negative."""
    if isinstance(factor, int):
        return max(factor, 0), max(-factor, 0)
    parts = sympy.Add.make_args(factor)
    up = (p for p in parts if not p.could_extract_minus_sign())
    down = (-p for p in parts if p.could_extract_minus_sign())
    return simplify(sympy.Add(*up)), simplify(sympy.Add(*down))


def box(index: tuple[Affine | Expr, ...], ranges: Mapping[str, Interval], shape: Shape) -> Region:
    """The elements that a load touches; the whole dim where the index depends on data."""
    return tuple(
        [
            interval(i, ranges) if isinstance(i, Affine) else Interval(Affine(), n)
            for i, n in zip(index, shape, strict=True)
        ]
    )


@by_identity
def _whole_with_borders(kernel: Kernel) -> dict[str, Region]:
    """All of every tensor and, of one that is made inside, all that any load of any tile reads past
    its border.
    """
    found = {t.name: whole(t.shape) for t in kernel.tensors}
    for c in kernel.computes:
        every = {a.name: Interval(Affine(), a.extent) for a in (*c.axes, *c.reduce)}
        for read in reads(c.expr):
            if read.fill is not None and read.tensor not in kernel.inputs:
                shape = kernel.shape(read.tensor)
                both = zip(found[read.tensor], box(read.index, every, shape), strict=True)
                found[read.tensor] = tuple(_around(x, y) for x, y in both)
    return found


def _around(x: Interval, y: Interval) -> Interval:
    """An interval around two that are the same for all tiles: the smallest where their ends can be
    compared.
    """
    low = x.lo.const - _above(x.lo.const - y.lo.const)
    top = x.lo.const + x.size
    top = top + _above(y.lo.const + y.size - top)
    return Interval(Affine((), simplify(low)), simplify(top - low))


def _above(gap: Dim) -> Dim:
    """What a dim is above zero, at most; symbols are never negative."""
    gap = simplify(gap)
    return max(gap, 0) if isinstance(gap, int) else reach(gap)[0]


def join(a: Region | None, b: Region, every: Region) -> Region:
    """The smallest box around both; all that there is in a dim where the two cannot be compared."""
    if a is None:
        return b
    return tuple([_join(x, y, n) for x, y, n in zip(a, b, every, strict=True)])


def _join(x: Interval, y: Interval, every: Interval) -> Interval:
    if x is y or x == y:
        return x
    gap = y.lo - x.lo
    sizes = (gap.const, x.size, y.size)
    if gap.terms or not all(isinstance(s, int) for s in sizes):
        return every
    if gap.const >= 0:
        return Interval(x.lo, max(x.size, y.size + gap.const))
    return Interval(y.lo, max(x.size - gap.const, y.size))


def propagate(kernel: Kernel, tile: Mapping[str, int]) -> Regions:
    """What one tile of the outputs needs. `tile` gives sizes by axis of the computes that write
    them.

    The box of a tensor that is made inside holds all that is written to it and all that is read of
    it in any tile, its border included. A running reduction that is made inside is made along all
    of its axis, as each element follows from the last. Tiles are asked about again: when they are
    weighed, and when they are lowered.
    """
    return _propagated(kernel, tuple(_cutting(kernel, tile).items()))


@by_identity_at(REMEMBERED)
def _propagated(kernel: Kernel, cut: tuple[tuple[str, int], ...]) -> Regions:
    out, tile = Regions([{} for _ in kernel.computes]), dict(cut)
    every = _whole_with_borders(kernel)
    for n in reversed(range(len(kernel.computes))):
        c = kernel.computes[n]
        if c.out in kernel.outputs:
            ranges = {a.name: _cut(a.name, a.extent, tile) for a in c.axes}
        else:
            ranges = _invert(c, out, kernel, every)
            along = _running_along(kernel)[n]
            if along is not None:
                ranges[along.name] = Interval(Affine(), along.extent)
                out.tensors[c.out] = _with_all_along(along, c, out.tensors[c.out], every[c.out])
        ranges |= {a.name: Interval(Affine(), a.extent) for a in c.reduce}
        out.axes[n] = ranges
        if c.out in kernel.outputs:
            written = box(c.target, ranges, kernel.shape(c.out))
            out.tensors[c.out] = join(out.tensors.get(c.out), written, every[c.out])
        for tensor, dims in _loads(kernel)[n].items():
            known, full = out.tensors.get(tensor), every[tensor]
            out.tensors[tensor] = tuple(
                [
                    _needed(None if known is None else known[d], loads, ranges, full[d])
                    for d, loads in enumerate(dims)
                ]
            )
    return out


@dataclass(frozen=True, slots=True)
class Shifted:
    """An index of loads along a dim of so many elements, and the same up to `more` further on;
    without one data decides.
    """

    extent: Dim
    index: Affine | None
    more: int = 0

    def joined(self, other: Shifted) -> Shifted | None:
        """Both as one, where they differ by a number; None where they differ otherwise."""
        mine, its = self.index, other.index
        if mine is None or its is None:
            return self if mine is its else None
        one, two = mine.const, its.const
        if mine.terms != its.terms or not (isinstance(one, int) and isinstance(two, int)):
            return None
        low = min(one, two)
        more = max(one + self.more, two + other.more) - low
        return Shifted(self.extent, Affine(mine.terms, low), more)


Loads = Mapping[str, tuple[tuple[Shifted, ...], ...]]


@by_identity
def _loads(kernel: Kernel) -> tuple[Loads, ...]:
    """What each compute reads: by tensor and dim its indices, those beside each other that differ
    by a number as one. Transforms of minimal filtering read an array dozens of times.
    """
    return tuple(_loads_of(kernel, _read_by(kernel, c)) for c in kernel.computes)


def _loads_of(kernel: Kernel, found: tuple[Read, ...]) -> Loads:
    loads: dict[str, list[list[Shifted]]] = {}
    for read in found:
        dims = loads.setdefault(read.tensor, [[] for _ in read.index])
        for known, i, n in zip(dims, read.index, kernel.shape(read.tensor), strict=True):
            new = Shifted(n, i if isinstance(i, Affine) else None)
            both = known[-1].joined(new) if known else None
            if both is not None:
                known.pop()
            known.append(both or new)
    return {tensor: tuple(map(tuple, dims)) for tensor, dims in loads.items()}


def _needed(
    known: Interval | None,
    loads: tuple[Shifted, ...],
    ranges: Mapping[str, Interval],
    full: Interval,
) -> Interval:
    """What is known to be needed along a dim, and what loads need besides."""
    for load in loads:
        if load.index is None:
            new = Interval(Affine(), load.extent)
        else:
            new = interval(load.index, ranges)
            if load.more:
                known_size = isinstance(new.size, int)
                new = Interval(new.lo, new.size + load.more) if known_size else full
        known = new if known is None else _join(known, new, full)
    assert known is not None
    return known


def _read_by(kernel: Kernel, c: Compute) -> tuple[Read, ...]:
    """The loads of a compute; a running reduction passes over every element, the last one too of
    which an exclusive one makes nothing.
    """
    along = running(kernel, c)
    return reads(c.expr) if along is None else (*reads(c.expr), along.element)


def _cutting(kernel: Kernel, tile: Mapping[str, int]) -> dict[str, int]:
    """The sizes that cut the output: those below the extent in the compute that is written last.

    Other parts of the output may be shorter along an axis; their share of a tile is clipped.
    """
    extents = _extents(kernel)
    return {
        name: size
        for name, size in tile.items()
        if not isinstance(e := extents.get(name, size), int) or size < e
    }


@by_identity
def _extents(kernel: Kernel) -> Mapping[str, Dim]:
    """By axis, of the compute that writes an output last."""
    last = next((c for c in reversed(kernel.computes) if c.out in kernel.outputs), None)
    return {} if last is None else {a.name: a.extent for a in last.axes}


def _cut(axis: str, extent: Dim, tile: Mapping[str, int]) -> Interval:
    size = tile.get(axis)
    if size is None:
        return Interval(Affine(), extent)
    return Interval(var(tile_variable(axis)), size)


def _invert(
    c: Compute, out: Regions, kernel: Kernel, every: Mapping[str, Region]
) -> dict[str, Interval]:
    """The axis ranges that write a region: exact where the axes are the dims, else everything is
    written.
    """
    aligned = _aligned_reader(c, out, kernel)
    if aligned is not None:
        return aligned
    region = out.tensors.get(c.out)
    extents = {a.name: a.extent for a in c.axes}
    if region is None:
        return _tied(c, out, kernel)
    if any(i.bare is None and i.terms for i in c.target):
        out.tensors[c.out] = every[c.out]
        return {name: Interval(Affine(), n) for name, n in extents.items()}
    out.tensors[c.out] = region = _with_constants(c, region, every[c.out])
    ranges = {i.bare: r for i, r in zip(c.target, region, strict=True) if i.bare is not None}
    return {name: inside(ranges.get(name), n) for name, n in extents.items()}


def inside(r: Interval | None, n: Dim) -> Interval:
    """The part of a range that is in `0 .. n`, as far as that is the same for every tile; all of
    it without one.
    """
    if r is None:
        return Interval(Affine(), n)
    lo, size = r.lo.const, r.size
    if r.lo.terms or not (isinstance(lo, int) and isinstance(size, int) and isinstance(n, int)):
        return r
    first, end = max(lo, 0), min(lo + size, n)
    return Interval(Affine((), first), max(0, end - first))


def _tied(c: Compute, out: Regions, kernel: Kernel) -> dict[str, Interval]:
    """The axis ranges of another output: those that its loads of what the first one needs too give
    by the inverse of their index, all of an axis that has none or two that differ.
    """
    found: dict[str, set[Interval]] = {a.name: set() for a in c.axes}
    for read in reads(c.expr):
        region = None if read.tensor in kernel.inputs else out.tensors.get(read.tensor)
        for i, r in zip(read.index, region or (), strict=False):
            if isinstance(i, Affine) and i.bare in found:
                found[i.bare].add(r)
    ranges = {
        a.name: next(iter(found[a.name]))
        if len(found[a.name]) == 1
        else Interval(Affine(), a.extent)
        for a in c.axes
    }
    out.tensors[c.out] = box(c.target, ranges, kernel.shape(c.out))
    return ranges


def _with_constants(c: Compute, region: Region, every: Region) -> Region:
    """The region with the one place that a compute writes in a dim, whether it is needed or not."""
    return tuple(
        r if i.terms else _join(r, Interval(i, 1), n)
        for i, r, n in zip(c.target, region, every, strict=True)
    )


@by_identity
def _running_along(kernel: Kernel) -> tuple[Axis | None, ...]:
    """Of each compute the axis along which it is a running reduction; None where it is none."""
    found = (running(kernel, c) for c in kernel.computes)
    return tuple(None if r is None else r.axis for r in found)


def _with_all_along(axis: Axis, c: Compute, region: Region, every: Region) -> Region:
    """The region with all that a compute writes along an axis."""
    ranges = {axis.name: Interval(Affine(), axis.extent)}
    return tuple(
        _join(r, interval(i, ranges), n) if i.variables == {axis.name} else r
        for i, r, n in zip(c.target, region, every, strict=True)
    )


def _aligned_reader(c: Compute, out: Regions, kernel: Kernel) -> dict[str, Interval] | None:
    """The ranges of the one compute that reads what `c` writes point by point, axis for axis (a
    split store).
    """
    if c.is_plain or all(i.bare is not None or not i.terms for i in c.target):
        return None
    users = [
        (n, k)
        for n, k in enumerate(kernel.computes)
        if any(r.tensor == c.out for r in reads(k.expr))
    ]
    if len(users) != 1 or len(users[0][1].axes) != len(c.axes):
        return None
    n, user = users[0]
    names = {a.name: var(b.name) for a, b in zip(c.axes, user.axes, strict=True)}
    index = tuple(i.substitute(names) for i in c.target)
    if any(r.index != index for r in reads(user.expr) if r.tensor == c.out):
        return None
    return {a.name: out.axes[n][b.name] for a, b in zip(c.axes, user.axes, strict=True)}
