"""Propagation of tiles: the part of every tensor that an output tile needs.

It is interval arithmetic on affine indices (Welder, section 3.1). islpy is 28 to 48 times slower
per kernel (measured 2026-11-30).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from explorer.ir.affine import Affine, is_zero, times, var
from explorer.ir.by_identity import by_identity, by_identity_at
from explorer.ir.dims import Dim, Shape, simplify, sympy
from explorer.ir.kernel import Axis, Compute, Expr, Kernel, Read, reads
from explorer.ir.kernels.running import running

REMEMBERED = 128  # cached tiles, of all kernels


@dataclass(frozen=True, slots=True)
class Interval:
    """`lo <= value < lo + size`, with `lo` affine in the tile variables."""

    lo: Affine
    size: Dim


Region = tuple[Interval, ...]


@dataclass(slots=True)
class Regions:
    """The needs of one output tile: the range of every axis of each compute, a box per tensor."""

    axes: list[dict[str, Interval]]
    tensors: dict[str, Region] = field(default_factory=dict)


def tile_variable(axis: str) -> str:
    """Return the variable that is the first index of the current tile along an axis."""
    return f"t_{axis}"


def full_region(shape: Shape) -> Region:
    """Return the region that covers a tensor."""
    return tuple(Interval(Affine(), n) for n in shape)


def interval(index: Affine, ranges: Mapping[str, Interval]) -> Interval:
    """Return the range of an index while its axes run over their ranges.

    It is exact if each axis occurs once, and the sign of its factor is known.
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
    """Return how far up and how far down one step goes at most; symbols are never negative."""
    if isinstance(factor, int):
        return max(factor, 0), max(-factor, 0)
    parts = sympy.Add.make_args(factor)
    up = (p for p in parts if not p.could_extract_minus_sign())
    down = (-p for p in parts if p.could_extract_minus_sign())
    return simplify(sympy.Add(*up)), simplify(sympy.Add(*down))


def box(index: tuple[Affine | Expr, ...], ranges: Mapping[str, Interval], shape: Shape) -> Region:
    """Return the elements that a load touches; the full dim where an index depends on data."""
    return tuple(
        [
            interval(i, ranges) if isinstance(i, Affine) else Interval(Affine(), n)
            for i, n in zip(index, shape, strict=True)
        ]
    )


@by_identity
def _whole_with_borders(kernel: Kernel) -> dict[str, Region]:
    """Return all of every tensor, with the borders of internal tensors.

    A border is what any load of any tile reads out of bounds.
    """
    regions = {t.name: full_region(t.shape) for t in kernel.tensors}
    for c in kernel.computes:
        every = {a.name: Interval(Affine(), a.extent) for a in (*c.axes, *c.reduce)}
        for read in reads(c.expr):
            if read.fill is not None and read.tensor not in kernel.inputs:
                shape = kernel.shape(read.tensor)
                both = zip(regions[read.tensor], box(read.index, every, shape), strict=True)
                regions[read.tensor] = tuple(_around(x, y) for x, y in both)
    return regions


def _around(x: Interval, y: Interval) -> Interval:
    """Return an interval around two that do not depend on the tile.

    It is the smallest one where their ends can be compared.
    """
    low = x.lo.const - _above(x.lo.const - y.lo.const)
    top = x.lo.const + x.size
    top = top + _above(y.lo.const + y.size - top)
    return Interval(Affine((), simplify(low)), simplify(top - low))


def _above(gap: Dim) -> Dim:
    """Return an upper bound of `max(gap, 0)`; symbols are never negative."""
    gap = simplify(gap)
    return max(gap, 0) if isinstance(gap, int) else reach(gap)[0]


def join(a: Region | None, b: Region, every: Region) -> Region:
    """Return the smallest box around both; the full dim where the two cannot be compared."""
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
    """Return the needs of one tile of the outputs.

    `tile` gives sizes by axis of the computes that write the outputs.

    The box of an internal tensor holds all that is written to it and all that is read of it in any
    tile, its border included. An internal running reduction is computed along all of its axis, as
    each element follows from the last. Results are cached: tiles are propagated when they are
    weighed, and again when they are lowered.
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
            needed, full = out.tensors.get(tensor), every[tensor]
            out.tensors[tensor] = tuple(
                [
                    _needed(None if needed is None else needed[d], loads, ranges, full[d])
                    for d, loads in enumerate(dims)
                ]
            )
    return out


@dataclass(frozen=True, slots=True)
class Shifted:
    """An index of loads along a dim of extent `extent`, and the same index up to `more` further on.

    Without an index, data decides.
    """

    extent: Dim
    index: Affine | None
    more: int = 0

    def joined(self, other: Shifted) -> Shifted | None:
        """Return both as one if they differ by a number, else None."""
        mine, its = self.index, other.index
        if mine is None or its is None:
            return self if mine is its else None
        first_const, second_const = mine.const, its.const
        if mine.terms != its.terms or not (
            isinstance(first_const, int) and isinstance(second_const, int)
        ):
            return None
        low = min(first_const, second_const)
        more = max(first_const + self.more, second_const + other.more) - low
        return Shifted(self.extent, Affine(mine.terms, low), more)


Loads = Mapping[str, tuple[tuple[Shifted, ...], ...]]


@by_identity
def _loads(kernel: Kernel) -> tuple[Loads, ...]:
    """Return the indices that each compute reads, by tensor and dim.

    Neighbours that differ by a number are one: transforms of minimal filtering read an array dozens
    of times.
    """
    return tuple(_loads_of(kernel, _read_by(kernel, c)) for c in kernel.computes)


def _loads_of(kernel: Kernel, loads_in_order: tuple[Read, ...]) -> Loads:
    loads: dict[str, list[list[Shifted]]] = {}
    for read in loads_in_order:
        dims = loads.setdefault(read.tensor, [[] for _ in read.index])
        for indices, i, n in zip(dims, read.index, kernel.shape(read.tensor), strict=True):
            new = Shifted(n, i if isinstance(i, Affine) else None)
            both = indices[-1].joined(new) if indices else None
            if both is not None:
                indices.pop()
            indices.append(both or new)
    return {tensor: tuple(map(tuple, dims)) for tensor, dims in loads.items()}


def _needed(
    needed: Interval | None,
    loads: tuple[Shifted, ...],
    ranges: Mapping[str, Interval],
    full: Interval,
) -> Interval:
    """Extend the interval that is needed along a dim by that of some loads."""
    for load in loads:
        if load.index is None:
            new = Interval(Affine(), load.extent)
        else:
            new = interval(load.index, ranges)
            if load.more:
                known_size = isinstance(new.size, int)
                new = Interval(new.lo, new.size + load.more) if known_size else full
        needed = new if needed is None else _join(needed, new, full)
    assert needed is not None
    return needed


def _read_by(kernel: Kernel, c: Compute) -> tuple[Read, ...]:
    """Return the loads of a compute.

    A running reduction reads every element, even the last one, which an exclusive one does not use.
    """
    along = running(kernel, c)
    return reads(c.expr) if along is None else (*reads(c.expr), along.element)


def _cutting(kernel: Kernel, tile: Mapping[str, int]) -> dict[str, int]:
    """Return the sizes that cut the output: those below the extent in the compute that writes last.

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
    """Return the extents of the axes of the compute that writes an output last."""
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
    """Return the axis ranges that write a region.

    They are exact if the axes are the dims, else everything is written.
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
    """Return the part of a range within `0 .. n`, if it is the same for every tile.

    Without a range it is all of `0 .. n`.
    """
    if r is None:
        return Interval(Affine(), n)
    lo, size = r.lo.const, r.size
    if r.lo.terms or not (isinstance(lo, int) and isinstance(size, int) and isinstance(n, int)):
        return r
    first, end = max(lo, 0), min(lo + size, n)
    return Interval(Affine((), first), max(0, end - first))


def _tied(c: Compute, out: Regions, kernel: Kernel) -> dict[str, Interval]:
    """Return the axis ranges of a further output, from its loads of tensors the first needs.

    An axis without such a load, or with two that differ, has its full range.
    """
    candidates: dict[str, set[Interval]] = {a.name: set() for a in c.axes}
    for read in reads(c.expr):
        region = None if read.tensor in kernel.inputs else out.tensors.get(read.tensor)
        for i, r in zip(read.index, region or (), strict=False):
            if isinstance(i, Affine) and i.bare in candidates:
                candidates[i.bare].add(r)
    ranges = {
        a.name: next(iter(candidates[a.name]))
        if len(candidates[a.name]) == 1
        else Interval(Affine(), a.extent)
        for a in c.axes
    }
    out.tensors[c.out] = box(c.target, ranges, kernel.shape(c.out))
    return ranges


def _with_constants(c: Compute, region: Region, every: Region) -> Region:
    """Extend a region by the constant index that a compute writes in a dim, needed or not."""
    return tuple(
        r if i.terms else _join(r, Interval(i, 1), n)
        for i, r, n in zip(c.target, region, every, strict=True)
    )


@by_identity
def _running_along(kernel: Kernel) -> tuple[Axis | None, ...]:
    """Return the axis of each compute that is a running reduction, else None."""
    matches = (running(kernel, c) for c in kernel.computes)
    return tuple(None if r is None else r.axis for r in matches)


def _with_all_along(axis: Axis, c: Compute, region: Region, every: Region) -> Region:
    """Extend a region by all that a compute writes along an axis."""
    ranges = {axis.name: Interval(Affine(), axis.extent)}
    return tuple(
        _join(r, interval(i, ranges), n) if i.variables == {axis.name} else r
        for i, r, n in zip(c.target, region, every, strict=True)
    )


def _aligned_reader(c: Compute, out: Regions, kernel: Kernel) -> dict[str, Interval] | None:
    """Return the ranges of the only compute that reads the result of `c` point by point.

    It must match axis for axis (a split store).
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
