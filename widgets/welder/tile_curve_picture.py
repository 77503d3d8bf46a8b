"""The drawing and the words of the curve of traffic against the output tile, and of the bytes of
every level.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log2

from explorer.ir.stage import Stage
from widgets.draw.svg import Svg, cross, fit, label, path, path_end, rect, text_width
from widgets.draw.table import Cell, Table, size_text
from widgets.model.picture import Picture
from widgets.welder.moved_picture import MIDDLE, bars
from widgets.welder.stream_marks import NAMES
from widgets.welder.tile_curve import CurveRows, Moved, Point, data, point_words
from widgets.welder.view import GROUPS, of_group

WIDTH, LEFT = 780.0, 12.0
X0, X1, TOP, FLOOR = 74.0, 412.0, 62.0, 262.0
MOST_TICKS = 7


@dataclass(frozen=True, slots=True)
class _Scale:
    """Both axes in powers of two."""

    x_low: float
    x_high: float
    y_low: float
    y_high: float

    def x(self, elements: float) -> float:
        part = (log2(max(elements, 1e-9)) - self.x_low) / (self.x_high - self.x_low)
        return X0 + max(0.0, min(1.0, part)) * (X1 - X0)

    def y(self, count: float) -> float:
        part = (log2(max(count, 1e-9)) - self.y_low) / (self.y_high - self.y_low)
        return FLOOR - max(0.0, min(1.0, part)) * (FLOOR - TOP)


def table(rows: CurveRows) -> Table:
    """One row a tile, then one a border of two levels."""
    columns = (
        "", "output tile", "elements", f"bytes {rows.farther} to {rows.level}",
        f"bytes held in {rows.level}", "has room", "tasks", "waves",
    )  # fmt: skip
    points: tuple[tuple[Cell, ...], ...] = tuple(
        (
            "on show" if n == rows.rank else "",
            p.tile,
            p.elements,
            p.traffic,
            p.footprint,
            "yes" if p.fits else "no",
            p.grid,
            p.waves,
        )
        for n, p in enumerate(rows.points)
    )
    levels: tuple[tuple[Cell, ...], ...] = tuple(
        ("", f"{m.farther} to {m.level}, the plan", "", m.after, _before_words(m), "", "", "")
        for m in rows.moved
    )
    found = (*points, *levels)
    return Table(columns, found, tuple(rows.ops for _ in found), caption(rows))


def _before_words(m: Moved) -> str:
    return "" if m.before is None else f"apart {m.before:,}"


def caption(rows: CurveRows) -> str:
    """Which curve, and where on it the plan on show lies."""
    fit_ = sum(p.fits for p in rows.points)
    text = f"{rows.group} on {rows.device}: {fit_} of {len(rows.points)} tiles have room"
    if rows.rank < 0:
        return text
    p = rows.points[rows.rank]
    return f"{text}; on show {p.tile}, {size_text(p.traffic)} from {rows.farther}"


def figure(rows: CurveRows, selected: str = "") -> Svg:
    """The curve at the left, the bytes of the levels at the right."""
    head = f"{path_end(rows.group)} on {rows.device}: traffic against the output tile"
    marks = [label(LEFT, 20, fit(head, (X1 - LEFT) / 1.07), "i w", title=head)]
    said = f"bytes between {_name(rows.farther)} and {_name(rows.level)}, all tasks; predicted"
    marks.append(label(LEFT, 36, fit(said, X1 - LEFT), "q", title=said))
    high = FLOOR + 62
    if rows.points:
        scale = _scale(rows)
        marks += [*_grid(scale), *_cut(rows, scale), *_curve(rows, scale), *_points(rows, scale)]
        marks += _legend(rows, FLOOR + 50)
    else:
        marks.append(label(X0, TOP + 20, "There is nothing to cut.", "i"))
    marks.append(path(f"M{MIDDLE - 12.5:g} 12V{high - 6:g}", "var(--line)"))
    found, y = bars(rows)
    high = max(high, y)
    return Svg(WIDTH, high, "".join([*marks, *found]), f"Tile curve: {caption(rows)}", selected)


def _name(level: str) -> str:
    return NAMES.get(level, level)


def _scale(rows: CurveRows) -> _Scale:
    """So that every point is inside, with a little room."""
    xs = [log2(max(1, p.elements)) for p in rows.points]
    ys = [log2(max(1, p.traffic)) for p in rows.points]
    x_low, x_high = min(xs) - 0.5, max(xs) + 0.5
    y_low, y_high = min(ys) - 0.4, max(ys) + 0.4
    return _Scale(x_low, max(x_high, x_low + 2), y_low, max(y_high, y_low + 1.5))


def ticks(low: float, high: float) -> list[int]:
    """Powers of two between two logarithms, as few as can be read."""
    first, last = ceil(low - 1e-9), floor(high + 1e-9)
    step = max(1, -(-(last - first + 1) // MOST_TICKS))
    return [p for p in range(first, last + 1) if p % step == 0]


def _grid(s: _Scale) -> Iterator[str]:
    for power in ticks(s.y_low, s.y_high):
        y = s.y(2.0**power)
        yield path(f"M{X0} {y:.1f}H{X1}", "var(--line)")
        yield label(X0 - 6, y + 4, size_text(2.0**power), "q", anchor="end")
    for power in ticks(s.x_low, s.x_high):
        x = s.x(2.0**power)
        yield path(f"M{x:.1f} {TOP}V{FLOOR}", "var(--line)")
        yield label(x, FLOOR + 14, count_text(2.0**power), "q", anchor="middle")
    yield path(f"M{X0} {TOP}V{FLOOR}H{X1}", "var(--ink2)")
    yield label(X1, FLOOR + 29, "elements of the output tile", anchor="end")


def count_text(count: float) -> str:
    """A number of elements, short."""
    for unit, step in (("M", 1 << 20), ("K", 1 << 10)):
        if count >= step:
            return f"{count / step:g}{unit}"
    return f"{count:g}"


def _cut(rows: CurveRows, s: _Scale) -> Iterator[str]:
    """Where no larger tile has room."""
    if not rows.cut:
        return
    x = s.x(rows.cut)
    yield rect(x, TOP, X1 - x, FLOOR - TOP, "url(#p-g-imbalance)", 'fill-opacity="0.5"')
    yield path(f"M{x:.1f} {TOP - 8}V{FLOOR}", "var(--bad)", 'stroke-dasharray="4 3"')
    room = f" {size_text(rows.capacity)}" if rows.capacity else ""
    said = f"room ends: {_name(rows.level)}{room}"
    anchor = "end" if x + text_width(said) + 4 > X1 else ""
    yield label(x + (-4 if anchor else 4), TOP - 6, said, "i", anchor=anchor)


def _curve(rows: CurveRows, s: _Scale) -> Iterator[str]:
    best = rows.frontier
    if len(best) > 1:
        d = "L".join(f"{s.x(p.elements):.1f} {s.y(p.traffic):.1f}" for p in best)
        yield path(f"M{d}", "var(--ink2)", 'stroke-width="1.4"')


def _points(rows: CurveRows, s: _Scale) -> Iterator[str]:
    """Each tile with room to point at; the one on show last."""
    order = sorted(range(len(rows.points)), key=lambda n: n == rows.rank)
    for n in order:
        p = rows.points[n]
        on = n == rows.rank
        x, y = s.x(p.elements), s.y(p.traffic)
        said = escape(point_words(rows, n), quote=True)
        focus = f'tabindex="0" role="button" aria-label="{said}"'
        near = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="8" fill="transparent"/>'
        yield f'<g data-rank="{n}" {focus}><title>{said}</title>{near}{_mark(p, x, y, on)}</g>'
    if rows.rank >= 0:
        yield from _shown(rows, s)


def _mark(p: Point, x: float, y: float, on: bool) -> str:
    if not p.fits:
        ring = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="7" fill="none" stroke="var(--accent)"/>'
        return cross(x, y, 3.5) + (ring if on else "")
    ink = "var(--accent)" if on else "var(--ink)"
    fill = "var(--accent)" if on else "var(--pane)"
    radius = 5.5 if on else 3.6
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{fill}" stroke="{ink}" '
        'stroke-width="1.4"/>'
    )


def _shown(rows: CurveRows, s: _Scale) -> Iterator[str]:
    """The tile on show in words beside its point, where there is room."""
    p = rows.points[rows.rank]
    x, y = s.x(p.elements), s.y(p.traffic)
    text = fit(f"{p.tile}, {size_text(p.traffic)}", 190)
    wide = text_width(text) * 1.07
    if x + 12 + wide <= X1 + 12:  # the curve falls: right above a point, and left below, is room
        left, top = x + 9, y - 9 if y - 20 > TOP else y + 18
    else:
        left, top = max(X0 + 4, x - 9 - wide), y + 18 if y + 22 < FLOOR else y - 9
    yield rect(left - 3, top - 11, wide + 6, 15, "var(--pane)", 'fill-opacity="0.9"')
    yield label(left, top, text, "a")


def _legend(rows: CurveRows, y: float) -> Iterator[str]:
    yield f'<circle cx="{LEFT + 5}" cy="{y - 4}" r="3.6" fill="var(--pane)" stroke="var(--ink)"/>'
    yield label(LEFT + 14, y, "a tile")
    yield (
        f'<circle cx="{LEFT + 62}" cy="{y - 4}" r="5" fill="var(--accent)" stroke="var(--accent)"/>'
    )
    yield label(LEFT + 72, y, "on show")
    yield cross(LEFT + 136, y - 4, 3.5)
    yield label(LEFT + 145, y, "has no room")
    yield path(f"M{LEFT + 226} {y - 4:g}h22", "var(--ink2)", 'stroke-width="1.4"')
    yield label(LEFT + 254, y, "the least of each size")


PICTURE = Picture(
    name="curve",
    title="Tile curve",
    words="Traffic against the size of the output tile, up to the tile that no longer fits.",
    stage=Stage.WELDED,
    family=GROUPS,
    about="kernel",
    draw=of_group(data, figure, table),
)
