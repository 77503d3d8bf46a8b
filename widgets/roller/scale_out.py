"""Scale-out: copies of one unit's tile over all units, in waves, and the idle tail."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import plotly.graph_objects as go

from explorer.ir.stage import Stage
from explorer.plain_text import counted
from explorer.roller.construct.shrink import Waves
from widgets.draw.plots import colours, least_height, styled
from widgets.draw.svg import Svg, fit, label, path, rect
from widgets.draw.table import Mark, Sentence, Table, lit_by
from widgets.model.brick_wall import units_text
from widgets.model.picture import Picture
from widgets.roller.tiled_kernel import TiledKernel
from widgets.roller.view import TILES, of_tile

LEFT, RIGHT, FIRST, WIDTH = 12.0, 628.0, 64.0, 640.0
HEAD, TAIL = 9, 2  # first and last waves drawn of many
ROW = 13.0
MOST_UNITS = 160  # larger waves are drawn as one bar


@dataclass(frozen=True, slots=True)
class WaveRows:
    """The waves of each tile choice; `rank` is the current one."""

    kernel: str
    device: str
    tiles: tuple[str, ...]
    waves: tuple[Waves, ...]
    notes: tuple[str, ...]
    rank: int
    ops: tuple[str, ...]


def data(rolled: TiledKernel) -> WaveRows:
    """Return the waves of one kernel's tiles on one device."""
    choices = rolled.choices
    return WaveRows(
        rolled.title,
        rolled.device.name,
        tuple(c.label for c in choices),
        tuple(c.waves for c in choices),
        tuple(c.note for c in choices),
        rolled.rank,
        rolled.ops,
    )


def table(rows: WaveRows) -> Table:
    """Return one row per tile."""
    columns = ("tile", "copies", "cores or SMs", "beside", "waves", "in the last", "idle", "note")
    cells = tuple(
        (tile, w.grid, w.units, w.per_unit, w.waves, w.last, f"{1 - w.efficiency:.1%}", note)
        for tile, w, note in zip(rows.tiles, rows.waves, rows.notes, strict=True)
    )
    return Table(columns, cells, tuple(rows.ops for _ in cells), caption(rows), see(rows))


def see(rows: WaveRows) -> tuple[Sentence, ...]:
    """Return the key sentences: how the current tile fills the units, and the least idle tile."""
    if not rows.waves:
        return ()
    w = rows.waves[rows.rank]
    copies = Mark(counted(w.grid, "copy", "copies"), f"tile:{rows.rank}")
    units = units_text(w.units, rows.device)
    last = Mark(f"the last fills {w.last:,} of {w.places:,}", "last")
    lead: Sentence = ("The current tile makes ", copies, f" on {units}: ")
    sentences: list[Sentence] = [(*lead, f"{counted(w.waves, 'wave')}, ", last, " places.")]
    idle = [1 - x.efficiency for x in rows.waves]
    least = idle.index(min(idle))
    mine, tiles = idle[rows.rank], f"the {counted(len(idle), 'tile')}"
    if max(idle) == 0:
        who = Mark(f"Each of {tiles}" if len(idle) > 1 else "It", "used")
        return (*sentences, (who, " leaves nothing idle."))
    if mine == 0:
        most = idle.index(max(idle))
        worst = Mark(f"tile {most + 1}", f"tile:{most}")
        return (*sentences, ("It leaves nothing idle, ", worst, f" {idle[most]:.1%} of the time."))
    share = Mark(f"{mine:.1%}", f"idle tile:{rows.rank}")
    sentences.append((share, f" of the time of {units} is idle."))
    if mine > idle[least]:
        better = Mark(f"tile {least + 1}", f"tile:{least}")
        sentences.append(("Least idle is ", better, f": {idle[least]:.1%}."))
    return tuple(sentences)


def caption(rows: WaveRows) -> str:
    """Describe how the current tile fills the units."""
    if not rows.waves:
        return f"{rows.kernel} on {rows.device}: no tile fits"
    w = rows.waves[rows.rank]
    beside = f", {w.per_unit} beside each other" if w.per_unit > 1 else ""
    idle = f"{1 - w.efficiency:.1%} of their time is idle"
    units = units_text(w.units, rows.device)
    waves = f"{w.waves:,} wave{'' if w.waves == 1 else 's'}"
    return (
        f"{rows.kernel} on {rows.device}: {w.grid:,} copies on {units}{beside}: "
        f"{waves}, the last fills {w.last:,} of {w.places:,}; {idle}"
    )


def figure(rows: WaveRows) -> Svg:
    """Draw the waves of the current tile: units from left to right, waves from top to bottom."""
    if not rows.waves:
        marks = [label(LEFT, 22, "No tile fits.", "i w")]
        return Svg(WIDTH, 40, "".join(marks), f"Scale-out: {caption(rows)}")
    w = rows.waves[rows.rank]
    beside = f", {w.per_unit} copies beside each other" if w.per_unit > 1 else ""
    marks = [label(LEFT, 22, f"Waves of the current tile{beside}", "i w", title=caption(rows))]
    marks.append(label(LEFT, 54, "wave", "q"))
    marks.append(
        label(
            FIRST,
            54,
            f"{w.places:,} places of {units_text(w.units, rows.device)}, left to right",
            "q",
        )
    )
    y = 62.0
    for number in _shown(w.waves):
        if number < 0:
            marks.append(label(FIRST, y + 11, f"… {w.waves - HEAD - TAIL:,} full waves more", "q"))
            y += ROW + 4
            continue
        wave = "".join(_wave(w, number, y))
        marks.append(lit_by(wave, "wave last" if number == w.waves - 1 else "wave"))
        y += ROW + 2
    note = rows.notes[rows.rank]
    if note:
        marks.append(label(FIRST, y + 12, fit(note, RIGHT - FIRST), "i", title=note))
        y += 16
    return Svg(WIDTH, y + 10, "".join(marks), f"Scale-out: {caption(rows)}")


def _shown(waves: int) -> list[int]:
    if waves <= HEAD + TAIL + 1:
        return list(range(waves))
    return [*range(HEAD), -1, *range(waves - TAIL, waves)]


def _wave(w: Waves, number: int, y: float) -> Iterator[str]:
    """Draw one wave: filled places, and idle ones hatched."""
    count = w.copies(number)
    each = min(48.0, (RIGHT - FIRST) / w.places)
    filled, all_ = count * each, w.places * each
    tip = f"wave {number + 1}: {count:,} of {w.places:,} places"
    yield label(FIRST - 10, y + 10.5, f"{number + 1:,}", "i", anchor="end")
    yield rect(FIRST, y, filled, ROW, "var(--t3)", title=tip)
    if count < w.places:
        edge = 'stroke="var(--edge)"'
        yield rect(FIRST + filled, y, all_ - filled, ROW, "url(#p-g-imbalance)", edge, title=tip)
    if w.places <= MOST_UNITS:
        lines = "".join(f"M{FIRST + i * each:.1f} {y}v{ROW}" for i in range(1, count))
        yield path(lines or "M0 0", "var(--pane)", 'stroke-width="1"')
    if count < w.places:
        text = f"{w.places - count:,} idle"
        yield label(min(FIRST + all_ + 6, RIGHT), y + 10.5, text, "i w") if all_ < 560 else ""


def words(rows: WaveRows, n: int) -> str:
    """Describe a tile's copies and waves."""
    w, note = rows.waves[n], rows.notes[n]
    last = f"the last fills {w.last:,} of {w.places:,}: {1 - w.efficiency:.1%} idle"
    return f"{rows.tiles[n]}: {w.grid:,} copies in {w.waves:,} waves, {last}" + (
        f"; {note}" if note else ""
    )


def chart(rows: WaveRows, title: str, theme: str) -> go.Figure:
    """Draw a bar per tile: the busy share of all units' time, then the idle share at the end."""
    c, figure = colours(theme), go.Figure()
    names = [f"{n + 1}  {tile}" for n, tile in enumerate(rows.tiles)]
    inks = [c["accent" if n == rows.rank else "t2"] for n in range(len(names))]
    used = [100 * w.efficiency for w in rows.waves]
    for key, name, values, marker in (
        ("used", "in use", used, {"color": inks}),
        (
            "idle",
            "idle in the last wave",
            [100 - share for share in used],
            {
                "color": c["pane"],
                "pattern": {
                    "shape": ".",
                    "fillmode": "replace",
                    "fgcolor": c["ink3"],
                    "size": 6,
                },
            },
        ),
    ):
        figure.add_bar(
            x=values,
            y=names,
            name=name,
            orientation="h",
            marker={**marker, "line": {"color": c["line2"], "width": 1}},
            customdata=[words(rows, n) for n in range(len(names))],
            meta={
                "take": [{"rank": n} for n in range(len(names))],
                "k": [f"{key} tile:{n}" for n in range(len(names))],
            },
            hovertemplate="%{customdata}<extra></extra>",
        )
    figure.update_layout(barmode="stack", bargap=0.35, meta=least_height(len(names)))
    units = units_text(rows.waves[0].units, rows.device) if rows.waves else "all"
    figure.update_xaxes(title=f"time of {units} (%)", range=[0, 100])
    figure.update_yaxes(title="tile (by rank)", autorange="reversed")
    return styled(figure, theme, title, max(300, 150 + 26 * len(names)))


PICTURE = Picture(
    name="waves",
    title="Waves",
    words="Copies of one tile over all cores or SMs, in waves, and the idle part of the last wave.",
    stage=Stage.ROLLED,
    family=TILES,
    about="kernel",
    draw=of_tile(data, figure, table),
    chart=chart,
)
