"""The drawing and the words of the roofline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from explorer.ir.stage import Stage
from widgets.draw.svg import Svg, fit, label, path, rect, text_width
from widgets.draw.table import Table
from widgets.model.picture import Picture
from widgets.roller.roofline import Roof, RooflineRows, data, point_words
from widgets.roller.view import TILES, of_tile

WIDTH, LEFT, RIGHT = 780.0, 12.0, 768.0
X0, X1, TOP, FLOOR = 76.0, 660.0, 72.0, 372.0
SHAPES = ("circle", "square", "triangle", "diamond", "circle")  # by level, nearest first


@dataclass(frozen=True, slots=True)
class _Scale:
    """Decades of both axes."""

    x_low: float
    x_high: float
    y_low: float
    y_high: float

    def x(self, intensity: float) -> float:
        part = (log10(max(intensity, 1e-9)) - self.x_low) / (self.x_high - self.x_low)
        return X0 + part * (X1 - X0)

    def y(self, speed: float) -> float:
        part = (log10(max(speed, 1e-9)) - self.y_low) / (self.y_high - self.y_low)
        return FLOOR - part * (FLOOR - TOP)


def table(rows: RooflineRows) -> Table:
    """One row a tile."""
    columns = (
        "rank", "tile", "bound by", "operations a byte", "bound GFLOP/s", "modelled GFLOP/s",
        "measured GFLOP/s", "modelled µs", "measured µs", "n", "modelled over measured",
    )  # fmt: skip
    found = tuple(
        (
            n + 1,
            p.tile,
            p.level,
            p.intensity,
            p.bound,
            p.modelled,
            p.measured or "",
            p.modelled_us,
            p.measured_us or "",
            p.n or "",
            p.error or "",
        )
        for n, p in enumerate(rows.points)
    )
    return Table(columns, found, tuple(rows.ops for _ in found), caption(rows))


def caption(rows: RooflineRows) -> str:
    """Peak, and how far the model was off where the clock ran."""
    peaks = ", ".join(f"{_number(p)} GFLOP/s of {_units(u)}" for u, p in rows.peaks)
    text = f"{rows.kernel} on {rows.device}: {peaks}; {len(rows.points)} tiles modelled"
    if not rows.errors:
        return f"{text}, none measured" + (" yet" if rows.own else "")
    low, high = min(rows.errors), max(rows.errors)
    spread = f", {low:.2f} to {high:.2f}" if len(rows.errors) > 1 else ""
    return (
        f"{text}, {len(rows.errors)} measured: modelled over measured time {rows.error:.2f}{spread}"
    )


def _units(count: int) -> str:
    return "1 unit" if count == 1 else f"{count} units"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def figure(rows: RooflineRows) -> Svg:
    """Speed over operations a byte: roofs, then the points, the one on show over the others."""
    scale = _scale(rows)
    head, rest = caption(rows).split("; ", 1)
    marks = [label(LEFT, 20, fit(head, RIGHT - LEFT - 40), "i w", title=head)]
    marks.append(label(LEFT, 36, fit(rest, RIGHT - LEFT), "i" if rows.errors else "q", title=rest))
    marks += [*_grid(scale), *_roofs(rows, scale)]
    order = sorted(range(len(rows.points)), key=lambda n: n == rows.rank)
    named = _named(rows, scale)
    for n in order:
        drawn = "".join(_point(rows, n, scale, on=n == rows.rank, named=n in named))
        marks.append(f'<g data-rank="{n}">{drawn}</g>')
    marks += _legend(rows)
    return Svg(WIDTH, FLOOR + 84, "".join(marks), f"Roofline: {caption(rows)}")


def _scale(rows: RooflineRows) -> _Scale:
    """So that all points, the knees of their roofs and the peak are inside."""
    levels = {p.level for p in rows.points}
    peak = max((p for _, p in rows.peaks), default=1.0) or 1.0
    knees = [peak / r.gb_per_s for r in rows.roofs if r.level in levels and r.gb_per_s]
    xs = [p.intensity for p in rows.points] + knees or [1.0]
    speeds = [s for p in rows.points for s in (p.modelled, p.measured) if s > 0] + [peak]
    low, high = log10(min(xs) / 2), log10(max(xs) * 2)
    y_low = min(log10(min(speeds) / 2), log10(peak / 20))
    return _Scale(low, max(high, low + 1.5), y_low, log10(peak * 1.5))


def _ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times the powers of ten; the powers alone where there are many."""
    powers = range(floor(low), ceil(high) + 1)
    parts = (1, 2, 5) if high - low <= 2.6 else (1,)
    every = [m * 10.0**p for p in powers for m in parts]
    return [t for t in every if low - 1e-9 <= log10(t) <= high + 1e-9]


def _grid(s: _Scale) -> Iterator[str]:
    for tick in _ticks(s.x_low, s.x_high):
        x = s.x(tick)
        yield path(f"M{x:.1f} {TOP}V{FLOOR}", "var(--line)")
        yield label(x, FLOOR + 16, f"{tick:,g}", "q", anchor="middle")
    for tick in _ticks(s.y_low, s.y_high):
        y = s.y(tick)
        yield path(f"M{X0} {y:.1f}H{X1}", "var(--line)")
        yield label(X0 - 8, y + 4, f"{tick:,g}", "q", anchor="end")
    yield path(f"M{X0} {TOP}V{FLOOR}H{X1}", "var(--ink2)")
    yield label(LEFT, TOP - 8, "GFLOP/s", "q")
    text = "operations for each byte from the level that bounds the tile"
    yield label((X0 + X1) / 2, FLOOR + 32, text, "q", anchor="middle")


def _roofs(rows: RooflineRows, s: _Scale) -> Iterator[str]:
    """Each roof from where it enters up to its peak; its name stands at the right of its knee, or
    where it leaves.
    """
    peaks = dict(rows.peaks)
    most = max(peaks, default=1)
    names: list[tuple[float, str, str]] = []
    for r in rows.roofs:
        whole = r.units == most
        peak = peaks[r.units]
        d = _line(r, peak, s)
        if d is None:
            continue
        style = 'stroke-width="1.5"' if whole else 'stroke-dasharray="5 3"'
        yield path(d, "var(--ink)" if whole else "var(--ink3)", style)
        if whole:
            names.append(_name(r, peak, s))
    for units, peak in rows.peaks:
        y = s.y(peak)
        style = 'stroke-width="1.5"' if units == most else 'stroke-dasharray="5 3"'
        yield path(f"M{X0} {y:.1f}H{X1}", "var(--ink)" if units == most else "var(--ink3)", style)
        said = f"peak of {_units(units)}"
        yield label(X1 + 8, y - 1, said, "i" if units == most else "q")
        yield label(X1 + 8, y + 12, f"{_number(peak)} GFLOP/s", "q")
    yield from _names(names)


def _line(r: Roof, peak: float, s: _Scale) -> str | None:
    """The slanted part that is inside."""
    if r.gb_per_s <= 0:
        return None
    low, high = 10**s.x_low, min(peak / r.gb_per_s, 10**s.x_high)
    low = max(low, 10**s.y_low / r.gb_per_s)
    if low >= high:
        return None
    a, b = (s.x(low), s.y(low * r.gb_per_s)), (s.x(high), s.y(high * r.gb_per_s))
    return f"M{a[0]:.1f} {a[1]:.1f}L{b[0]:.1f} {b[1]:.1f}"


def _name(r: Roof, peak: float, s: _Scale) -> tuple[float, str, str]:
    """Where a roof enters at the left, or at the floor."""
    low = max(10**s.x_low, 10**s.y_low / r.gb_per_s)
    x = s.x(low)
    return s.y(low * r.gb_per_s) - 6 + 0 * peak, f"{r.level} {_number(r.gb_per_s)} GB/s", f"{x:.1f}"


def _names(names: Sequence[tuple[float, str, str]]) -> Iterator[str]:
    """Names of roofs, none over another."""
    last = 1e9
    for y, text, x in sorted(names, reverse=True):
        at = min(y, last - 14) if float(x) <= X0 + 1 else y
        left = float(x) + (5 if float(x) <= X0 + 1 else 12)
        wide = text_width(text) + 4
        yield rect(left - 2, at - 10, wide, 13, "var(--pane)", 'fill-opacity="0.85"')
        yield label(left, at, text, "i")
        last = at if float(x) <= X0 + 1 else last


def _point(rows: RooflineRows, n: int, s: _Scale, *, on: bool, named: bool) -> Iterator[str]:
    """A tile: outlined where the model puts it, filled where the clock does, joined by a line."""
    p = rows.points[n]
    x, y = s.x(p.intensity), s.y(p.modelled)
    order = list(dict.fromkeys(r.level for r in rows.roofs))
    shape = SHAPES[order.index(p.level) % len(SHAPES)] if p.level in order else SHAPES[0]
    ink = "var(--accent)" if on else "var(--ink)"
    yield f"<title>{point_words(p, n)}</title>"
    if p.measured:
        to = s.y(p.measured)
        yield path(f"M{x:.1f} {y:.1f}V{to:.1f}", ink)
        yield _mark(shape, x, to, ink, ink)
    yield _mark(shape, x, y, "var(--pane)", ink)
    if named:
        yield label(x + 8, y - 6, str(n + 1), "a" if on else "i")


def _named(rows: RooflineRows, s: _Scale) -> set[int]:
    """The points that have their rank beside them: the one on show, and others that are apart."""
    found: dict[int, tuple[float, float]] = {}
    for n in sorted(range(len(rows.points)), key=lambda n: n != rows.rank):
        x, y = s.x(rows.points[n].intensity), s.y(rows.points[n].modelled)
        if all(abs(x - a) > 18 or abs(y - b) > 13 for a, b in found.values()):
            found[n] = (x, y)
    return set(found)


def _mark(shape: str, x: float, y: float, fill: str, ink: str) -> str:
    style = f'fill="{fill}" stroke="{ink}" stroke-width="1.5"'
    match shape:
        case "square":
            return f'<path d="M{x - 4:.1f} {y - 4:.1f}h8v8h-8z" {style}/>'
        case "triangle":
            return f'<path d="M{x:.1f} {y - 5.5:.1f}l5 9h-10z" {style}/>'
        case "diamond":
            return f'<path d="M{x:.1f} {y - 6:.1f}l5 6l-5 6l-5 -6z" {style}/>'
        case _:
            return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" {style}/>'


def _legend(rows: RooflineRows) -> Iterator[str]:
    y = FLOOR + 60
    yield _mark("circle", LEFT + 6, y - 4, "var(--pane)", "var(--ink)")
    yield label(LEFT + 16, y, "modelled")
    yield _mark("circle", LEFT + 86, y - 4, "var(--ink)", "var(--ink)")
    yield label(LEFT + 96, y, "measured")
    x = LEFT + 168
    levels = list(dict.fromkeys(r.level for r in rows.roofs))
    for i, level in enumerate(levels):
        yield _mark(SHAPES[i % len(SHAPES)], x, y - 4, "var(--pane)", "var(--ink)")
        text = f"bound by {level}"
        yield label(x + 10, y, text)
        x += text_width(text) + 28
    if len(rows.peaks) > 1:
        yield path(f"M{LEFT} {y + 14:g}h24", "var(--ink)", 'stroke-width="1.5"')
        yield label(
            LEFT + 30, y + 18, f"roofs of {_units(rows.peaks[-1][0])}, as all load together"
        )
        yield path(f"M{LEFT + 244} {y + 14:g}h24", "var(--ink3)", 'stroke-dasharray="5 3"')
        yield label(LEFT + 274, y + 18, "of 1 unit alone")


PICTURE = Picture(
    name="roofline",
    title="Roofline",
    words="What each tile to choose from can reach under the device's compute and bandwidth.",
    stage=Stage.ROLLED,
    family=TILES,
    about="kernel",
    draw=of_tile(data, figure, table),
)
