"""Bytes that tiles move to and from the memory below: what one output tile needs, times the tiles
(Welder, section 3.2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

from explorer.ir.dims import Sizes, evaluate_dim, evaluate_shape
from explorer.ir.kernel import Affine, Apply, Const, Expr, IndexValue, Kernel, Read, reads
from explorer.ir.regions import Region, Regions, propagate
from explorer.ir.types import ITEM_BYTES

Tile = Mapping[str, int]  # sizes by output axis; an axis that is not named is not cut


@dataclass(frozen=True, slots=True)
class TensorTile:
    """The part of one tensor that one output tile needs or writes."""

    tensor: str
    shape: tuple[int, ...]
    bytes: int


@dataclass(frozen=True)
class Traffic:
    """What crosses the border of a kernel for one output tile, and how many of those there are."""

    tiles: int
    loaded: tuple[TensorTile, ...]
    stored: TensorTile

    @cached_property
    def tile_bytes(self) -> int:
        """Bytes that one tile moves."""
        return sum(t.bytes for t in self.loaded) + self.stored.bytes

    @property
    def total_bytes(self) -> int:
        """Bytes that all tiles move, each loading what it needs anew."""
        return self.tile_bytes * self.tiles


def tile_count(kernel: Kernel, tile: Tile, sizes: Sizes) -> int:
    """How many tiles cover the output."""
    last = next(c for c in reversed(kernel.computes) if c.out == kernel.output)
    extents = {a.name: evaluate_dim(a.extent, sizes) for a in last.axes}
    return prod(max(1, -(-n // tile[a])) for a, n in extents.items() if a in tile)


def traffic(
    kernel: Kernel, tile: Tile, sizes: Sizes | None = None, *, line_bytes: int = 1
) -> Traffic:
    """The traffic of a kernel cut into tiles of its output, under a binding of the symbols.

    Inner tensors move nothing. With `line_bytes`, a row that a tile takes part of counts in whole
    lines of memory.
    """
    known = sizes or {}
    regions = propagate(kernel, tile)
    parts = {
        name: tensor_tile(kernel, name, regions, known, line_bytes)
        for name in (*kernel.inputs, kernel.output)
        if name in regions.tensors
    }
    stored = parts.pop(kernel.output)
    return Traffic(tile_count(kernel, tile, known), tuple(parts.values()), stored)


def tensor_tile(
    kernel: Kernel, name: str, regions: Regions, sizes: Sizes, line_bytes: int = 1
) -> TensorTile:
    """The part of a tensor that one tile touches, clipped to the tensor.

    Its shape is a box around that part; its bytes are no more than one element, or line, for each
    point that is read: few rows of a table that is addressed by data, or every second pixel.
    """
    spec = kernel.spec(name)
    shape = evaluate_shape(spec.shape, sizes)
    box = region_shape(regions.tensors[name], shape, sizes)
    item = ITEM_BYTES[spec.dtype]
    run, rows = _dense_run(box, shape)
    size = rows * -(-run * item // line_bytes) * line_bytes
    points = _points(kernel, name, regions, sizes)
    return TensorTile(name, box, min(size, points * max(item, line_bytes)) if points else size)


def _points(kernel: Kernel, name: str, regions: Regions, sizes: Sizes) -> int:
    """At how many points one tile reads a tensor; 0 where it only writes it."""
    return sum(
        prod(evaluate_dim(regions.axes[n][axis].size, sizes) for axis in _axes_of(read))
        for n, c in enumerate(kernel.computes)
        for read in reads(c.expr)
        if read.tensor == name
    )


def _axes_of(expr: Expr) -> frozenset[str]:
    """The axes on which an expression depends."""
    match expr:
        case Apply(_, args):
            return frozenset[str]().union(*map(_axes_of, args))
        case Read(_, index, _):
            parts = (i.variables if isinstance(i, Affine) else _axes_of(i) for i in index)
            return frozenset[str]().union(*parts)
        case IndexValue(index):
            return index.variables
        case Const():
            return frozenset()


def region_shape(region: Region, shape: tuple[int, ...], sizes: Sizes) -> tuple[int, ...]:
    """The extents of a region, at most those of its tensor."""
    return tuple(
        max(0, min(n, evaluate_dim(r.size, sizes))) for r, n in zip(region, shape, strict=True)
    )


def _dense_run(box: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, int]:
    """How many elements of a box lie side by side in memory, and how many such runs there are."""
    run = 1
    for d in reversed(range(len(box))):
        run *= box[d]
        if box[d] != shape[d]:
            return run, prod(box[:d])
    return run, 1
