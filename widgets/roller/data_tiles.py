"""Data tiles of one rTile at every memory level: position in the tensor, lines, banks or sets.

A panel frame is what a memory holds: its operands, and the tile of each that moves nearer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from explorer.devices.model import Device
from explorer.devices.target import target_of
from explorer.roller.construct.alignment import bank_conflicts, cache_sets, set_conflicts
from explorer.roller.construct.expression import Expression, TensorAccess
from explorer.roller.construct.levels import Room
from explorer.roller.construct.rtile import RTile, whole_tile
from widgets.roller.tiled_kernel import Level, TileChoice

MOST_ROWS = 1 << 16  # rows of a tile whose lines are counted exactly
NARROW = 16  # shorter trailing dims are merged in the drawing
MOST_INPUTS = 2  # the largest are drawn, unless it is a matrix product


@dataclass(frozen=True, slots=True)
class Plane:
    """The drawn plane of a tensor: its two innermost dims as held by the level outside.

    It has `rows` by `columns` elements. The tile begins at `top`, `left`; `others` describes how
    much of the outer dims it takes.
    """

    rows: int
    columns: int
    top: int
    left: int
    tall: int
    wide: int
    others: str = ""


@dataclass(frozen=True, slots=True)
class DataTile:
    """The part of one tensor that a tile touches.

    `lines` of `line_bytes` hold it, `used_bytes` of them are read. `phase` is the position of the
    first element in its line, `pitch` the distance to the next row, in elements. `packed`: it lies
    in panels of so many columns.
    """

    tensor: str
    written: bool
    shape: tuple[int, ...]
    box: tuple[int, ...]
    plane: Plane
    item_bytes: int
    line_bytes: int
    lines: int
    used_bytes: int
    phase: int
    pitch: int
    padding: int
    packed: int = 0

    @property
    def useful(self) -> float:
        """The needed share of the bytes that are moved."""
        return self.used_bytes / (self.lines * self.line_bytes) if self.lines else 1.0

    @property
    def row_lines(self) -> int:
        """The number of elements that a line holds."""
        return max(1, self.line_bytes // self.item_bytes)


@dataclass(frozen=True, slots=True)
class Storage:
    """A data tile as it is stored: `rows` of `pitch` elements, `padding` of them unused.

    `place` of an element is the bank or cache set that serves it. A tile of the next level reads
    `read_columns` elements of `read_rows` rows at once; `degree` is how many different words one
    bank must serve for that, or how many lines one set must hold; `unpadded` is that number without
    padding. `associativity` is what a place serves without a conflict: 1 word of a bank, or the
    lines of a set.
    """

    tensor: str
    level: str
    kind: str  # "bank" or "set"
    places: int
    together: int  # contiguous elements that one place serves
    rows: int
    columns: int
    padding: int
    read_rows: int
    read_columns: int
    associativity: int
    degree: int
    unpadded: int

    @property
    def pitch(self) -> int:
        """The number of elements from one row to the next."""
        return self.columns + self.padding

    def place(self, row: int, column: int, padding: int) -> int:
        """Return the bank or set that serves an element."""
        return (row * (self.columns + padding) + column) // self.together % self.places

    @property
    def conflict(self) -> bool:
        """True if the padded tile is still served in turns, or does not fit its sets."""
        return self.degree > self.associativity


@dataclass(frozen=True, slots=True)
class LevelPanel:
    """One memory level: its tile, its limits, its data tiles and their storage."""

    level: str
    source: str
    axes: tuple[tuple[str, int], ...]
    rooms: tuple[tuple[str, int, int], ...]
    tiles: tuple[DataTile, ...]
    stored: tuple[Storage, ...] = ()


def level_panels(choice: TileChoice, device: Device) -> Iterator[LevelPanel]:
    """Yield the levels of a tile, farthest first."""
    e = choice.expression
    outer = whole_tile(e)
    for n, level in enumerate(choice.levels):
        around = _TileInLevel(outer, level, choice.panels, choice.is_copied and n > 0)
        nearer = choice.levels[n + 1].tile if n + 1 < len(choice.levels) else None
        yield LevelPanel(
            level.name,
            level.source,
            tuple(zip(e.axes, level.tile.shape, strict=True)),
            tuple((r.limit, r.used, r.capacity) for r in level.rooms),
            tuple(around.data_tiles()),
            tuple(_stored(level, nearer, device, choice)) if nearer and not choice.block else (),
        )
        outer = level.tile


@dataclass(frozen=True)
class _TileInLevel:
    """A level's tile within the tile of the level around it.

    `copied`: the outer tile is a copy of its own, else a part of the tensor in place. `panels`
    names operands in packed columns.
    """

    outer: RTile
    level: Level
    panels: Mapping[str, int]
    copied: bool

    def data_tiles(self) -> Iterator[DataTile]:
        """Yield the data tile of each operand, the output last."""
        e = self.level.tile.expression
        pads = self.level.tile.padding or (0,) * len(e.inputs)
        for a, pad in zip((*e.inputs, e.output), (*pads, 0), strict=True):
            yield self._data_tile(a, pad, a is e.output)

    def _data_tile(self, a: TensorAccess, padding: int, written: bool) -> DataTile:
        box = tuple(min(b, n) for b, n in zip(a.tile(self.level.tile.shape), a.shape, strict=True))
        frame = tuple(min(b, n) for b, n in zip(a.tile(self.outer.shape), a.shape, strict=True))
        at = self._start(a, frame, box)
        shape = frame if self.copied and not written else a.shape
        inner, line = self.level.name == "registers", self.level.line_bytes
        packed = 0 if written else self.panels.get(a.tensor, 0)
        if packed or inner:
            used = prod(box) * a.item_bytes
            lines, phase = -(-used // line), 0
        else:
            first, run, starts = _runs(shape, box, at)
            lines, used = _lines(starts, run, a.item_bytes, line, prod(box))
            phase = first % max(1, line // a.item_bytes)
        plane = _plane(a.shape, frame, box, at)
        return DataTile(
            a.tensor, written, a.shape, box, plane, a.item_bytes, line, lines, used, phase,
            shape[-1] if shape else 1, padding, packed,
        )  # fmt: skip

    def _start(self, a: TensorAccess, frame: Sequence[int], box: Sequence[int]) -> tuple[int, ...]:
        """Return the start of the second tile along each axis, or of the first if it is alone.

        The first tile would hide misalignment: it is aligned to everything.
        """
        sizes = zip(self.outer.shape, self.level.tile.shape, strict=True)
        begin = tuple(s if n >= 2 * s else 0 for n, s in sizes)
        return tuple(
            0 if is_whole else max(0, min(sum(step * begin[axis] for axis, step in walk), n - b))
            for walk, is_whole, n, b in zip(a.dims, a.needs_full, frame, box, strict=True)
        )


def _runs(
    shape: Sequence[int], box: Sequence[int], at: Sequence[int]
) -> tuple[int, int, np.ndarray]:
    """Return the first element's address, the length of each contiguous run, and the runs' starts.

    All are in elements; at most 65,536 runs are returned.
    """
    split = len(shape)
    while split and box[split - 1] == shape[split - 1]:
        split -= 1
    split = max(0, split - 1)
    strides = [prod(shape[d + 1 :]) for d in range(len(shape))]
    first = sum(s * i for s, i in zip(strides, at, strict=True))
    starts = np.array([first], np.int64)
    for d in range(split):
        count = max(1, min(box[d], MOST_ROWS // len(starts)))
        starts = (starts[:, None] + strides[d] * np.arange(count)).ravel()
    return first, prod(box[split:]), starts


def _lines(starts: np.ndarray, run: int, item: int, line: int, elements: int) -> tuple[int, int]:
    """Return the lines that the runs touch, and the bytes of them that are used."""
    begin, end = starts * item // line, ((starts + run) * item - 1) // line
    touched = int((end - begin + 1).sum())
    counted = len(starts) * run
    return -(-touched * elements // max(1, counted)), elements * item


def _plane(
    shape: Sequence[int], frame: Sequence[int], box: Sequence[int], at: Sequence[int]
) -> Plane:
    """Return the drawn plane: the two innermost dims; a small innermost one is merged."""
    if not shape:
        return Plane(1, 1, 0, 0, 1, 1)
    split = len(shape) - 1
    while split > 0 and prod(shape[split:]) < NARROW:
        split -= 1

    def along(values: Sequence[int]) -> int:
        return prod(values[split:])

    left = at[split] * prod(frame[split + 1 :])
    if not split:
        return Plane(1, along(frame), 0, left, 1, along(box))
    row = split - 1
    others = ", ".join(f"{box[d]} of {frame[d]}" for d in range(row) if frame[d] > 1)
    return Plane(frame[row], along(frame), at[row], left, box[row], along(box), others)


def _stored(level: Level, nearer: RTile, device: Device, choice: TileChoice) -> Iterator[Storage]:
    """Yield each input's data tile in a memory that has banks or sets."""
    tile = level.tile
    pads = tile.padding or (0,) * len(tile.expression.inputs)
    inputs = tile.expression.inputs
    for a, box, read, pad in zip(inputs, tile.input_tiles, nearer.input_tiles, pads, strict=True):
        if prod(box[:-1]) < 2 or any(a.needs_full) or a.tensor in choice.panels:
            continue
        pitch = box[-1] if choice.is_copied else a.shape[-1]
        yield from _spread(a, level.name, pitch, pad, box, read, device)


def _spread(
    a: TensorAccess,
    level: str,
    pitch: int,
    pad: int,
    box: Sequence[int],
    read: Sequence[int],
    device: Device,
) -> Iterator[Storage]:
    rows, columns = min(prod(box[:-1]), prod(read[:-1])), min(read[-1], box[-1])
    near = device.levels[0]
    blocks = target_of(device).uses_thread_blocks
    if blocks and device.banks:
        items = max(1, device.bank_bytes // a.item_bytes)
        now, was = (bank_conflicts(rows, pitch + p, columns, device.banks, items) for p in (pad, 0))
        yield Storage(
            a.tensor, level, "bank", device.banks, items, prod(box[:-1]), pitch, pad, rows,
            columns, 1, now, was,
        )  # fmt: skip
    elif not blocks and near.ways and near.capacity_bytes:
        sets = cache_sets(near.capacity_bytes, near.line_bytes, near.ways)
        strides = ((pitch + p) * a.item_bytes for p in (pad, 0))
        now, was = (set_conflicts(rows, stride, near.line_bytes, sets) for stride in strides)
        items = max(1, near.line_bytes // a.item_bytes)
        yield Storage(
            a.tensor, near.name, "set", sets, items, prod(box[:-1]), pitch, pad, rows,
            columns, near.ways, now, was,
        )  # fmt: skip


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
    return 1 if target_of(device).uses_thread_blocks else device.lanes


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
