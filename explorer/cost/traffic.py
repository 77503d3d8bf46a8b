"""Memory traffic of tiles: bytes of one output tile, for all tiles (Welder, section 3.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from explorer.cached_property import cached_property
from explorer.cost.bind_kernel import bind_kernel
from explorer.cost.touched_parts import (
    TouchedPart,
    TouchedParts,
    grid_of,
    kinds,
    middle,
    number,
    touched,
)
from explorer.ir.dims import Sizes
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.regions import Regions, propagate
from explorer.ir.types import ITEM_BYTES

Tile = Mapping[str, int]  # sizes by output axis; other axes are not cut


@dataclass(frozen=True, slots=True)
class TensorTile:
    """The part of one tensor that one tile of the outputs reads or writes."""

    tensor: str
    shape: tuple[int, ...]
    bytes: int


@dataclass(frozen=True)
class Traffic:
    """The loads and stores of a kernel: for one full tile from the middle, and for all tiles.

    Each tile loads its inputs anew; tiles at the ends are smaller.
    """

    tiles: int
    loaded: tuple[TensorTile, ...]
    stored: tuple[TensorTile, ...]
    loaded_bytes: int
    stored_bytes: int

    @cached_property
    def tile_bytes(self) -> int:
        """Return the bytes that one tile moves."""
        return sum(t.bytes for t in (*self.loaded, *self.stored))

    @property
    def total_bytes(self) -> int:
        """The bytes that all tiles move."""
        return self.loaded_bytes + self.stored_bytes


def tile_count(kernel: Kernel, tile: Tile, sizes: Sizes) -> int:
    """Return the number of tiles of the output."""
    return prod(count for _, count in grid_of(bind_kernel(kernel, sizes), tile).values())


def traffic(
    kernel: Kernel,
    tile: Tile,
    sizes: Sizes | None = None,
    *,
    line_bytes: int = 1,
    write_bytes: int = 0,
    regions: Regions | None = None,
) -> Traffic:
    """Return the traffic of a kernel that is tiled by its output, under a binding of the symbols.

    Inner tensors move nothing. Partial rows count in full transactions: `line_bytes` of loads,
    `write_bytes` of stores (0: the same). `regions` are those of `propagate` for the kernel under
    the binding, if known.
    """
    kernel = bind_kernel(kernel, sizes or {})
    tile_regions = regions or propagate(kernel, tile)
    write = write_bytes or line_bytes
    first: list[TensorTile] = []
    loaded_bytes = stored_bytes = tiles = 0
    touching = TouchedParts(kernel, tile_regions)
    for origin, times in kinds(kernel, tile_regions, tile):
        parts = touching.at(origin)
        moved = {
            name: _bytes(kernel, part, write if name in kernel.outputs else line_bytes)
            for name, part in parts.items()
        }
        first = first or [TensorTile(n, parts[n].box, size) for n, size in moved.items()]
        stored = sum([moved.pop(name) for name in kernel.outputs])
        loaded_bytes += times * sum(moved.values())
        stored_bytes += times * stored
        tiles += times
    ordered = {t.tensor: t for t in first}
    out = tuple([ordered.pop(name) for name in kernel.outputs])
    loads = tuple(ordered[n] for n in kernel.inputs if n in ordered)
    return Traffic(tiles, loads, out, loaded_bytes, stored_bytes)


def _bytes(kernel: Kernel, part: TouchedPart, line_bytes: int) -> int:
    spec = kernel.spec(part.tensor)
    shape = tuple([number(n) for n in spec.shape])
    return part.moved(shape, ITEM_BYTES[spec.dtype], line_bytes)


def approximate_bytes(
    kernel: Kernel, tile: Tile, regions: Regions, line_bytes: int, write_bytes: int
) -> int:
    """Approximate the traffic of a bound kernel by that of the middle tile.

    It is an upper bound of `traffic`, and faster.
    """
    grid = prod(count for _, count in grid_of(kernel, tile).values())
    parts = touched(kernel, regions, middle(kernel, tile)).values()
    return grid * sum(
        _bytes(kernel, p, write_bytes if p.tensor in kernel.outputs else line_bytes) for p in parts
    )


@dataclass(frozen=True, slots=True)
class CachedTraffic:
    """The traffic below a cache while tiles are iterated over in order.

    `resident_bytes`: bytes that stay in the cache between uses, 0 if one tile exceeds its capacity.
    """

    traffic: Traffic
    resident_bytes: int


def cached_traffic(
    kernel: Kernel,
    tile: Tile,
    room: int,
    *,
    units: int = 1,
    line_bytes: int = 1,
    beside: int = 0,
    order: Sequence[str] = (),
) -> CachedTraffic:
    """Return the traffic of a bound kernel below a cache of `room` bytes.

    Tiles are iterated over in `order` (of axes, the last fastest; by default that of the output);
    data that the next tile needs too is still in the cache. Tiles along the last axes touch few
    enough bytes together to stay; along one axis more, every byte is still moved once, since no
    more was touched between two uses. `beside`: bytes that every tile touches besides inputs and
    output. Each of `units` has such a cache and an equal share of the outermost axis.
    """
    grid = grid_of(kernel, tile)
    names = [n for n in order or grid if n in grid]
    once, resident = len(names), 0
    if beside + _touched_bytes(kernel, tile, names, line_bytes) <= room:
        once = 0  # everything stays in the cache
    while (size := beside + _touched_bytes(kernel, tile, names[once:], line_bytes)) <= room:
        resident = size
        if not once:
            break
        once -= 1
    uncached_tile = {n: size for n, (size, _) in grid.items() if n in names[:once]}
    if not uncached_tile and names and units > 1:
        size, count = grid[names[0]]
        uncached_tile = {names[0]: size * -(-count // units)}
    return CachedTraffic(traffic(kernel, uncached_tile, line_bytes=line_bytes), resident)


def _touched_bytes(kernel: Kernel, tile: Tile, walked: Sequence[str], line_bytes: int) -> int:
    """Return the bytes that the tiles along some axes touch together."""
    short = {n: s for n, s in tile.items() if n not in walked}
    regions = propagate(kernel, short)
    parts = touched(kernel, regions, middle(kernel, short))
    return sum(_bytes(kernel, p, line_bytes) for p in parts.values())
