"""The memory layout of a kernel's tensors while one tile is computed, and the loop bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import product as every

from explorer.devices.model import Device
from explorer.ir.affine import Affine, affine, is_zero, times, var
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import Dim, Shape, ShapeEnv, product, simplify
from explorer.ir.dtypes import ITEM_BYTES
from explorer.ir.kernel import Apply, Compute, Const, Expr, IndexValue, Kernel, Read, reads
from explorer.ir.kernels.regions import Interval, Region, Regions, box, inside, reach
from explorer.ir.kernels.scatter import scatter
from explorer.ir.scalar_functions import SCALAR_FUNCTIONS
from explorer.ir.tile_program import (
    FARTHEST,
    Buffer,
    Do,
    Fetch,
    Fill,
    Grid,
    Load,
    Packing,
    Span,
    Statement,
    TileExpr,
    dtype_of_tile,
)
from explorer.ir.types import DType


@dataclass(frozen=True, slots=True)
class TensorPlace:
    """The location of a tensor, or of the region of it that the tile needs."""

    buffer: Buffer
    lo: tuple[Affine, ...]
    strides: Shape
    shape: Shape

    def at(self, index: tuple[Affine | TileExpr, ...]) -> Fetch:
        """Return the element at an index of the tensor."""
        terms: dict[str, Dim] = {}
        const: Dim = 0
        dynamic = []
        for i, lo, stride, n in zip(index, self.lo, self.strides, self.shape, strict=True):
            if isinstance(i, Affine):
                ahead = i - lo
                for name, factor in ahead.terms:
                    step = times(factor, stride)
                    terms[name] = terms[name] + step if name in terms else step
                if not is_zero(ahead.const):
                    const = const + times(ahead.const, stride)
            else:
                dynamic.append((i, stride, n))
        return Fetch(self.buffer, affine(terms, const), tuple(dynamic))


def row_major(sizes: Shape) -> Shape:
    """Return the strides of a dense array, the last dim fastest."""
    return tuple(product(sizes[i + 1 :]) for i in range(len(sizes)))


@dataclass(slots=True)
class BufferPlaces:
    """The buffers of a tile program while it is built."""

    kernel: Kernel
    env: ShapeEnv
    grid: tuple[Grid, ...]
    tiling: Tiling
    regions: Regions
    device: Device | None = None  # None: no tensor is too large for its caches
    places: dict[str, TensorPlace] = field(default_factory=dict)
    buffers: dict[str, Buffer] = field(default_factory=dict)
    packings: list[Packing] = field(default_factory=list)
    tables: dict[str, tuple[int, ...]] = field(default_factory=dict)
    fills: dict[str, set[float]] = field(default_factory=dict)  # values past tensors' borders
    reduced: frozenset[str] = (
        frozenset()
    )  # intermediates that only reductions read past their border
    farthest: str = FARTHEST  # the level of tensors that tasks share
    own: str = "L2"  # the level of a task's own scratch

    def buffer(
        self,
        name: str,
        kind: str,
        size: Dim,
        dtype: DType = "float32",
        level: str = FARTHEST,
        streamed: bool = False,
    ) -> Buffer:
        """Return the buffer of that name, created if it is missing."""
        return self.buffers.setdefault(name, Buffer(name, kind, size, dtype, level, streamed))

    def place(self, tensor: str) -> TensorPlace:
        """Return the place of a tensor."""
        if tensor not in self.places:
            kernel = self.kernel
            shape, dtype = kernel.shape(tensor), kernel.dtype(tensor)
            if tensor not in kernel.outputs and tensor not in kernel.inputs:
                region = self.regions.tensors[tensor]
                if tensor in self.reduced:
                    region = tuple(inside(r, n) for r, n in zip(region, shape, strict=True))
                self.places[tensor] = self.scratch(tensor, region, dtype)
            else:
                kind = (
                    "output"
                    if tensor in kernel.outputs
                    else "constant"
                    if tensor in kernel.constants
                    else "input"
                )
                size = product(shape)
                over = any(
                    tensor in pair for pair in kernel.updates
                )  # its cache lines are loaded already
                is_scattered = any(
                    scatter(kernel, c) for c in kernel.computes
                )  # results are read again
                near = over or is_scattered or kind == "constant"
                streamed = not near and is_streamed(size, dtype, self.env, self.device)
                buffer = self.buffer(tensor, kind, size, dtype, self.farthest, streamed)
                self.places[tensor] = TensorPlace(
                    buffer, (Affine(),) * len(shape), row_major(shape), shape
                )
        return self.places[tensor]

    def scratch(self, name: str, region: Region, dtype: DType = "float32") -> TensorPlace:
        """Allocate scratch for a region, one a worker."""
        sizes = tuple(r.size for r in region)
        buffer = self.buffer(name, "scratch", product(sizes), dtype, self.own)
        shape = self.kernel.shape(name) if name in {t.name for t in self.kernel.tensors} else sizes
        return TensorPlace(buffer, tuple(r.lo for r in region), row_major(sizes), shape)

    def fits(self, gap: Dim) -> bool:
        """Return True if a dim is provably not negative."""
        gap = simplify(gap)
        return gap >= 0 if isinstance(gap, int) else self.env.bounds(gap)[0] >= 0

    def span(self, axis: str, r: Interval, extent: Dim) -> Span:
        """Return a loop over a range.

        It is clipped unless no tile of the grid can leave the tensor.
        """
        low, top = r.lo.const, r.lo.const
        grid = {
            g.variable: g for g in self.grid
        }  # other variables, of rows and blocks, were clipped before
        cuts = [(grid[name], *reach(factor)) for name, factor in r.lo.terms if name in grid]
        runs_over = not all(isinstance(g.extent, int) for g, _, _ in cuts)
        for g, up, down in cuts:
            if down != 0:
                low = low - down * (g.count - 1) * g.tile
            if up != 0 and not runs_over:
                top = top + up * (g.count - 1) * g.tile
        past = runs_over or not self.fits(extent - top - r.size)
        clipped = past or not self.fits(low)
        least = self.least(r, extent) if clipped else 0
        return Span(axis, r.lo, r.size, extent, not self.fits(low), past, least)

    def least(self, r: Interval, extent: Dim) -> int:
        """Return how many points of a range are inside in every task, 0 if unknown.

        Between the first and the last tile of an axis there are never fewer than in one of them.
        """
        grid = {g.variable: g for g in self.grid}
        tiles = [(grid[n], k) for n, k in r.lo.terms if n in grid]
        sizes = (extent, r.size, r.lo.const, *(k for _, k in tiles), *(g.extent for g, _ in tiles))
        if len(tiles) != len(r.lo.terms) or not all(isinstance(n, int) for n in sizes):
            return 0
        ends = [(0, int(k) * (int(g.count) - 1) * g.tile) for g, k in tiles]
        firsts = (int(r.lo.const) + sum(moved) for moved in every(*ends))
        return max(0, min(min(f + int(r.size), int(extent)) - max(f, 0) for f in firsts))

    def spans(self, n: int, c: Compute) -> dict[str, Span]:
        """Return the loops over the axes of a compute within the tile."""
        ranges = self.regions.axes[n]
        return {a.name: self.span(a.name, ranges[a.name], a.extent) for a in c.axes}

    def over(self, c: Compute) -> tuple[Span, ...]:
        """Return the loops over the reduced axes: always all of them."""
        return tuple(Span(a.name, Affine(), a.extent, a.extent) for a in c.reduce)

    def element(self, read: Read, halo: Mapping[Read, TensorPlace]) -> Fetch:
        """Return a load as an element of its flat buffer."""
        place = halo.get(read) or self.place(read.tensor)
        return place.at(
            tuple(i if isinstance(i, Affine) else self.resolve(i, halo) for i in read.index)
        )

    def resolve(self, expr: Expr, halo: Mapping[Read, TensorPlace]) -> TileExpr:
        """Return the expression on flat buffers."""
        match expr:
            case Apply(op, args):
                return applied(op, tuple(self.resolve(a, halo) for a in args))
            case Read():
                return self.element(expr, halo)
            case Const() | IndexValue():
                return expr

    def is_copied(self, read: Read) -> bool:
        """Return True if a load past a border goes to a padded copy."""
        return read.fill is not None and read.tensor in (*self.kernel.inputs, *self.reduced)

    def halo(self, n: int, read: Read) -> tuple[Region, TensorPlace]:
        """Return the part of a tensor that a load needs, and scratch for its padded copy."""
        name, spec = f"{read.tensor}_halo{len(self.buffers)}", self.kernel.spec(read.tensor)
        region = box(read.index, self.regions.axes[n], spec.shape)
        return region, replace(self.scratch(name, region, spec.dtype), shape=spec.shape)

    def halos(self, n: int, c: Compute) -> tuple[dict[Read, TensorPlace], list[Statement]]:
        """Return padded copies for reads past an input's border, and the statements that fill them.

        Addresses stay affine with them. Reductions of intermediates get them too; code that reduces
        windows in place later drops the copy.
        """
        places: dict[Read, TensorPlace] = {}
        body: list[Statement] = []
        for read in dict.fromkeys(reads(c.expr)):
            if not self.is_copied(read):
                continue
            assert read.fill is not None
            spec = self.kernel.spec(read.tensor)
            region, place = self.halo(n, read)
            dims = tuple(f"_d{d}" for d in range(len(region)))
            spans = tuple(
                self.span(a, r, e) for a, r, e in zip(dims, region, spec.shape, strict=True)
            )
            index = tuple(var(a) for a in dims)
            body += [
                Fill(place.buffer, read.fill),
                Load(place.at(index), self.place(read.tensor).at(index), spans),
            ]
            places[read] = place
        return places, body


def is_streamed(size: Dim, dtype: DType, env: ShapeEnv, device: Device | None) -> bool:
    """Return True if a tensor exceeds the device's caches under the hints."""
    if device is None:
        return False
    return env.hint(product((size, ITEM_BYTES[dtype]))) > device.cached_bytes


def applied(op: str, args: tuple[TileExpr, ...]) -> TileExpr:
    """Return a scalar function, or the expression that it is composed of.

    `isinf(x)` becomes `eq(abs(x), inf)`.
    """
    record = SCALAR_FUNCTIONS.get(op)  # conversions have none
    if record is None or record.decompose is None:
        return Do(op, args)
    dtype = dtype_of_tile(args[-1])

    def f(name: str, *arguments: TileExpr | float) -> TileExpr:
        return applied(
            name, tuple(Const(a, dtype) if isinstance(a, (int, float)) else a for a in arguments)
        )

    expr: TileExpr = record.decompose(f, *args)
    return expr
