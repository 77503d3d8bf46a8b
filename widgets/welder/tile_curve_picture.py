"""Drawing and text of the tile curve, with the bytes of every level next to it."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, floor, log2

from explorer.ir.stage import Stage
from widgets.draw.see import Mark, Sentence, lit_by
from widgets.draw.slide import NARROW, PX, choice, cut_to, label_width
from widgets.draw.svg import Svg, label, path, rect
from widgets.draw.table import Cell, Table, count_text, size_text
from widgets.model.picture import Picture
from widgets.welder.tile_curve import CurveRows, Moved, data, point_words
from widgets.welder.view import GROUPS, of_group
from widgets.welder.welded_group import level_name, short_name

Plot = tuple[float, float, float, float]  # left, top, right, bottom


def see(rows: CurveRows) -> tuple[Sentence, ...]:
    """Return the key sentences: the tiles that fit, the current one, and the saving of fusion."""
    fits, level = sum(p.fits for p in rows.points), level_name(rows.level)
    sentences: list[Sentence] = [
        (Mark(f"{fits} of {count_text(len(rows.points), 'tile')}", "fits"), f" fit in {level}.")
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


PICTURE = Picture(
    name="curve",
    title="Tile curve",
    words="Traffic against the size of the output tile, up to the tile that no longer fits.",
    stage=Stage.WELDED,
    family=GROUPS,
    about="kernel",
    draw=of_group(data, figure, table),
)
