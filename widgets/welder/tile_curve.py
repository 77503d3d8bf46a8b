"""Memory traffic by the size of the output tile, up to the capacity (Welder, section 3).

It also holds the bytes of every memory level before and after fusion.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log2, prod, sqrt

import plotly.graph_objects as go

from explorer.ir.decisions.tile_graph import GroupPlan
from explorer.ir.stage import Stage
from explorer.plain_text import counted
from explorer.welder.tiles.levels import memories
from explorer.welder.tiles.tile_costs import TileCost, holder
from widgets.draw.plots import colours, styled
from widgets.draw.slide import NARROW, PX, choice, cut_to, label_width
from widgets.draw.svg import Svg, label, path, rect
from widgets.draw.table import Cell, Mark, Sentence, Table, lit_by, size_text
from widgets.model.picture import Picture
from widgets.welder.view import GROUPS, WeldedGroup, level_name, of_group, short_name, tile_words

WORDS = "%{customdata}<extra></extra>"


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One tile of the curve.

    `elements` is the size of its output tile, `traffic` the bytes that all tasks move, and
    `footprint` the bytes that one task holds.
    """

    tile: str
    elements: int
    traffic: int
    footprint: int
    fits: bool
    grid: int
    waves: int


@dataclass(frozen=True, slots=True)
class Moved:
    """Bytes between a level and the next farther one, by separate kernels and by the group."""

    level: str
    farther: str
    before: int | None
    after: int


@dataclass(frozen=True, slots=True)
class CurveRows:
    """The curve of one group on one device; `level` holds a task's tile, `farther` feeds it.

    `cut` is between the largest tile that fits and the next larger one, 0 where all fit.
    """

    group: str
    device: str
    own: bool
    level: str
    farther: str
    capacity: int | None
    points: tuple[CurvePoint, ...]
    rank: int
    cut: float
    moved: tuple[Moved, ...]
    ops: tuple[str, ...]

    @property
    def frontier(self) -> tuple[CurvePoint, ...]:
        """The least traffic of each size that fits, small tiles first."""
        best: dict[int, CurvePoint] = {}
        for p in self.points:
            if p.fits and (p.elements not in best or p.traffic < best[p.elements].traffic):
                best[p.elements] = p
        return tuple(best[size] for size in sorted(best))


def data(welded: WeldedGroup) -> CurveRows:
    """Return the curve of a group and its bytes per level."""
    memory = holder(welded.device)
    names = [m.name for m in memories(welded.device)]
    full_sizes = _largest(welded.points)
    points = tuple(_curve_point(cost, full_sizes) for cost in welded.points)
    return CurveRows(
        welded.title,
        welded.device.name,
        welded.own,
        memory.name,
        names[min(names.index(memory.name) + 1, len(names) - 1)],
        memory.capacity,
        points,
        rank_of(welded),
        cut_off(points),
        tuple(moved(welded.plan, welded.apart)),
        welded.ops,
    )


def rank_of(welded: WeldedGroup) -> int:
    """Return the position of the current tile among the points, -1 if no point has it."""
    shown = dict(welded.plan.tile)
    return next((n for n, p in enumerate(welded.points) if dict(p.tile) == shown), -1)


def _largest(costs: Iterable[TileCost]) -> dict[str, int]:
    """Return the greatest size of each axis, which a tile that does not name the axis has."""
    sizes: dict[str, int] = {}
    for cost in costs:
        sizes |= {axis: max(size, sizes.get(axis, 0)) for axis, size in cost.tile}
    return sizes


def _curve_point(cost: TileCost, full_sizes: Mapping[str, int]) -> CurvePoint:
    return CurvePoint(
        tile_words(cost.tile),
        prod((dict(full_sizes) | dict(cost.tile)).values()),
        cost.traffic,
        cost.footprint,
        cost.valid,
        cost.grid,
        cost.waves,
    )


def cut_off(points: Sequence[CurvePoint]) -> float:
    """Return the size at which tiles no longer fit, in elements; 0 if no larger tile exists."""
    fit = [p.elements for p in points if p.fits]
    larger = [p.elements for p in points if p.elements > max(fit, default=0)]
    if not larger:
        return 0.0
    return sqrt(max(fit, default=min(larger) / 2) * min(larger))


def moved(plan: GroupPlan, apart: Sequence[GroupPlan]) -> Iterator[Moved]:
    """Yield the bytes between neighbouring levels, of separate kernels and of the group."""
    for near, far in zip(plan.levels, plan.levels[1:]):
        before = sum(m.traffic for p in apart for m in p.levels if m.level == near.level)
        yield Moved(near.level, far.level, before if apart else None, near.traffic)


def point_words(rows: CurveRows, n: int) -> str:
    """Describe a tile in a sentence."""
    p = rows.points[n]
    room = f" of {size_text(rows.capacity)}" if rows.capacity else ""
    return (
        f"tile {p.tile}: {size_text(p.traffic)} from {level_name(rows.farther)}, "
        f"{size_text(p.footprint)}{room} held in {level_name(rows.level)}"
        f"{'' if p.fits else ', does not fit'}, {p.grid:,} tasks in {p.waves:,} waves"
    )


Plot = tuple[float, float, float, float]  # left, top, right, bottom


def see(rows: CurveRows) -> tuple[Sentence, ...]:
    """Return the key sentences: the tiles that fit, the current one, and the saving of fusion."""
    fits, level = sum(p.fits for p in rows.points), level_name(rows.level)
    sentences: list[Sentence] = [
        (Mark(f"{fits} of {counted(len(rows.points), 'tile')}", "fits"), f" fit in {level}.")
    ]
    if rows.rank >= 0:
        p = rows.points[rows.rank]
        moved = size_text(p.traffic)
        sentences.append(("The current tile, ", Mark(p.tile, "current"), f", moves {moved}."))
    last = rows.moved[-1] if rows.moved else None
    if last is not None and last.before is not None:
        sentences.append(
            ("Memory traffic: ", Mark(size_text(last.after), "moved"),
             f" instead of {size_text(last.before)}.")
        )  # fmt: skip
    return tuple(sentences)


def table(rows: CurveRows) -> Table:
    """Return one row per tile, then one per pair of neighbouring levels."""
    columns = (
        "", "output tile", "elements", f"bytes {rows.farther} to {rows.level}",
        f"bytes held in {rows.level}", "fits", "tasks", "waves",
    )  # fmt: skip
    points: tuple[tuple[Cell, ...], ...] = tuple(
        (
            "current" if n == rows.rank else "",
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
    cells = (*points, *levels)
    return Table(columns, cells, tuple(rows.ops for _ in cells), caption(rows), see(rows))


def _before_words(m: Moved) -> str:
    return "" if m.before is None else f"apart {m.before:,}"


def caption(rows: CurveRows) -> str:
    """Describe the curve, and the position of the current plan on it."""
    fits = sum(p.fits for p in rows.points)
    text = f"{rows.group} on {rows.device}: {fits} of {len(rows.points)} tiles fit"
    if rows.rank < 0:
        return text
    p = rows.points[rows.rank]
    return f"{text}; current {p.tile}, {size_text(p.traffic)} from {rows.farther}"


def figure(rows: CurveRows, size: tuple[int, int], selected: str = "") -> Svg:
    """Draw the curve, with the bytes of the levels next to it, or below on a narrow page."""
    w, h = size
    low = 60.0 + 44 * len(rows.moved)
    if w < NARROW and h < low + 220:
        marks = [*_curve(rows, (64, 30, w - 12.0, h - 52.0))]
    elif w < NARROW:
        marks = [*_curve(rows, (64, 30, w - 12.0, h - low - 56)), *_bars(rows, 0, h - low + 16, w)]
    else:
        part = round(w * 0.36)
        marks = [*_curve(rows, (72, 30, w - part - 40.0, h - 52.0)), *_bars(rows, w - part, 18, w)]
    return Svg(w, h, "".join(marks), f"Tile curve: {caption(rows)}", selected, PX)


def _curve(rows: CurveRows, at: Plot) -> Iterator[str]:
    left, top, right, bottom = at
    if not rows.points:
        yield label(left, top, "No tile divides this kernel.", "i")
        return
    xs, ys = [p.elements for p in rows.points], [max(1, p.traffic) for p in rows.points]
    x_axis, y_axis = _Log(xs, left + 10, right - 10), _Log(ys, bottom - 10, top + 14)
    for n in x_axis.ticks(88):
        yield path(f"M{x_axis(n):.1f} {top:g}V{bottom:g}", "var(--line)")
        yield label(x_axis(n), bottom + 18, f"{n:,}", anchor="middle")
    for n in y_axis.ticks(44):
        yield path(f"M{left:g} {y_axis(n):.1f}H{right:g}", "var(--line)")
        yield label(left - 6, y_axis(n) + 4, size_text(n), anchor="end")
    yield path(f"M{left:g} {top:g}V{bottom:g}H{right:g}", "var(--edge)")
    room = right - left + 60
    axis_title = f"traffic of {level_name(rows.farther)} to {level_name(rows.level)}, predicted"
    yield label(left - 60, 14, cut_to(axis_title, room), title=axis_title)
    axis_title = "elements of the output tile"
    axis_title = axis_title if label_width(axis_title) < right - left - 150 else "elements"
    yield label(right, bottom + 38, axis_title, anchor="end")
    if rows.cut:
        yield from _capacity(rows, x_axis(rows.cut), at)
    best = [(x_axis(p.elements), y_axis(max(1, p.traffic))) for p in rows.frontier]
    if best:
        d = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in best)
        yield path(d, "var(--ink2)", 'stroke-width="2" stroke-linejoin="round"')
    order = sorted(range(len(rows.points)), key=lambda n: n == rows.rank)
    for n in order:
        p = rows.points[n]
        yield _point(rows, n, x_axis(p.elements), y_axis(max(1, p.traffic)))
    yield from _legend(bottom + 38, left)


def _capacity(rows: CurveRows, x: float, at: Plot) -> Iterator[str]:
    left, top, right, _ = at
    size = f" {size_text(rows.capacity)}" if rows.capacity else ""
    full = f"capacity of {level_name(rows.level)}:{size}"
    texts = (full, f"capacity:{size}", size.strip(), "")
    available = max(x - 8 - left, right - x - 8)
    text = next(t for t in texts if label_width(t, bold=True) <= available)
    body = path(f"M{x:.1f} {top:g}V{at[3]:g}", "var(--bad)", 'stroke-dasharray="5 4"')
    end = x - 8 >= left + label_width(text, bold=True)
    at_x = x - 6 if end else x + 6
    width = label_width(text, bold=True)
    body += rect((at_x - width if end else at_x) - 2, top - 2, width + 4, 18, "var(--pane)")
    body += label(at_x, top + 12, text, "bad", anchor="end" if end else "", title=full)
    yield lit_by(body, "capacity")


def _point(rows: CurveRows, n: int, x: float, y: float) -> str:
    p, description = rows.points[n], point_words(rows, n)
    keys = f"{'fits' if p.fits else 'not'}{' current' * (n == rows.rank)}"
    target = rect(x - 9, y - 9, 18, 18, "transparent", title=description)
    if n == rows.rank:
        mark = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6.5" fill="var(--accent)"/>'
    elif p.fits:
        mark = (
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="var(--pane)" stroke="var(--ink)" '
            'stroke-width="1.5"/>'
        )
    else:
        d = f"M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8"
        mark = path(d, "var(--bad)", 'stroke-width="1.5"')
    on = n == max(0, rows.rank)
    return choice(lit_by(mark + target, keys), n, description, on=on)


def _legend(y: float, x: float) -> Iterator[str]:
    ring = 'fill="var(--pane)" stroke="var(--ink)" stroke-width="1.5"'
    yield lit_by(
        f'<circle cx="{x + 5:g}" cy="{y - 5:g}" r="4.5" {ring}/>' + label(x + 15, y, "fits"), "fits"
    )
    x += 52
    body = path(f"M{x + 1:g} {y - 9:g}l8 8m0 -8l-8 8", "var(--bad)", 'stroke-width="1.5"')
    yield lit_by(body + label(x + 15, y, "does not"), "not")


def _bars(rows: CurveRows, x: float, y: float, right: float) -> Iterator[str]:
    """Draw the bytes between neighbouring levels: separate kernels outlined, fused ones filled."""
    yield label(x, y, "Bytes between levels", "w i")
    legend = "outlined: one kernel per operator; filled: fused"
    yield label(
        x,
        y + 20,
        legend if label_width(legend) <= right - x else "outlined: apart; filled: fused",
        title=legend,
    )
    shown = [*reversed(rows.moved)]
    most = max((n or 0 for m in shown for n in (m.before, m.after)), default=1) or 1
    y += 48
    for m in shown:
        after = size_text(m.after)
        words = f"{size_text(m.before)} → {after}" if m.before is not None else after
        name = f"{level_name(m.farther)} ↔ {level_name(m.level)}"
        if label_width(name) + label_width(words) + 8 > right - x:
            name = f"{short_name(m.farther)} ↔ {short_name(m.level)}"
        body = label(x, y, name, "i")
        body += label(right, y, words, "i", anchor="end")
        room = right - x - 2
        if m.before is not None:
            edge = 'stroke="var(--ink3)"'
            body += rect(x + 1, y + 7, max(1.0, room * m.before / most), 14, "none", edge)
        body += rect(x + 1, y + 10, max(1.0, room * m.after / most), 8, "var(--ink2)")
        yield lit_by(body, "moved" if m is shown[0] else "level")
        y += 44


class _Log:
    """A logarithmic axis between two pixels."""

    def __init__(self, values: list[int], start: float, end: float) -> None:
        """Span the powers of two around `values` from pixel `start` to `end`."""
        self.low, self.high = floor(log2(min(values))), max(ceil(log2(max(values))), 1)
        self.high = max(self.high, self.low + 1)
        self.start, self.end = start, end

    def __call__(self, value: float) -> float:
        """Return the pixel of a value."""
        share = (log2(value) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self, apart: float) -> list[int]:
        """Return powers of two, at least `apart` pixels from each other."""
        step = max(1, ceil(apart * (self.high - self.low) / abs(self.end - self.start)))
        return [1 << n for n in range(max(0, self.low), self.high + 1, step)]


def chart(rows: CurveRows, title: str, theme: str) -> go.Figure:
    """Draw the bytes that all tasks move over the elements of the output tile, both logarithmic.

    The tiles that fit, those that do not, the least of each size, and the end of the capacity.
    """
    c, figure = colours(theme), go.Figure()
    best = rows.frontier
    figure.add_scatter(
        x=[p.elements for p in best],
        y=[p.traffic for p in best],
        name="the least of each size",
        mode="lines",
        line={"color": c["ink2"], "width": 1.4},
        hoverinfo="skip",
    )
    fits = [n for n, p in enumerate(rows.points) if p.fits]
    others = [n for n, p in enumerate(rows.points) if not p.fits]
    _points(figure, rows, fits, "fits", {"symbol": "circle-open", "color": c["ink"], "size": 8})
    bad = {"symbol": "x-thin-open", "color": c["bad"], "size": 8}
    _points(figure, rows, others, "does not fit", bad)
    on = {"symbol": "circle", "color": c["accent"], "size": 12}
    _points(figure, rows, [rows.rank] if rows.rank >= 0 else [], "current", on)
    if rows.cut:
        room = f", {size_text(rows.capacity)}" if rows.capacity else ""
        line_name = f"capacity of {rows.level}{room}"
        moved = [p.traffic for p in rows.points]
        figure.add_scatter(
            x=[rows.cut] * 2,
            y=[min(moved), max(moved)],
            name=line_name,
            mode="lines",
            line={"color": c["bad"], "width": 1.4, "dash": "dash"},
            customdata=[line_name] * 2,
            hovertemplate=WORDS,
        )
    figure.update_xaxes(title="size of the output tile (elements)", type="log")
    figure.update_yaxes(
        title=f"traffic of {rows.farther} to {rows.level} (bytes), predicted",
        type="log",
    )
    return styled(figure, theme, title, 460)


def _points(
    figure: go.Figure, rows: CurveRows, shown: list[int], name: str, marker: dict[str, object]
) -> None:
    if shown:
        figure.add_scatter(
            x=[rows.points[n].elements for n in shown],
            y=[rows.points[n].traffic for n in shown],
            name=name,
            mode="markers",
            marker=marker,
            customdata=[point_words(rows, n) for n in shown],
            meta={"take": [{"rank": n} for n in shown]},
            hovertemplate=WORDS,
        )


PICTURE = Picture(
    name="curve",
    title="Tile curve",
    words="Traffic against the size of the output tile, up to the tile that no longer fits.",
    stage=Stage.WELDED,
    family=GROUPS,
    about="kernel",
    draw=of_group(data, figure, table),
    chart=chart,
)
