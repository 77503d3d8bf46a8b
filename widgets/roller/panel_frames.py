"""Panels of the Tiles picture: the contents of each memory, and the tile that moves nearer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from explorer.devices.model import Device
from explorer.roller.construct.expression import Expression, TensorAccess
from explorer.roller.construct.levels import Room
from explorer.roller.construct.rtile import RTile, whole_tile
from widgets.roller.data_tiles import DataTile, LevelPanel
from widgets.roller.tiled_kernel import Level, TileChoice

MOST_INPUTS = 2  # the largest are drawn, unless it is a matrix product


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor as a memory holds it: `rows` by `columns` elements.

    The tile of `tall` by `wide` elements from `top`, `left` moves nearer; a reduced axis moves
    `step` elements at a time, 0 for all of them.
    """

    letter: str
    tensor: str
    rows: int
    columns: int
    top: int = 0
    left: int = 0
    tall: int = 0
    wide: int = 0
    step: int = 0
    others: str = ""


@dataclass(frozen=True, slots=True)
class PanelFrame:
    """One panel: a memory, its operands with the output last, and the capacity that they use.

    `moved_bytes` of the inputs move on to the next panel. `product`: the first operand stands left
    of the output, the second above. `lanes`: elements of the output that one register holds.
    """

    level: str
    note: str
    operands: tuple[Operand, ...]
    room: Room
    shape: str
    product: bool
    moved_bytes: int = 0
    moved: str = ""
    lanes: int = 0

    @property
    def name(self) -> str:
        """The memory's name as a heading."""
        words = self.level.removeprefix("a ")
        return words[:1].upper() + words[1:]


@dataclass(frozen=True, slots=True)
class Product:
    """The axes of a matrix product: the left operand's rows, the right one's columns, the depth.

    `left` and `right` are positions of inputs.
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    depth: tuple[int, ...]
    left: int
    right: int

    def sizes(self, shape: Sequence[int]) -> tuple[int, int, int]:
        """Return rows, columns and depth of a tile of these sizes."""
        rows, columns = (shape[a[-1]] if a else 1 for a in (self.rows, self.columns))
        return rows, columns, prod(shape[a] for a in self.depth)


def product_of(e: Expression) -> Product | None:
    """Return the axes of a product of two matrices, None for any other expression."""
    depth = tuple(range(e.spatial, len(e.axes)))
    if len(e.inputs) != 2 or not depth or not all(map(_is_plain, (*e.inputs, e.output))):
        return None
    used = [{axis for walk in a.dims for axis, _ in walk} for a in e.inputs]
    inner = [axis for axis in range(e.spatial) if e.extents[axis] > 1]
    if not all(set(depth) & axes for axes in used):
        return None
    last = inner[-1] if inner else e.spatial - 1
    right = next((n for n in (1, 0) if last in used[n] and last not in used[1 - n]), None)
    if right is None:
        return None
    both = used[right], used[1 - right]
    columns = tuple(a for a in inner if a in both[0] and a not in both[1])
    rows = tuple(a for a in inner if a in both[1] and a not in both[0])
    return Product(rows, columns, depth, 1 - right, right)


def _is_plain(a: TensorAccess) -> bool:
    return not any(a.needs_full) and all(
        len(walk) <= 1 and all(step == 1 for _, step in walk) for walk in a.dims
    )


def frames(
    choice: TileChoice, panels: Sequence[LevelPanel], device: Device
) -> tuple[PanelFrame, ...]:
    """Return the panels of a tile, the farthest memory first."""
    return tuple(_frames(choice, panels, device))


def _frames(
    choice: TileChoice, panels: Sequence[LevelPanel], device: Device
) -> Iterator[PanelFrame]:
    e, product = choice.expression, product_of(choice.expression)
    outer, name = whole_tile(e), choice.levels[0].source
    capacity = next((m.capacity_bytes for m in device.levels if m.name == name), None)
    every = sum(a.item_bytes * prod(a.shape) for a in (*e.inputs, e.output))
    room, note, lanes = Room(f"bytes of {name}", every, capacity or 0), "whole operands", 0
    for n, (level, panel) in enumerate(zip(choice.levels, panels, strict=True)):
        tile, last = level.tile, n + 1 == len(choice.levels)
        moved = sum(t.used_bytes for t in panel.tiles if not t.written)
        yield PanelFrame(
            name, note, _operands(product, outer, tile, panel), room, _shape(product, outer),
            product is not None, moved, _each(outer, tile), lanes,
        )  # fmt: skip
        name, outer, room = level.name, tile, _first_used(level)
        note = _note(choice, last)
        lanes = _lanes(choice, device) if last and name == "registers" else 0
    bare = tuple(_bare(o) for o in _operands(product, outer, outer, panels[-1]))
    yield PanelFrame(
        name, note, bare, room, _shape(product, outer, lanes), product is not None, lanes=lanes
    )


def _note(choice: TileChoice, last: bool) -> str:
    if choice.block is not None:
        return f"one thread of {choice.block.threads}" if last else "one block"
    return "one step" if last and len(choice.levels) > 1 else "one tile"


def _lanes(choice: TileChoice, device: Device) -> int:
    return device.lanes if device.kind == "cpu" else 1


def _first_used(level: Level) -> Room:
    """Return the first limit of a level that the tile uses any of."""
    return next((r for r in level.rooms if r.used), level.rooms[0])


def _each(outer: RTile, tile: RTile) -> str:
    first = outer.expression.spatial
    return "a tile" if outer.shape[first:] == tile.shape[first:] else "a step"


def _shape(product: Product | None, tile: RTile, lanes: int = 0) -> str:
    """Describe the output's part of a tile, and the depth of the reduction."""
    box = [n for n in tile.output_tile if n > 1] or [1]
    size = "×".join(map(str, box)) if len(box) > 1 else f"{box[0]:,}"
    if lanes > 1:
        vectors = prod(box[:-1]) * -(-box[-1] // lanes)
        return f"{size} in {vectors} vector{'s' * (vectors > 1)}"
    if product is None or lanes:
        return f"C {size}" if product else size
    return f"C {size}, k {product.sizes(tile.shape)[2]}"


def _operands(
    product: Product | None, outer: RTile, tile: RTile, panel: LevelPanel
) -> tuple[Operand, ...]:
    if product is not None:
        return _of_product(product, outer, tile)
    inputs = sorted(panel.tiles[:-1], key=lambda t: -t.used_bytes)[:MOST_INPUTS]
    inputs.sort(key=panel.tiles.index)
    return tuple(_of_plane(t) for t in (*inputs, panel.tiles[-1]))


def _of_plane(t: DataTile) -> Operand:
    p = t.plane
    return Operand(
        t.tensor, t.tensor, p.rows, p.columns, p.top, p.left, p.tall, p.wide, others=p.others
    )


def _of_product(product: Product, outer: RTile, tile: RTile) -> tuple[Operand, ...]:
    e = outer.expression
    (rows, columns, depth), (tall, wide, step) = map(product.sizes, (outer.shape, tile.shape))
    top, left = tall if rows >= 2 * tall else 0, wide if columns >= 2 * wide else 0
    begin = step if depth >= 2 * step else 0
    part = step if step < depth else 0
    a, b = e.inputs[product.left].tensor, e.inputs[product.right].tensor
    return (
        Operand("A", a, rows, depth, top, begin, tall, depth, part),
        Operand("B", b, depth, columns, begin, left, depth, wide, part),
        Operand("C", e.output.tensor, rows, columns, top, left, tall, wide),
    )


def _bare(o: Operand) -> Operand:
    """Return an operand of the nearest memory, of which nothing moves on."""
    return Operand(o.letter, o.tensor, o.tall or o.rows, o.wide or o.columns)
