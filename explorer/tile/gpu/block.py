"""Kernel and block -> the plain tile program of a thread block.

Every compute runs over its part of the block's tile, one after the other; intermediates are in
shared memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import reduce
from math import prod

from explorer.devices.model import Device
from explorer.errors import BadOption
from explorer.ir.affine import Affine, var
from explorer.ir.by_identity import by_identity_at
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import Dim, ShapeEnv
from explorer.ir.kernel import (
    Apply,
    Axis,
    Compute,
    Const,
    Expr,
    IndexValue,
    Kernel,
    Read,
    reads,
    substitute,
)
from explorer.ir.kernels.in_place import read_after, reads_apart
from explorer.ir.kernels.normal import epilogue_of
from explorer.ir.kernels.regions import propagate
from explorer.ir.kernels.running import Running, running
from explorer.ir.kernels.scatter import patch, scatter
from explorer.ir.tile_program import (
    Fetch,
    Map,
    Reduce,
    Scan,
    Span,
    Statement,
    TileExpr,
    TileProgram,
)
from explorer.ir.tile_traversal import without_unused
from explorer.tile.lowering.lower import KINDS, grid_of
from explorer.tile.lowering.places import BufferPlaces, applied
from explorer.tile.lowering.scatter import patch_loops, scatter_loops

REMEMBERED_TILES = 128  # of all kernels: a bound on memory, chosen


@dataclass(frozen=True, slots=True)
class Tile:
    """The inputs of a plain program, beside its kernel.

    They are sizes by output axis, the bounds of symbols, the memories that all blocks share and
    that one has, and the lanes of a warp.
    """

    sizes: tuple[tuple[str, int], ...]
    env: ShapeEnv
    farthest: str
    nearest: str
    lanes: int


def why_not_blocks(kernel: Kernel) -> str:
    """Return why a kernel in normal form has no program for thread blocks; else an empty string."""
    for c in kernel.computes:
        extents = (*(a.extent for a in (*c.axes, *c.reduce)), *kernel.shape(c.out))
        if not all(isinstance(n, int) for n in extents):
            return f"{c.out} has extents that are unknown without a binding"
        if any(n == 0 for n in extents):
            return f"{c.out} has no elements, or reduces none"
    for out, taken in kernel.updates:
        readers = {c.out for c in kernel.computes for r in reads(c.expr) if r.tensor == taken}
        own = readers <= {out} and not read_after(
            kernel, out, taken
        )  # only the thread that writes it reads it
        if not own and not reads_apart(kernel, out, taken):
            return f"{out} is written over {taken}, which other blocks may not have read yet"
    return ""


def lower_block(kernel: Kernel, block: Tiling, env: ShapeEnv, device: Device) -> TileProgram:
    """Return the plain program of one block of a kernel in normal form, its symbols bound.

    Raises BadOption with the reason if there is none.
    """
    why = why_not_blocks(kernel)
    if why:
        raise BadOption(f"no thread blocks are made of this kernel: {why}", where=kernel.name)
    along = {r.axis.name for c in kernel.computes if (r := running(kernel, c)) is not None}
    sizes = tuple((axis, n) for axis, n in block.tile if axis not in along)
    tile = Tile(sizes, env, device.levels[-1].name, device.levels[0].name, device.lanes)
    return replace(_lower(kernel, tile), block=block)


@by_identity_at(REMEMBERED_TILES)
def _lower(kernel: Kernel, tile: Tile) -> TileProgram:
    """Return the plain program, shared by blocks that differ in how threads share a tile."""
    tiling = Tiling(tile.sizes)
    grid = grid_of(kernel, tiling)
    regions = propagate(kernel, dict(tile.sizes))
    places = BufferPlaces(
        kernel, tile.env, grid, tiling, regions, farthest=tile.farthest, own=tile.nearest
    )
    return without_unused(
        TileProgram(
            grid,
            _body(places, tile.lanes),
            tuple(sorted(places.buffers.values(), key=lambda b: KINDS[b.kind])),
        )
    )


def _body(p: BufferPlaces, lanes: int) -> tuple[Statement, ...]:
    """Return one statement a compute; an epilogue has the axes of its reduction, by name too."""
    after: dict[int, tuple[int, dict[str, Affine]]] = {}
    done: set[int] = set()
    for n, c in enumerate(p.kernel.computes):
        e = epilogue_of(p.kernel, c) if c.reduce else None
        if e is not None:
            names = {x.name: var(a.name) for x, a in zip(e.axes, c.axes, strict=True)}
            after[p.kernel.computes.index(e)] = (n, names)
    body: list[Statement] = []
    for n, c in enumerate(p.kernel.computes):
        if n in done:
            continue
        along = running(p.kernel, c)
        placed = _lower_scatter(p, n, c, lanes)
        if along is not None:
            body.append(_lower_scan(p, n, c, along))
        elif placed is not None:
            statements, e = placed
            body += statements
            done |= set() if e is None else {p.kernel.computes.index(e)}
        else:
            of, names = after.get(n, (n, {}))
            spans = tuple(p.spans(of, p.kernel.computes[of]).values())
            body.append(_lower_statement(p, n, c, spans, names))
    return tuple(body)


def _lower_scatter(
    p: BufferPlaces, n: int, c: Compute, lanes: int
) -> tuple[list[Statement], Compute | None] | None:
    """Return the loops of a compute whose data select places, and the next compute if included.

    None for any other compute, and if a block has fewer elements of each than a warp has lanes:
    then each result searches for its own updates.
    """
    value = _Guards(p, {a.name: a.extent for a in (*c.axes, *c.reduce)}, {}).of
    part, to = patch(p.kernel, c), scatter(p.kernel, c)
    if part is not None:
        return [patch_loops(p, n, c, part, value)], None
    if to is not None and _points(p, n, (*to.apart, *to.rows)) >= lanes:
        return scatter_loops(p, n, c, to, value)
    return None


def _points(p: BufferPlaces, n: int, axes: Iterable[Axis]) -> int:
    """Return how many points of some axes a block has."""
    return prod(int(p.regions.axes[n][a.name].size) for a in axes)


def _lower_statement(
    p: BufferPlaces, n: int, c: Compute, spans: tuple[Span, ...], names: dict[str, Affine]
) -> Map | Reduce:
    """Return a compute as a map or a reduction over its part of the tile."""
    target = p.place(c.out).at(tuple(i.substitute(names) for i in c.target))
    expr = _Guards(p, {a.name: a.extent for a in (*c.axes, *c.reduce)}, names).of(c.expr)
    if not c.reduce:
        return Map(target, spans, expr)
    dtype = p.kernel.dtype(c.out)
    return Reduce(target, spans, p.over(c), c.combiner or "sum", expr, dtype)


def _lower_scan(p: BufferPlaces, n: int, c: Compute, along: Running) -> Scan:
    """Return a scan in which one thread takes all of the axis, as elements depend on the last."""
    spans = p.spans(n, c)
    over = spans.pop(along.axis.name)
    expr = _Guards(p, {a.name: a.extent for a in c.axes}, {}).of(along.element)
    return Scan(
        p.place(c.out).at(c.target), tuple(spans.values()), over, c.combiner or "sum", expr,
        p.kernel.dtype(c.out), along.exclusive, along.backwards,
    )  # fmt: skip


class _Guards:
    """A rewrite of loads past a border to a choice.

    It chooses between the element at the nearest index inside and the value that stands outside.
    """

    def __init__(self, p: BufferPlaces, extents: dict[str, Dim], names: dict[str, Affine]) -> None:
        """Create the rewrite for a compute's axes."""
        self.p, self.extents, self.names = p, extents, names

    def of(self, expr: Expr) -> TileExpr:
        """Return the expression on flat buffers."""
        match expr:
            case Apply(op, args):
                return applied(op, tuple(self.of(a) for a in args))
            case Read(fill=None):
                return self.load(expr, {})
            case Read(tensor=tensor, fill=fill):
                assert fill is not None
                past = self.past(expr)
                load = self.load(expr, past)
                if not past:
                    return load
                inside = [e for i, n in past.values() for e in self.bounds(i, n)]
                both = reduce(lambda a, b: applied("and", (a, b)), inside)
                return applied("where", (both, load, Const(fill, self.p.kernel.dtype(tensor))))
            case Const() | IndexValue():
                return substitute(expr, self.names)  # type: ignore[return-value]

    def past(self, read: Read) -> dict[int, tuple[Affine, Dim]]:
        """Return the dims whose index may lie outside of the tensor, with it and their extent."""
        shape = self.p.kernel.shape(read.tensor)
        return {
            d: (i, n)
            for d, (i, n) in enumerate(zip(read.index, shape, strict=True))
            if isinstance(i, Affine) and not self.is_inside(i, n)
        }

    def is_inside(self, index: Affine, n: Dim) -> bool:
        """Return True if an index is in `0 .. n` for all values of its axes."""
        ends = [(int(f) * (int(self.extents[a]) - 1)) for a, f in index.terms]
        low = int(index.const) + sum(min(0, e) for e in ends)
        return low >= 0 and int(index.const) + sum(max(0, e) for e in ends) < int(n)

    def bounds(self, index: Affine, end: Dim) -> tuple[TileExpr, TileExpr]:
        """Return `index >= 0` and `index < extent` of a dim."""
        value = IndexValue(index.substitute(self.names))
        low, high = Const(0, "int64"), Const(end, "int64")
        return applied("ge", (value, low)), applied("lt", (value, high))

    def load(self, read: Read, past: Collection[int]) -> Fetch:
        """Return the element, its index clamped along some dims."""
        place = self.p.place(read.tensor)
        if place.buffer.kind == "scratch":  # it holds a part of the tensor
            sizes = (r.size for r in self.p.regions.tensors[read.tensor])
            place = replace(place, shape=tuple(sizes))
        index: list[Affine | TileExpr] = []
        for i, lo in zip(read.index, place.lo, strict=True):
            if not isinstance(i, Affine):
                index.append(self.of(i))
            elif len(index) in past:
                index.append(IndexValue(i.substitute(self.names) - lo))
            else:
                index.append(i.substitute(self.names))
        return place.at(tuple(index))
