"""The brick wall as a still picture: the number of marks depends on its pixels, not its bricks.

It is drawn as SVG, and as PNG bytes for pages without scripts and SVG.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from explorer.errors import BadOption
from explorer.ir.stage import Stage
from explorer.measure.walls import WallComparison
from widgets.draw import theme
from widgets.draw.svg import Svg, label, path, rect, text_width, wrap_text
from widgets.draw.table import time_text
from widgets.draw.theme import family_token
from widgets.model.brick_wall import CAUSES, NAMES, WallRows
from widgets.model.picture import Drawn, OnShow, Picture
from widgets.rammer.wall_lanes import BrickColumns, lane_blocks
from widgets.rammer.wall_slices import WallSlice
from widgets.rammer.wall_table import caption, table

WIDTH, GUTTER = 960, 84
ROOM = 60_000  # bytes of blocks, to bound the size of the SVG
MOST_HIGH = 460.0  # height of all lanes
INSIDE = WIDTH - GUTTER - 8


def figure(
    planned: WallRows,
    ran: WallRows | None = None,
    selected: str = "",
    comparison: WallComparison | None = None,
) -> Svg:
    """Draw the plan over a run, a lane for each unit; many units share lanes."""
    description = caption(planned, ran, comparison)
    total = max(planned.total_us, ran.total_us if ran else 0) or 1
    scale = INSIDE / total
    marks: list[str] = []
    y = 6.0
    lanes = lanes_of(planned, 2 if ran else 1)
    planned_high, high = lanes_high(lanes, planned.lanes, bool(ran))
    for lane in range(lanes):
        full = planned_high + high + (5 if ran else 2) if high else planned_high + 2
        first, last = units_of(lane, lanes, planned.lanes)
        marks.append(rect(GUTTER, y, INSIDE, full, "var(--app)"))
        if full >= 12 or lane % max(1, round(12 / full)) == 0:
            name = planned.lane_name(first)
            name += f"–{last}" if last > first else ""
            marks.append(label(12, y + min(14, full + 2), name, "i mono"))
        if ran and full >= 34 and lane < ran.lanes:
            marks.append(label(12, y + 33, f"{ran.busy_by_unit()[lane]:.1%} busy"))
        y += full + 4
    step = full + 4
    marks += lane_marks(planned, lanes, scale, 7.5, planned_high - 1, step, selected, outlined=True)
    if ran:
        at = 6 + planned_high + 4
        marks += gap_marks(ran, lanes, scale, at, high, step)
        marks += lane_marks(ran, lanes, scale, at, high, step, selected, outlined=False)
    marks += cuts(ran or planned, scale, 4, y - 4)
    marks += axis(y, total) + _legend(y + 30, {c.family for c in planned.calls})
    if ran and lanes >= ran.lanes:
        marks += _idle_legend(y + 49, ran)
    lines = wrap_text(description, WIDTH - 20)
    marks += [label(12, y + 80 + 15 * n, line, "i") for n, line in enumerate(lines)]
    return Svg(WIDTH, y + 77 + 15 * len(lines), "".join(marks), f"Brick wall: {description}")


def lanes_of(rows: WallRows, walls: int, high: float = MOST_HIGH) -> int:
    """Return the number of lanes: one per unit while each wall has 3 pixels in it."""
    return shared_lanes(rows.lanes, int(high / (4 + 3 * walls)))


def shared_lanes(units: int, most: int) -> int:
    """Return the number of lanes, at most `most`, with as few units as possible sharing one.

    No lane is empty.
    """
    units = max(1, units)
    return -(-units // -(-units // max(1, most)))


def lanes_high(lanes: int, units: int, two: bool) -> tuple[float, float]:
    """Return the heights of a planned lane and of a measured one."""
    full = min(42.0, MOST_HIGH / max(1, lanes) - 4)
    if not two:
        return max(3.0, min(26.0, full)), 0.0
    planned_high = max(2.0, full * 0.26)
    return planned_high, max(3.0, full - planned_high - 5)


def units_of(lane: int, lanes: int, units: int) -> tuple[int, int]:
    """Return the first and the last unit of a lane."""
    group = -(-units // lanes)
    return lane * group, min(units, (lane + 1) * group) - 1


def blocks_of(rows: WallRows, lanes: int) -> BrickColumns:
    """Return all bricks of a wall as blocks at the picture's resolution."""
    view = WallSlice(0.0, rows.total_us or 1.0, INSIDE, lanes)
    return lane_blocks(rows, view, -(-rows.lanes // lanes), ROOM)


def lane_marks(
    rows: WallRows,
    lanes: int,
    scale: float,
    y: float,
    high: float,
    step: float,
    selected: str = "",
    *,
    outlined: bool,
) -> list[str]:
    """Draw the bricks of all lanes, `step` pixels apart, as one path per family."""
    mine = set(rows.calls_of(selected)) if selected else set()
    shapes: dict[tuple[str, bool], list[str]] = {}
    blocks = blocks_of(rows, lanes)
    columns = (blocks.lane, blocks.start * scale, blocks.end * scale, blocks.call)
    for lane, a, b, call in zip(*(c.tolist() for c in columns)):
        wide = max(b - a - (0.6 if b - a > 4 else 0), 0.6)
        shapes.setdefault((rows.calls[call].family, call in mine), []).append(
            f"M{GUTTER + a:.1f} {y + lane * step:.1f}h{wide:.1f}v{high:.1f}h-{wide:.1f}z"
        )
    return [_family(family, on, "".join(parts), outlined) for (family, on), parts in shapes.items()]


def _family(family: str, on: bool, drawn: str, outlined: bool) -> str:
    fill = "var(--accent)" if on else f"url(#p-{family_token(family)})"
    stroke = "var(--accent)" if on else "var(--ink3)"
    style = f'fill="none" stroke="{stroke}" stroke-width="0.7"' if outlined else f'fill="{fill}"'
    return f'<path d="{drawn}" {style}/>'


def gap_marks(
    rows: WallRows, lanes: int, scale: float, y: float, high: float, step: float
) -> Iterator[str]:
    """Draw gaps longer than a pixel, by cause; none if units share lanes."""
    if lanes < rows.lanes:
        return
    long = np.flatnonzero((rows.gap_end - rows.gap_start) * scale > 0.7)
    if len(long) > 4000:
        long = long[np.argsort(rows.gap_start[long] - rows.gap_end[long])[:4000]]
    for i in sorted(long.tolist()):
        a, b = float(rows.gap_start[i]) * scale, float(rows.gap_end[i]) * scale
        cause = CAUSES[rows.cause[i]]
        tip = f"{NAMES[cause]} {time_text((b - a) / scale)}"
        at = y + int(rows.gap_unit[i]) * step
        yield rect(GUTTER + a, at, b - a, high, f"url(#p-g-{cause})", title=tip)


def cuts(rows: WallRows, scale: float, top: float, bottom: float) -> Iterator[str]:
    """Draw a line where each launch ends, if the lines are far enough apart."""
    places = dict.fromkeys(round(cut * scale, 1) for cut in rows.cuts_us)
    if len(places) <= INSIDE / 3:
        for x in places:
            wide = f'stroke-width="{1.4 if len(places) < 40 else 0.5}"'
            yield path(f"M{GUTTER + x:.1f} {top:g}V{bottom:g}", "var(--ink)", wide)


def tick_step(total: float, at_most: int = 8) -> float:
    """Return the smallest round step that fits at most `at_most` times into the total."""
    power = 10.0 ** int(np.floor(np.log10(total / at_most)))
    return next(m * power for m in (1, 2, 5, 10) if total / (m * power) <= at_most)


def axis(y: float, total: float) -> list[str]:
    """Draw the time axis in microseconds under the lanes."""
    step, scale = tick_step(total), INSIDE / total
    marks = [path(f"M{GUTTER} {y + 0.5}H{WIDTH - 8}", "var(--line2)"), label(12, y + 14, "µs", "q")]
    for i in range(int(total / step) + 1):
        x = GUTTER + i * step * scale
        anchor = "middle" if i else "start"
        marks += [
            path(f"M{x:.1f} {y}v4", "var(--ink3)"),
            label(x, y + 15, f"{i * step:,.6g}", "q", anchor=anchor),
        ]
    return marks


def _legend(y: float, families: set[str]) -> list[str]:
    marks: list[str] = []
    x = float(GUTTER)
    for family in sorted(families):
        marks += family_mark(x, y, family)
        x += 30 + text_width(family)
    return marks


def _idle_legend(y: float, rows: WallRows) -> list[str]:
    """Draw the legend of the idle causes that occur."""
    causes = [CAUSES[i] for i in np.unique(rows.cause).tolist()]
    marks: list[str] = [label(12, y + 10, "idle", "q")] if causes else []
    x = float(GUTTER)
    for cause in causes:
        marks += _named_hatch(x, y, f"g-{cause}", NAMES[cause])
        x += 30 + text_width(NAMES[cause])
    return marks


def family_mark(x: float, y: float, family: str) -> Sequence[str]:
    """Draw a family's colour and hatch with its name."""
    return _named_hatch(x, y, family_token(family), family)


def _named_hatch(x: float, y: float, hatch: str, name: str) -> Sequence[str]:
    return (
        rect(x, y, 13, 11, f"url(#p-{hatch})", 'stroke="var(--line2)"'),
        label(x + 18, y + 10, name),
    )


def encode_png(pixels: NDArray[np.uint8]) -> bytes:
    """Encode an image of height x width x 3 as a PNG file."""
    high, wide, _ = pixels.shape
    raw = np.zeros((high, 1 + 3 * wide), np.uint8)
    raw[:, 1:] = pixels.reshape(high, -1)
    return (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", struct.pack(">2I5B", wide, high, 8, 2, 0, 0, 0))
        + _chunk(b"IDAT", zlib.compress(raw.tobytes(), 6))
        + _chunk(b"IEND", b"")
    )


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def wall_png(planned: WallRows, ran: WallRows | None = None, scheme: str = "light") -> bytes:
    """Draw for each unit a thin planned lane over a thick measured one."""
    total = max(planned.total_us, ran.total_us if ran else 0) or 1
    tokens = theme.SCHEMES[scheme]
    count = lanes_of(planned, 2 if ran else 1)
    walls = [_lanes(w, count, total, tokens) for w in (planned, ran) if w]
    thick = (8, 24) if count <= 12 else (2, 3)
    lanes = []
    for lane in range(count):
        for pixels, high in zip(walls, thick):
            lanes.append(np.repeat(pixels[lane][None], high, 0))
            lanes.append(np.full((2, WIDTH, 3), _rgb(tokens["pane"]), np.uint8))
    return encode_png(np.ascontiguousarray(np.concatenate(lanes)))


def _lanes(rows: WallRows, count: int, total: float, tokens: dict[str, str]) -> NDArray[np.uint8]:
    pixels = np.full((count, WIDTH, 3), _rgb(tokens["tint"]), np.uint8)
    colours = [_rgb(tokens[theme.family_token(c.family)]) for c in rows.calls]
    blocks = blocks_of(rows, count)
    left = (blocks.start * (WIDTH / total)).astype(int)
    right = np.maximum((blocks.end * (WIDTH / total)).astype(int), left + 1)
    for lane, a, b, call in zip(blocks.lane, left, right, blocks.call):
        pixels[lane, a : b - 1 if b - a > 3 else b] = colours[call]
    return pixels


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _draw(s: OnShow, op: str) -> Drawn:
    planned, (ran, comparison) = s.walls.planned, s.walls.ran
    if planned is None:
        raise BadOption("nothing is scheduled: compile through Rammer")
    return (planned, ran), figure(planned, ran, op, comparison), table(planned, ran, op, comparison)


PICTURE = Picture(
    name="rammer",
    title="Rammer's brick wall",
    short="Schedule",
    words="The tasks of all operators on the machine's cores or SMs, as predicted and as measured.",
    stage=Stage.RAMMED,
    live="wall",
    draw=_draw,
)
