"""The memory lines of every tile: the elements in each line, and the bytes moved in vain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from explorer.ir.stage import Stage
from explorer.plain_text import counted
from widgets.draw.svg import Svg, fit, label, path, rect, text_width, wrap_text
from widgets.draw.table import Mark, Sentence, Table, lit_by
from widgets.model.picture import HEIGHT, WIDTH, Drawn, OnShow, Picture, placeholder
from widgets.roller import tile_panels
from widgets.roller.data_tiles import DataTile, LevelPanel
from widgets.roller.tile_panels import PanelRows
from widgets.roller.view import TILES, shape_text, tiled_kernel

PX, BOLD, NARROW = 13, 1.07, 640
MOST_TENSORS, LEAST_CELL, MOST_CELL, GAP, FOOT = 3, 9.0, 18.0, 24.0, 26.0
NEARLY_ALL = 0.995  # share from which all moved bytes count as needed
INKS = ("var(--t3)", "var(--tint)")
LEGEND = (
    ("var(--t3)", "a memory line"),
    ("var(--tint)", "the next line"),
    ("url(#p-g-imbalance)", "moved, not needed"),
)


def table(rows: PanelRows) -> Table:
    """Return the rows of the tiles with their lines."""
    tiles = tile_panels.table(rows)
    return Table(tiles.columns, tiles.rows, tiles.ops, tiles.caption, see(rows))


def see(rows: PanelRows) -> tuple[Sentence, ...]:
    """Return the key sentences: the tensor that moves most in vain, and the one with most lines."""
    tiles = [t for p in _levels(rows) for t in p.tiles]
    if not tiles:
        return ()
    worst, most = min(tiles, key=lambda t: t.useful), max(tiles, key=lambda t: t.lines)
    lines = Mark(counted(most.lines, "line"), f"lines:{most.tensor}")
    sentences: list[Sentence] = [("All that is moved is needed.",)]
    if worst.useful < NEARLY_ALL:
        share = Mark(_percent(worst), f"lines:{worst.tensor}")
        sentences = [(f"{worst.tensor} needs ", share, " of what it moves.")]
    sentences.append(
        (f"{most.tensor} takes the most, ", lines, f" of {most.line_bytes} bytes per tile.")
    )
    return tuple(sentences)


def _levels(rows: PanelRows) -> list[LevelPanel]:
    """Return the memories that are read in lines: all but registers."""
    return [p for p in rows.levels if p.level != "registers"]


def _percent(t: DataTile) -> str:
    return f"{100 * t.useful:.0f} %"


def figure(rows: PanelRows, size: tuple[int, int] = (WIDTH, HEIGHT)) -> Svg:
    """Draw a band per memory level with its tensors, one below the other on a narrow page."""
    wide, high = size
    marks = [*_bands(_levels(rows), wide, high - FOOT), *_legend(wide, high - 8)]
    return Svg(wide, high, "".join(marks), f"Memory lines: {rows.kernel}", px=PX)


def _bands(levels: Sequence[LevelPanel], wide: float, high: float) -> Iterator[str]:
    if not levels:
        yield label(0, 20, "No tile of this kernel fits this device.", "i")
        return
    each = high / len(levels)
    for n, panel in enumerate(levels):
        y = n * each
        if n:
            yield path(f"M0 {y - 8:.1f}H{wide:g}", "var(--line2)")
        name = panel.level.removeprefix("a ").capitalize() if panel.level.islower() else panel.level
        fed = f"fed by {panel.source}, the first rows of each tile"
        yield label(0, y + 16, name, "big")
        x = text_width(name, 16) * BOLD + 8
        yield label(x, y + 16, fit(fed, wide - x, PX))
        tiles = _shown(panel)
        across = 1 if wide < NARROW else len(tiles)
        room, tall = (wide - GAP * (across - 1)) / across, (each - 32) / -(-len(tiles) // across)
        for k, t in enumerate(tiles):
            at = (k % across) * (room + GAP), y + 26 + k // across * tall
            body = "".join(_tensor(t, at, room, tall))
            yield lit_by(body, f"lines:{t.tensor} lev{n}")


def _shown(panel: LevelPanel) -> list[DataTile]:
    """Return the largest inputs in their order, then the output."""
    inputs = sorted(panel.tiles[:-1], key=lambda t: -t.used_bytes)[: MOST_TENSORS - 1]
    return [*sorted(inputs, key=panel.tiles.index), panel.tiles[-1]]


def _tensor(t: DataTile, at: tuple[float, float], room: float, tall: float) -> Iterator[str]:
    """Draw a tensor's first rows, each element coloured by its memory line."""
    x, y = at
    size = f"{shape_text(t.box)} of {shape_text(t.shape)}"
    name = fit(t.tensor, room * 0.5 / BOLD, PX)
    head = text_width(name, PX) * BOLD + 8
    yield label(x, y + 13, name, "w i", title=t.tensor)
    yield label(x + head, y + 13, fit(size, room - head, PX), title=size)
    lines = wrap_text(words(t), room / BOLD, PX)
    under = 17 * len(lines) + 6
    rows = max(1, min(t.plane.tall, int((tall - 24 - under) / 7)))
    cell = min(MOST_CELL, max(5.0, (tall - 24 - under) / rows))
    yield from _lines(t, (x, y + 20), room, (cell, rows))
    for n, line in enumerate(lines):
        style = "i" if t.useful >= NEARLY_ALL or len(lines) > 1 else "w i"
        yield label(x, y + 34 + rows * cell + 17 * n, line, style)


def words(t: DataTile) -> str:
    """Describe how many lines a tile takes, and the share of them that it needs."""
    if t.packed:
        return f"packed by {t.packed}: {counted(t.lines, 'line')}, all needed"
    return f"{counted(t.lines, 'line')} of {t.line_bytes} B, {_percent(t)} needed"


def _lines(
    t: DataTile, at: tuple[float, float], room: float, size: tuple[float, int]
) -> Iterator[str]:
    (x, y), (cell, rows), each = at, size, t.row_lines
    bare = t.packed > 0
    most = max(4, int(room / LEAST_CELL))
    wide = min(t.packed or t.plane.wide, t.plane.wide)
    pitch, phase = (each, 0) if bare else (t.pitch, t.phase)
    lead = min(phase, most // 2)
    drawn = min(most, lead + -(-(wide + each) // each) * each)  # with the last line's unneeded end
    across = min(MOST_CELL, max(LEAST_CELL, room / drawn))
    columns = min(wide, most - lead)
    for r in range(rows):
        begin = (phase + r * pitch) % each
        box = (across, cell)
        yield from _row(each, (x, y + r * cell), box, begin, (wide, lead, drawn), bare=bare)
    left, right = x + lead * across, x + (lead + columns) * across
    ticks = "".join(
        f"M{x + (lead + c) * across:.1f} {y:.1f}v{rows * cell:.1f}" for c in range(1, columns)
    )
    if ticks:
        yield path(ticks, "var(--pane)", 'stroke-width="0.8"')
    edge = f"M{right:.1f} {y:.1f}H{left:.1f}v{rows * cell:.1f}H{right:.1f}"
    yield path(edge + ("" if columns < wide else "z"), "var(--ink2)")


def _row(
    each: int,
    at: tuple[float, float],
    size: tuple[float, float],
    phase: int,
    span: tuple[int, int, int],
    *,
    bare: bool,
) -> Iterator[str]:
    """Draw one row, whose first line begins `phase` elements before it.

    `span`: the elements of the row, the elements drawn before it, and the most that are drawn.
    """
    (x, y), (cell, high), (wide, lead, most) = at, size, span
    begin = x + lead * cell
    ground, edge = "url(#p-g-imbalance)", 'stroke="var(--line2)" stroke-width="0.6"'
    for line, first in enumerate(range(-phase, wide, each)):
        end = first + each
        a, b = max(first, 0), min(end, wide, most - lead)
        if b > a:
            box = (begin + a * cell, y, (b - a) * cell, high - 0.6)
            yield rect(*box, INKS[line % 2])
        if bare:
            continue
        before, after = max(first, -lead), min(end, most - lead)
        if before < 0:
            box = (begin + before * cell, y, -before * cell, high - 0.6)
            yield rect(*box, ground, edge)
        if after > wide:
            box = (begin + wide * cell, y, (after - wide) * cell, high - 0.6)
            yield rect(*box, ground, edge)


def _legend(wide: float, y: float) -> Iterator[str]:
    x = 0.0
    for fill, text in LEGEND:
        if x + 24 + text_width(text, PX) > wide:
            return
        yield rect(x, y - 10, 14, 11, fill, 'stroke="var(--edge)"')
        yield label(x + 20, y, text)
        x += 20 + text_width(text, PX) + 20


def _draw(s: OnShow, op: str) -> Drawn:
    kernel_tiles = tiled_kernel(s, op)
    if kernel_tiles is None:
        return placeholder("Roller has tiled nothing.")
    rows = tile_panels.panel_rows(s, kernel_tiles)
    return rows, figure(rows, s.view.size), table(rows)


PICTURE = Picture(
    name="memory_lines",
    title="Memory lines",
    words="Which elements of every tile lie in one memory line, and which bytes are moved in vain.",
    stage=Stage.ROLLED,
    family=TILES,
    about="kernel",
    draw=_draw,
)
