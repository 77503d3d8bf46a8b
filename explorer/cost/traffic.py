"""Bytes that tiles move to and from the memory below: what one output tile needs, for all tiles
(Welder, section 3.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from explorer.cached_property import cached_property
from explorer.cost.bound import bind_kernel
from explorer.cost.touched import Part, Touching, grid_of, kinds, middle, number, touched
from explorer.ir.kernel import Kernel
from explorer.ir.patterns.regions import Regions, propagate
from explorer.ir.shapes.dims import Sizes
from explorer.ir.types import ITEM_BYTES

Tile = Mapping[str, int]  # sizes by output axis; an axis that is not named is not cut


@dataclass(frozen=True, slots=True)
class TensorTile:
    """The part of one tensor that one tile of the outputs needs or writes."""

    tensor: str
    shape: tuple[int, ...]
    bytes: int


@dataclass(frozen=True)
class Traffic:
    """What crosses the border of a kernel: for one whole tile from the middle, and for all tiles,
    each loading what it needs anew, those at the ends being smaller.
    """

    tiles: int
    loaded: tuple[TensorTile, ...]
    stored: tuple[TensorTile, ...]
    loaded_bytes: int
    stored_bytes: int

    @cached_property
    def tile_bytes(self) -> int:
        """Bytes that one tile moves."""
        return sum(t.bytes for t in (*self.loaded, *self.stored))

    @property
    def total_bytes(self) -> int:
        """Bytes that all tiles move."""
        return self.loaded_bytes + self.stored_bytes


def tile_count(kernel: Kernel, tile: Tile, sizes: Sizes) -> int:
    """How many tiles cover the output."""
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
    """The traffic of a kernel cut into tiles of its output, under a binding of the symbols.

    Inner tensors move nothing. A row that a tile takes part of counts in whole transactions:
    `line_bytes` of loads, `write_bytes` of stores (0: the same). `regions`: those that `propagate`
    gives for the kernel under the binding, where they are known.
    """
    kernel = bind_kernel(kernel, sizes or {})
    known = regions or propagate(kernel, tile)
    write = write_bytes or line_bytes
    first: list[TensorTile] = []
    loaded_bytes = stored_bytes = tiles = 0
    touching = Touching(kernel, known)
    for origin, times in kinds(kernel, known, tile):
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


def _bytes(kernel: Kernel, part: Part, line_bytes: int) -> int:
    spec = kernel.spec(part.tensor)
    shape = tuple([number(n) for n in spec.shape])
    return part.moved(shape, ITEM_BYTES[spec.dtype], line_bytes)


def about_bytes(
    kernel: Kernel, tile: Tile, regions: Regions, line_bytes: int, write_bytes: int
) -> int:
    """The traffic of a kernel with numbers for dims as if every tile were that in the middle: no
    less than `traffic`, and quicker.
    """
    grid = prod(count for _, count in grid_of(kernel, tile).values())
    parts = touched(kernel, regions, middle(kernel, tile)).values()
    return grid * sum(
        _bytes(kernel, p, write_bytes if p.tensor in kernel.outputs else line_bytes) for p in parts
    )


@dataclass(frozen=True, slots=True)
class Kept:
    """What a cache moves and holds while tiles are iterated over in order: bytes that stay in it
    between one use and the next, 0 where one tile alone is more than it has room for.
    """

    traffic: Traffic
    held: int


def kept_traffic(
    kernel: Kernel,
    tile: Tile,
    room: int,
    *,
    units: int = 1,
    line_bytes: int = 1,
    beside: int = 0,
    order: Sequence[str] = (),
) -> Kept:
    """The traffic of a kernel with numbers for dims below a cache that holds `room` bytes, where
    tiles are iterated over in order (of axes, the last fastest; that of the output if none is
    given): what the next tile needs too is still there.

    Tiles along the last axes touch few enough bytes together that those stay; along one axis more,
    every byte is still moved once, since no more than that was touched between two uses. `beside`:
    bytes that every tile touches beside inputs and output. Each of `units` has such a cache, and an
    equal share of the outermost axis.
    """
    grid = grid_of(kernel, tile)
    names = [n for n in order or grid if n in grid]
    once, held = len(names), 0
    if beside + _touched_bytes(kernel, tile, names, line_bytes) <= room:
        once = 0  # all of it stays
    while (size := beside + _touched_bytes(kernel, tile, names[once:], line_bytes)) <= room:
        held = size
        if not once:
            break
        once -= 1
    whole = {n: size for n, (size, _) in grid.items() if n in names[:once]}
    if not whole and names and units > 1:
        size, count = grid[names[0]]
        whole = {names[0]: size * -(-count // units)}
    return Kept(traffic(kernel, whole, line_bytes=line_bytes), held)


def _touched_bytes(kernel: Kernel, tile: Tile, walked: Sequence[str], line_bytes: int) -> int:
    """Bytes that the tiles along some axes touch together."""
    short = {n: s for n, s in tile.items() if n not in walked}
    regions = propagate(kernel, short)
    parts = touched(kernel, regions, middle(kernel, short))
    return sum(_bytes(kernel, p, line_bytes) for p in parts.values())
