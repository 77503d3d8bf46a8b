"""Drawing of the Tiles picture's panels: operands, the tile that moves nearer, and capacity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from explorer.roller.construct.levels import Room
from widgets.draw.svg import fit, label, path, rect, text_width, wrap_text
from widgets.draw.table import lit_by, size_text
from widgets.roller.data_tiles import Operand, PanelFrame

LOW = 116.0  # minimum height of a row for all of a panel's text
PX, BOLD, NARROW = 13, 1.07, 640  # font size; narrower pages have one panel per row
GAP, LETTER, LEAST = 8.0, 20.0, 14.0  # gap between operands; label height; minimum side
HEAD, FOOT = 32.0, 52.0  # heights of a panel's name and capacity
MOST_LINES = 48  # grid lines in each direction
MINE = 'stroke="var(--ink)" stroke-width="1.5"'
RESULT = 'stroke="var(--accent)" stroke-width="2.5"'


@dataclass(frozen=True, slots=True)
class Spot:
    """A rectangle on the page."""

    x: float
    y: float
    wide: float
    high: float

    @property
    def right(self) -> float:
        """The right edge."""
        return self.x + self.wide

    @property
    def bottom(self) -> float:
        """The lower edge."""
        return self.y + self.high


def panels(frames: Sequence[PanelFrame], wide: float, high: float, fill: str) -> list[str]:
    """Draw the panels next to each other, or one below the other on a narrow page.

    Zoom lines lead from a tile to the panel that shows it enlarged.
    """
    if wide < NARROW:
        return _below(frames, wide, high, fill)
    gap = 24.0 if wide < 900 else 48.0
    each = (wide - 2 - gap * (len(frames) - 1)) / len(frames)
    marks: list[str] = []
    names: list[str] = []
    before: Spot | None = None
    for n, f in enumerate(frames):
        x = 1 + n * (each + gap)
        marks += _head(f, n, x, each + (gap - 12 if n + 1 < len(frames) else 0))
        room = Spot(x, HEAD, each, high - HEAD - FOOT)
        spots = _spots(f, room)
        if before is not None:
            marks.append(_zoom(before, _zoom_target(f, spots)))
        marks += [*_operands(f, n, spots, fill), *_capacity(f, n, x, high - 40, each)]
        names += _letters(f, spots, room)
        before = _part(f.operands[-1], spots[-1])
    return [*marks, *names]


def _below(frames: Sequence[PanelFrame], wide: float, high: float, fill: str) -> list[str]:
    """Draw one panel per row: its operands at the left, its text at the right."""
    each, left = high / len(frames), min(180.0, wide * 0.46)
    marks: list[str] = []
    for n, f in enumerate(frames):
        y, x = n * each, left + 20
        room = Spot(1, y + 4, left, each - 16)
        spots = _spots(f, room)
        marks += [*_operands(f, n, spots, fill), *_letters(f, spots, room)]
        marks.append(label(x, y + 18, f.name, "big"))
        beside = x + text_width(f.name, 16) * BOLD + 8
        if each >= LOW:
            marks.append(label(x, y + 38, f.note))
        elif text_width(f.note, PX) <= wide - beside:
            marks.append(label(beside, y + 18, f.note))
        bar = y + (50 if each >= LOW else 26)
        marks += _capacity(f, n, x, bar, wide - x - 1, below=each >= LOW - 20)
        if f.moved and each >= 160:
            moved_text = f"{size_text(f.moved_bytes)} {f.moved} ↓"
            marks.append(lit_by(label(x, y + 136, moved_text, "i"), f"moved{n}"))
    return marks


def _head(f: PanelFrame, n: int, x: float, room: float) -> Iterator[str]:
    """Draw the name of a memory, its contents, and the bytes that move on from it."""
    name = text_width(f.name, 16) * BOLD
    yield lit_by(label(x, 18, f.name, "big"), f"lev{n}")
    moved_text = f"{size_text(f.moved_bytes)} {f.moved} →" if f.moved else ""
    available = room - name - 8 - (text_width(moved_text, PX) + 12 if moved_text else 0)
    if text_width(f.note, PX) <= available:
        yield label(x + name + 8, 18, f.note)
    if moved_text and text_width(moved_text, PX) + 12 <= room - name:
        yield lit_by(label(x + room, 18, moved_text, "i", anchor="end"), f"moved{n}")


def _zoom(tile: Spot, target: Spot) -> str:
    lines = f"M{tile.right:.1f} {tile.y:.1f}L{target.x:.1f} {target.y:.1f}"
    lines += f"M{tile.right:.1f} {tile.bottom:.1f}L{target.x:.1f} {target.bottom:.1f}"
    return path(lines, "var(--accent)", 'stroke-width="1.5" stroke-dasharray="2 4"')


def _capacity(
    f: PanelFrame, n: int, x: float, y: float, wide: float, *, below: bool | None = None
) -> Iterator[str]:
    """Draw a bar of the used capacity, its text, and the shape of the contents.

    The shape is under the text if `below`, next to it for None.
    """
    words, room = room_words(f.room), f.room
    marks = [rect(x, y, wide, 8, "none", 'stroke="var(--edge)"', title=words)]
    if room.capacity:
        share = min(1.0, room.used / room.capacity)
        marks.append(rect(x, y, wide * share, 8, "var(--ink2)", title=words))
    lines = wrap_text(words, wide, PX)
    marks += [label(x, y + 24 + 18 * i, line, "i") for i, line in enumerate(lines)]
    available = wide - text_width(words, PX) - 12
    if below:
        marks.append(label(x, y + 26 + 18 * len(lines), fit(f.shape, wide, PX), "q", title=f.shape))
    elif below is None and text_width(f.shape, PX) <= available:
        marks.append(label(x + wide, y + 24, f.shape, "q", anchor="end"))
    yield lit_by("".join(marks), f"cap{n}")


def room_words(room: Room) -> str:
    """Describe how much of a limit is used: 48 of 48 KiB."""
    unit_text = room.limit.replace("shared bytes of", "bytes of").removeprefix("bytes of ")
    if "bytes" not in room.limit:
        return f"{room.used:,} of {room.capacity:,} {room.limit}"
    each = f" {unit_text}" if unit_text.startswith("a ") else ""
    return f"{pair_text(room.used, room.capacity)}{each}"


def pair_text(used: int, capacity: int) -> str:
    """Return two numbers of bytes as text, with one unit if both have the same."""
    if not capacity:
        return size_text(used)
    used_text, capacity_text = size_text(used), size_text(capacity)
    same = used_text.rpartition(" ")[2] == capacity_text.rpartition(" ")[2]
    return f"{used_text.rpartition(' ')[0] if same else used_text} of {capacity_text}"


def _spots(f: PanelFrame, room: Spot) -> tuple[Spot, ...]:
    """Return the positions of a panel's operands, the output last."""
    return _product_spots(f, room) if f.product else _plain_spots(f, room)


def _operands(f: PanelFrame, n: int, spots: Sequence[Spot], fill: str) -> Iterator[str]:
    """Draw the operands of a panel; sentences highlight the output as C, the inputs as A and B."""
    for o, spot, letter in zip(f.operands, spots, (*"AB"[: len(spots) - 1], "C"), strict=True):
        out = letter == "C"
        if f.moved:
            yield lit_by("".join(_grid(o, spot)), f"{letter} lev{n}")
            part = "".join(_marked(o, spot, _part(o, spot), out, fill))
        else:
            part = "".join(_cells(o, spot, f.lanes, out, fill))
        yield lit_by(part, f"{letter} tile lev{n}")


def _zoom_target(f: PanelFrame, spots: Sequence[Spot]) -> Spot:
    """Return the rectangle that zoom lines lead to.

    It has the height of the output for a product, else of all operands.
    """
    x = min(s.x for s in spots)
    among = spots[-1:] if f.product else spots
    top, bottom = min(s.y for s in among), max(s.bottom for s in among)
    return Spot(x, top, spots[-1].right - x, bottom - top)


def _product_spots(f: PanelFrame, room: Spot) -> tuple[Spot, Spot, Spot]:
    """Place A left of C, and B above it, to scale; if C would be thin, with a shorter depth."""
    a, _, c = f.operands
    wide, high = room.wide - LETTER - GAP, room.high - LETTER - GAP
    deep = a.columns
    scale = min(wide / (deep + c.columns), high / (deep + c.rows))
    if f.moved:
        depth_x = depth_y = max(LEAST, deep * scale)
        if min(c.columns, c.rows) * scale < 0.3 * min(wide, high):
            depth_x, depth_y = min(depth_x, 0.34 * wide), min(depth_y, 0.34 * high)
            scale = min((wide - depth_x) / c.columns, (high - depth_y) / c.rows)
    else:
        depth_x = depth_y = 24.0
        scale = min((wide - depth_x) / c.columns, (high - depth_y) / c.rows)
    across, down = max(LEAST, c.columns * scale), max(LEAST, c.rows * scale)
    if not f.moved:  # vectors are drawn as cells
        across, down = _cell_room(f, wide - depth_x, high - depth_y)
    x = room.x + LETTER + max(0.0, (wide - depth_x - across) / 2)
    y = room.y + max(0.0, (high - depth_y - down) / 2)
    right, low = x + depth_x + GAP, y + depth_y + GAP
    return (
        Spot(x, low, depth_x, down),
        Spot(right, y, across, depth_y),
        Spot(right, low, across, down),
    )


def _cell_room(f: PanelFrame, wide: float, high: float) -> tuple[float, float]:
    """Return the size of a register tile, whose cells are wider than high."""
    c = f.operands[-1]
    columns = -(-c.columns // max(1, f.lanes))
    across = min(wide, max(72.0, columns * 76.0))
    return across, min(high, max(28.0, min(c.rows * 48.0, across * 0.9)))


def _plain_spots(f: PanelFrame, room: Spot) -> tuple[Spot, ...]:
    """Place the inputs at the left, stacked if they fit, and the output at the right."""
    inputs, count = f.operands[:-1], max(1, len(f.operands) - 1)
    beside = room.high / count < 48
    columns = (count if beside else 1) + 1 if inputs else 1
    wide = (room.wide - 2 * GAP * (columns - 1)) / columns
    tall = room.high - LETTER if beside else room.high / count - LETTER
    spots = [
        _within(
            o,
            Spot(
                room.x + n * (wide + 2 * GAP) * beside,
                room.y + n * (tall + LETTER) * (not beside),
                wide,
                tall,
            ),
        )
        for n, o in enumerate(inputs)
    ]
    out = Spot(room.right - wide, room.y, wide, room.high - LETTER)
    return (*spots, _within(f.operands[-1], out))


def _within(o: Operand, room: Spot) -> Spot:
    """Return a plane's rectangle, to scale but with a minimum size, centred in its room."""
    scale = min(room.wide / o.columns, room.high / o.rows)
    wide = max(min(o.columns * scale, room.wide), min(28.0, room.wide))
    high = max(min(o.rows * scale, room.high), min(24.0, room.high))
    return Spot(
        room.x + (room.wide - wide) / 2, room.y + max(0.0, (room.high - high) / 2), wide, high
    )


def _letters(f: PanelFrame, spots: Sequence[Spot], room: Spot) -> Iterator[str]:
    """Draw the names of the operands."""
    if f.product:
        a, b, c = spots
        under = min(c.bottom + 16, room.bottom)
        for o, x, y in zip(
            f.operands, (a.x + a.wide / 2, b.x - 8, c.x + c.wide / 2), (under, b.y + 14, under)
        ):
            anchor = "end" if o.letter == "B" else "middle"
            yield rect(x - (12 if anchor == "end" else 6), y - 11, 12, 13, "var(--pane)")
            yield label(x, y, o.letter, "w i", anchor=anchor, title=f"{o.letter}: {o.tensor}")
        return
    count = len(spots) if len({s.x for s in spots}) == len(spots) else 2
    half = (room.wide - 2 * GAP * (count - 1)) / count
    for o, spot in zip(f.operands, spots, strict=True):
        text = o.tensor + (f" × {o.others}" if o.others else "")
        shown = text if text_width(text, PX) * BOLD <= half else fit(o.tensor, half / BOLD, PX)
        across = text_width(shown, PX) * BOLD
        middle = min(max(spot.x + spot.wide / 2, room.x + across / 2), room.right - across / 2)
        yield rect(middle - across / 2 - 2, spot.bottom + 4, across + 4, 15, "var(--pane)")
        yield label(middle, spot.bottom + 16, shown, "w i", anchor="middle", title=text)


def _grid(o: Operand, spot: Spot) -> Iterator[str]:
    """Draw a tensor cut into tiles."""
    yield rect(spot.x, spot.y, spot.wide, spot.high, "var(--app)", 'stroke="var(--edge)"')
    lines = ""
    down, across = -(-o.rows // max(1, o.tall)), -(-o.columns // max(1, o.wide))
    if 1 < down <= MOST_LINES and spot.high / down > 3:
        step = spot.high * o.tall / o.rows
        lines += "".join(
            f"M{spot.x:.1f} {spot.y + step * i:.1f}h{spot.wide:.1f}" for i in range(1, down)
        )
    if 1 < across <= MOST_LINES and spot.wide / across > 3:
        step = spot.wide * o.wide / o.columns
        lines += "".join(
            f"M{spot.x + step * i:.1f} {spot.y:.1f}v{spot.high:.1f}" for i in range(1, across)
        )
    if lines:
        yield path(lines, "var(--line2)")


def _part(o: Operand, spot: Spot) -> Spot:
    """Return the rectangle of the tile that moves nearer, with a visible minimum size."""
    fx, fy = spot.wide / o.columns, spot.high / o.rows
    wide, high = max(3.0, min(o.wide, o.columns) * fx), max(3.0, min(o.tall, o.rows) * fy)
    left = 0 if o.wide >= o.columns else o.left
    top = 0 if o.tall >= o.rows else o.top
    x = min(spot.x + left * fx, spot.right - wide)
    return Spot(x, min(spot.y + top * fy, spot.bottom - high), wide, high)


def _marked(o: Operand, spot: Spot, mine: Spot, out: bool, fill: str) -> Iterator[str]:
    """Draw the tile that moves nearer; a reduced operand has its step outlined."""
    tip = f"{o.tall}×{o.wide} of {o.rows}×{o.columns} of {o.tensor}"
    ground, edge = ("var(--soft)", RESULT) if out else (fill, MINE)
    if not o.step:
        yield rect(mine.x, mine.y, mine.wide, mine.high, ground, edge, title=tip)
        return
    plain = 'stroke="var(--ink2)"'
    yield rect(mine.x, mine.y, mine.wide, mine.high, ground, plain, title=tip)
    if o.letter == "A":  # the reduced axis runs along its columns
        at, wide = spot.wide * o.left / o.columns, spot.wide * o.step / o.columns
        x, wide = mine.x + min(at, spot.wide - max(3.0, wide)), max(3.0, wide)
        yield rect(x, mine.y, wide, mine.high, "none", 'stroke="var(--ink)" stroke-width="2"')
    else:
        at, high = spot.high * o.top / o.rows, spot.high * o.step / o.rows
        y, high = mine.y + min(at, spot.high - max(3.0, high)), max(3.0, high)
        yield rect(mine.x, y, mine.wide, high, "none", 'stroke="var(--ink)" stroke-width="2"')


def _cells(o: Operand, spot: Spot, lanes: int, out: bool, fill: str) -> Iterator[str]:
    """Draw the registers of the nearest memory as cells, numbered in the output."""
    ground, edge = (
        ("var(--soft)", 'stroke="var(--accent)" stroke-width="2"')
        if out
        else (fill, 'stroke="var(--ink)"')
    )
    down, across = o.rows, -(-o.columns // max(1, lanes))
    if not lanes or spot.high / down < 6 or spot.wide / across < 6:
        tip = f"{o.rows}×{o.columns} of {o.tensor}"
        yield rect(spot.x, spot.y, spot.wide, spot.high, ground, edge, title=tip)
        return
    wide, high = spot.wide / across, spot.high / down
    inset = 2.0 if min(wide, high) > 12 else 1.0
    for r in range(down):
        for c in range(across):
            x, y = spot.x + c * wide, spot.y + r * high
            yield rect(x, y, wide - inset, high - inset, ground, edge)
            name = f"r{r * across + c}"
            if out and high > 18 and wide > text_width(name, PX) + 6:
                middle = y + (high - inset) / 2 + 4.5
                yield label(x + (wide - inset) / 2, middle, name, "i", anchor="middle")
