"""rTile: sizes over all loop axes, and the static properties of a tile (Roller, section 3.1)."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from explorer.cached_property import cached_property
from explorer.roller.construct.expression import Expression


@dataclass(frozen=True)
class RTile:
    """A tile of an expression: a size for every axis, reduced ones included.

    `padding` is the number of elements added to the innermost dim of each input's data tile in
    storage. 4x4x2 of a matrix product loads 4x2 and 2x4, does 32 multiply-adds, and writes 4x4.
    """

    expression: Expression
    shape: tuple[int, ...]
    padding: tuple[int, ...] = ()

    @cached_property
    def spatial(self) -> tuple[int, ...]:
        """Return the sizes of the output's axes."""
        return self.shape[: self.expression.spatial]

    @property
    def reduced(self) -> tuple[int, ...]:
        """The steps of the reduced axes."""
        return self.shape[self.expression.spatial :]

    @cached_property
    def input_tiles(self) -> tuple[tuple[int, ...], ...]:
        """Return the box of each input that one step of the reduction needs, without padding."""
        return tuple([a.tile(self.shape) for a in self.expression.inputs])

    @cached_property
    def output_tile(self) -> tuple[int, ...]:
        """Return the box that is written."""
        return self.expression.output.tile(self.shape)

    @cached_property
    def stored_tiles(self) -> tuple[tuple[int, ...], ...]:
        """Return the boxes of the inputs as they are stored: the innermost dim padded."""
        pads = self.padding or (0,) * len(self.expression.inputs)
        return tuple(
            (*box[:-1], box[-1] + pad) if box else box
            for box, pad in zip(self.input_tiles, pads, strict=True)
        )

    @cached_property
    def points(self) -> int:
        """Return the number of elements of the output's axes in the tile."""
        return prod(self.spatial)

    @cached_property
    def data_tiles(self) -> tuple[tuple[int, ...], ...]:
        """Return the boxes of the inputs, then that of the output."""
        return (*self.input_tiles, self.output_tile)

    @cached_property
    def elements(self) -> int:
        """Return the number of elements of all data tiles, which a thread holds in registers."""
        return sum(map(prod, self.input_tiles)) + prod(self.output_tile)

    @cached_property
    def footprint_bytes(self) -> int:
        """Return the bytes of the input tiles with their padding; sums stay in registers."""
        stored = zip(self.expression.inputs, self.stored_tiles, strict=True)
        return sum(a.item_bytes * prod(box) for a, box in stored)

    @cached_property
    def operations(self) -> int:
        """Return the operations of the tile over the full reduction, in whole steps."""
        return _operations(self.expression, self.whole_shape)

    @cached_property
    def traffic_bytes(self) -> int:
        """Return the bytes loaded over the full reduction, in whole steps, and stored once."""
        return _traffic_bytes(self.expression, self.whole_shape)

    @property
    def intensity(self) -> float:
        """The operations for each byte moved."""
        return intensity(self.expression, self.shape)

    @cached_property
    def whole_shape(self) -> tuple[int, ...]:
        """Return the sizes, with reduced axes rounded up to whole steps of their extents."""
        return _in_whole_steps(self.expression, self.shape)

    def with_size(self, axis: int, size: int) -> RTile:
        """Return the tile with another size of one axis, without padding."""
        return RTile(self.expression, (*self.shape[:axis], size, *self.shape[axis + 1 :]), ())

    def padded(self, padding: tuple[int, ...]) -> RTile:
        """Return the tile stored with this padding."""
        return RTile(self.expression, self.shape, padding)

    def count(self, inner: RTile) -> int:
        """Return the number of tiles of `inner` that the output's part of this one takes."""
        return prod(-(-n // s) for n, s in zip(self.spatial, inner.spatial, strict=True))


def intensity(e: Expression, shape: tuple[int, ...]) -> float:
    """Return the operations of a tile of these sizes for each byte that it moves."""
    padded_shape = _in_whole_steps(e, shape)
    return _operations(e, padded_shape) / _traffic_bytes(e, padded_shape)


def _in_whole_steps(e: Expression, shape: tuple[int, ...]) -> tuple[int, ...]:
    first = e.spatial
    steps = zip(e.extents[first:], shape[first:], strict=True)
    return (*shape[:first], *[-(-n // s) * s for n, s in steps])


def _operations(e: Expression, shape: tuple[int, ...]) -> int:
    return prod(shape) * e.operations


def _traffic_bytes(e: Expression, shape: tuple[int, ...]) -> int:
    """Return the bytes loaded and stored; stores do not repeat along reduced axes."""
    loaded = sum([a.item_bytes * prod(a.tile(shape)) for a in e.inputs])
    return loaded + e.output.item_bytes * prod(e.output.tile(shape))


def unit_tile(expression: Expression) -> RTile:
    """Return the tile of one point."""
    return RTile(expression, (1,) * len(expression.axes))


def whole_tile(expression: Expression) -> RTile:
    """Return the tile of the full operator."""
    return RTile(expression, expression.extents)


@dataclass(frozen=True, slots=True)
class TiledProgram:
    """One rTile for each memory level, farthest first, then the unit tile: the paper's rProgram.

    `border`: no tile of this growth was compute bound in all levels and filled execution units;
    this is the last one that fitted, or all of the operator. `shrunk_from`: the tiles before a
    small operator was cut finer to give every unit work.
    """

    tiles: tuple[RTile, ...]
    border: bool = False
    shrunk_from: tuple[RTile, ...] = ()

    def of(self, e: Expression) -> TiledProgram:
        """Return the same tiles for an expression that differs in names alone."""
        own, before = (
            tuple(RTile(e, t.shape, t.padding) for t in tiles)
            for tiles in (self.tiles, self.shrunk_from)
        )
        return TiledProgram(own, self.border, before)

    def tile(self, level: int) -> RTile:
        """Return the tile of a level; 0 is the farthest from the registers."""
        return self.tiles[level]

    def parallelism(self, level: int) -> int:
        """Return the number of tiles of a level that run in parallel in the one around it.

        They are blocks at level 0, threads of a block at level 1.
        """
        outer = whole_tile(self.tiles[0].expression) if level == 0 else self.tiles[level - 1]
        return outer.count(self.tiles[level])

    @property
    def grid(self) -> int:
        """The number of tiles of the farthest level, one for each copy of a unit's program."""
        return self.parallelism(0)

    @property
    def threads(self) -> int:
        """The number of register tiles of one copy."""
        return self.parallelism(1)
