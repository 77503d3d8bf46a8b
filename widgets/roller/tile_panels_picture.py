"""The drawing and the words of Roller's tile panels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from explorer.ir.stage import Stage
from widgets.draw.svg import Svg, fit, label, path, rect, text_width, wrapped
from widgets.draw.table import Table, size_text
from widgets.model.picture import Picture
from widgets.roller.rolled import axis_words
from widgets.roller.storage_picture import storage
from widgets.roller.tile_panels import DataTile, LevelPanel, PanelRows, Plane, data
from widgets.roller.view import TILES, of_tile

WIDTH, LEFT, RIGHT = 780.0, 12.0, 768.0
COLUMN, GAP, FIRST = 196.0, 12.0, 148.0
MAP, CELL, ROW = 58.0, 5.0, 6.0
SHOWN_ROWS, SHOWN = 6, 39
INKS = ("var(--t3)", "var(--tint)")


def table(rows: PanelRows) -> Table:
    """One row a tensor and memory level."""
    columns = (
        "level", "fed by", "tile", "tensor", "shape", "data tile", "line bytes", "lines moved",
        "bytes needed", "needed of moved", "padding", "at once from one bank or set",
        "without padding",
    )  # fmt: skip
    found = []
    for p in rows.levels:
        stored = {s.tensor: s for s in p.stored}
        for t in p.tiles:
            s = stored.get(t.tensor) if not t.written else None
            found.append(
                (
                    p.level,
                    p.source,
                    axes_words(p.axes),
                    f"{t.tensor}{' (written)' * t.written}",
                    _by(t.shape),
                    _by(t.box),
                    t.line_bytes,
                    t.lines,
                    t.used_bytes,
                    f"{t.useful:.0%}",
                    t.padding,
                    f"{s.degree} ({s.kind}s, {s.ways} at a time)" if s else "",
                    s.unpadded if s else "",
                )
            )
    return Table(columns, tuple(found), tuple(rows.ops for _ in found), caption(rows))


def caption(rows: PanelRows) -> str:
    """Which tile of which kernel on which device this is."""
    which = f"tile {rows.rank + 1} of {rows.of}" if rows.of else "no tile"
    note = f"; {rows.note}" if rows.note else ""
    return f"{rows.kernel} on {rows.device}, {axes_words(rows.extents)}: {which}{note}"


def axes_words(axes: Sequence[tuple[str, int]]) -> str:
    """Sizes by axis."""
    return " ".join(f"{axis_words(axis)}={size}" for axis, size in axes)


def _by(shape: Sequence[int]) -> str:
    return "×".join(map(str, shape)) or "1"


def figure(rows: PanelRows) -> Svg:
    """A band a memory level, the farthest on top: tile and room at the left, then its tensors."""
    marks = [label(LEFT, 22, fit(caption(rows), RIGHT - LEFT - 40), "i w", title=caption(rows))]
    y = 32.0
    for panel in rows.levels:
        band, high = _band(panel, y + 8, rows.kind)
        marks += [path(f"M{LEFT} {y + 0.5:g}H{RIGHT}", "var(--line2)"), *band]
        y += high + 8
    if not rows.levels:
        marks.append(label(LEFT, 52, "No tile fits this device.", "i"))
        y = 64
    marks += [path(f"M{LEFT} {y + 0.5:g}H{RIGHT}", "var(--line2)"), *_legend(y + 18)]
    return Svg(WIDTH, y + 30, "".join(marks), f"Tiles: {caption(rows)}")


def _legend(y: float) -> Iterator[str]:
    parts = (
        ('fill="var(--soft)" stroke="var(--accent)" stroke-width="1.6"', "the tile"),
        ('fill="var(--t3)" stroke="var(--edge)"', "a memory line"),
        ('fill="var(--tint)" stroke="var(--edge)"', "the next line"),
        ('fill="url(#p-g-imbalance)" stroke="var(--line2)"', "moved, not needed"),
        ('fill="url(#p-pad)" stroke="var(--edge)"', "padding"),
        ('fill="var(--ink)"', "same bank or set in one read"),
    )
    x = LEFT
    for style, text in parts:
        yield f'<rect x="{x:g}" y="{y - 9:g}" width="12" height="9" {style}/>'
        yield label(x + 17, y, text)
        x += text_width(text) + 33


def _band(p: LevelPanel, y: float, kind: str) -> tuple[list[str], float]:
    """A level's marks and its height."""
    marks, left_high = _head(p, y)
    tiles = [*sorted(p.tiles[:-1], key=lambda t: -t.used_bytes)[:2], p.tiles[-1]]
    tiles.sort(key=p.tiles.index)
    for i, tile in enumerate(tiles):
        marks += _tensor(tile, p.level, FIRST + i * (COLUMN + GAP), y)
    high = 164.0
    if len(p.tiles) > len(tiles):
        more = f"and {len(p.tiles) - len(tiles)} more tensors, in the table"
        marks.append(label(FIRST, y + high + 8, more, "q"))
        high += 18
    lows = [0.0]
    for i, s in enumerate(p.stored[:2]):
        found, low = storage(s, FIRST + i * 316, y + high + 14)
        marks += found
        lows.append(low + 14)
    high += max(lows)
    return marks, max(left_high, high)


def _head(p: LevelPanel, y: float) -> tuple[list[str], float]:
    marks = [
        label(LEFT, y + 14, p.level, "i w"),
        label(LEFT, y + 30, f"fed by {p.source}", "q"),
    ]
    at = y + 50
    for line in wrapped(axes_words(p.axes), FIRST - LEFT - 16, mono=True):
        marks.append(label(LEFT, at, line, "mono i"))
        at += 15
    for unit, used, limit in p.rooms:
        share = used / limit if limit else 0.0
        said = f"{used:,} of {limit:,} {unit}"
        marks += [
            rect(LEFT, at - 4, 116, 8, "none", 'stroke="var(--ink2)"', title=said),
            rect(LEFT, at - 4, 116 * min(share, 1), 8, "var(--t2)", title=said),
        ]
        at += 18
        for line in wrapped(_room(unit, used, limit), FIRST - LEFT - 12):
            marks.append(label(LEFT, at, line))
            at += 14
        at += 10
    return marks, at - y


def _room(unit: str, used: int, limit: int) -> str:
    if "bytes" in unit:
        rest = unit.replace("bytes of ", "").replace("shared bytes of", "shared by")
        return f"{size_text(used)} of {size_text(limit)} {rest}"
    return f"{used:,} of {limit:,} {unit}"


def _tensor(t: DataTile, level: str, x: float, y: float) -> Iterator[str]:
    role = "written" if t.written else "read"
    room = COLUMN - text_width(role) - 10
    yield label(x, y + 14, fit(t.tensor, room, mono=True), "mono i w", title=t.tensor)
    yield label(x + COLUMN, y + 14, role, "q", anchor="end")
    p = t.plane
    said = f"{_by(t.box)} of {_by(t.shape)}"
    yield label(x, y + 30, fit(said, COLUMN), title=said)
    yield from _map(p, x, y + 40)
    yield from _lines(t, level, x, y + 40 + MAP + 8)


def _map(p: Plane, x: float, y: float) -> Iterator[str]:
    """Where the tile lies in what the level outside holds, drawn to scale as far as it is seen."""
    scale = min(COLUMN / p.columns, MAP / p.rows)
    wide = max(min(p.columns * scale, COLUMN), 16.0)
    high = max(min(p.rows * scale, MAP), 10.0)
    fx, fy = wide / p.columns, high / p.rows
    yield rect(x, y, wide, high, "var(--app)", 'stroke="var(--edge)"')
    lines = ""
    across, down = p.columns / max(1, p.wide), p.rows / max(1, p.tall)
    if 1 < across <= 32:
        lines += "".join(
            f"M{x + p.wide * i * fx:.1f} {y}v{high:.1f}" for i in range(1, -int(-across))
        )
    if 1 < down <= 24:
        lines += "".join(
            f"M{x} {y + p.tall * i * fy:.1f}h{wide:.1f}" for i in range(1, -int(-down))
        )
    if lines:
        yield path(lines, "var(--line2)")
    w, h = max(p.wide * fx, 3.0), max(p.tall * fy, 3.0)
    left, top = min(x + p.left * fx, x + wide - w), min(y + p.top * fy, y + high - h)
    said = f"{p.tall} by {p.wide} from row {p.top}, column {p.left}, of {p.rows} by {p.columns}"
    edge = 'stroke="var(--accent)" stroke-width="1.6"'
    yield rect(left, top, w, h, "var(--soft)", edge, title=said)
    if p.others and wide + text_width(f"× {p.others}") + 8 <= COLUMN:
        yield label(x + wide + 6, y + 11, f"× {p.others}", "q")
    elif p.others:
        yield label(x + wide - 4, y + 11, fit(f"× {p.others}", wide - 8), "q", anchor="end")


def _lines(t: DataTile, level: str, x: float, y: float) -> Iterator[str]:
    """The first rows of the tile, element by element, by the memory line that each is in."""
    each, p = t.row_lines, t.plane
    whole = t.packed > 0 or level == "registers"
    wide = min(t.packed or p.wide, p.wide)
    pitch, phase = (each, 0) if whole else (t.pitch, t.phase)
    lead = min(phase, SHOWN // 2)
    columns = min(wide, SHOWN - lead)
    rows = min(p.tall, SHOWN_ROWS)
    for r in range(rows):
        yield from _row(
            t, x + lead * CELL, y + r * ROW, (phase + r * pitch) % each, wide, lead, whole
        )
    ticks = "".join(f"M{x + (lead + c) * CELL:g} {y:g}v{rows * ROW:g}" for c in range(1, columns))
    yield path(ticks or "M0 0", "var(--pane)", 'stroke-width="0.8"')
    edge = f"M{x + (lead + columns) * CELL:g} {y:g}H{x + lead * CELL:g}v{rows * ROW:g}"
    yield path(edge + f"h{columns * CELL:g}" + ("" if columns < wide else "z"), "var(--ink2)")
    said = f"{t.line_bytes} B lines: {t.lines:,}, {t.useful:.0%} needed"
    if level == "registers":
        said = f"{_by(t.box)}, by the {each} lanes" if each < wide else f"{_by(t.box)} elements"
    elif t.packed:
        said = f"packed by {t.packed}: {t.lines:,} lines, all needed"
    yield label(
        x,
        y + SHOWN_ROWS * ROW + 14,
        fit(said, COLUMN),
        "i w" if "lines" in said and t.useful < 0.99 else "i",
    )


def _row(
    t: DataTile, x: float, y: float, phase: int, wide: int, lead: int, bare: bool
) -> Iterator[str]:
    """One row: `phase` elements of its first line come before it."""
    each = t.row_lines
    ground, edge = "url(#p-g-imbalance)", 'stroke="var(--line2)" stroke-width="0.6"'
    for line, begin in enumerate(range(-phase, wide, each)):
        end = begin + each
        a, b = max(begin, 0), min(end, wide, SHOWN - lead)
        if b > a:
            yield rect(x + a * CELL, y, (b - a) * CELL, ROW - 0.6, INKS[line % 2])
            yield path(f"M{x + b * CELL:g} {y:g}v{ROW - 0.6:g}", "var(--edge)") if b == end else ""
        if bare:
            continue
        before, after = max(begin, -lead), min(end, SHOWN - lead)
        if before < 0:
            yield rect(x + before * CELL, y, -before * CELL, ROW - 0.6, ground, edge)
        if after > wide:
            yield rect(x + wide * CELL, y, (after - wide) * CELL, ROW - 0.6, ground, edge)


PICTURE = Picture(
    name="roller",
    title="Roller's layouts through the memories",
    short="Tiles",
    words="The tile of every operand at each memory level, and what it is aligned to.",
    stage=Stage.ROLLED,
    family=TILES,
    about="kernel",
    draw=of_tile(data, figure, table),
)
