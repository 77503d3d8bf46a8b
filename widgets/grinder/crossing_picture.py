"""The drawing and the words of a loop's crossing point."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, floor, log10

from explorer.ir.stage import Stage
from explorer.runtime.control.costs import Supposed
from widgets.draw.svg import Svg, fit, label, path, rect, stepped, text_width
from widgets.draw.table import Cell, Table, time_text
from widgets.grinder.crossing import MOST, CrossingRows, WayRow, at, counted, data, sentence
from widgets.grinder.view import LOOPS, crossing, supposed_of
from widgets.model.on_show import OnShow
from widgets.model.picture import Drawn, Picture

WIDTH, LEFT, RIGHT = 780.0, 12.0, 768.0
NONE, X0, X1 = 92.0, 124.0, 632.0  # no trip, one, a million
TOP, FLOOR = 64.0, 264.0  # of the times
ABOVE, BELOW = 306.0, 388.0  # of the shares of the least
RIBBON = 402.0  # which way is the least
FARTHEST = 30.0  # so many times the least is the highest that is drawn
LINES = (  # from the host, in the program, and unrolled by more and more
    ("square", 'stroke-width="1.4" stroke-dasharray="6 3"'),
    ("circle", 'stroke-width="2.2"'),
    ("triangle", 'stroke-width="1.2"'),
    ("diamond", 'stroke-width="1.2" stroke-dasharray="2 2"'),
    ("cross", 'stroke-width="1.2" stroke-dasharray="8 2 2 2"'),
)


def _x(trips: float) -> float:
    if trips < 1:
        return NONE
    return X0 + log10(trips) / log10(MOST) * (X1 - X0)


@dataclass(frozen=True, slots=True)
class _Scale:
    """Decades of time, in microseconds."""

    low: int
    high: int

    def y(self, us: float) -> float:
        part = (log10(max(us, 10.0**self.low)) - self.low) / (self.high - self.low)
        return FLOOR - part * (FLOOR - TOP)


def _share(times: float) -> float:
    part = log10(min(max(times, 1.0), FARTHEST)) / log10(FARTHEST)
    return BELOW - part * (BELOW - ABOVE)


def table(rows: CrossingRows) -> Table:
    """One row a count of trips: what each way should take, the fastest, and what was timed."""
    labels = [w.label for w in rows.ways]
    columns = ("trips", *(f"{name} µs" for name in labels), "least")
    found: list[tuple[Cell, ...]] = [
        (n, *(w.times_us[i] for w in rows.ways), labels[rows.least[i]])
        for i, n in enumerate(rows.counts)
    ]
    timed = sorted({t.trips for t in rows.timed})
    for n in timed:
        us = {t.label: t.median_us for t in rows.timed if t.trips == n}
        best = min(us, key=lambda name: us[name])
        found.append((n, *(us.get(name, "") for name in labels), f"{best}, measured"))
    return Table(columns, tuple(found), tuple(rows.ops for _ in found), caption(rows))


def caption(rows: CrossingRows) -> str:
    """Where the ways cross, whose times these are, and what stands between kernels."""
    return "; ".join((sentence(rows), f"predicted for {rows.device}", *_known(rows)))


def _known(rows: CrossingRows) -> Iterator[str]:
    """What the times were predicted from, and what was timed, a line each."""
    k = rows.constants
    source = "as supposed here" if rows.supposed else k.source
    yield f"a launch {k.launch_us:g} µs, a barrier of all units {k.barrier_us:g} µs ({source})"
    copy_us, look_us = k.python.copy_us, k.python.look_us
    yield f"a copy from Python {copy_us:g} µs, its look at a scalar {look_us:g} µs"
    if rows.timed:
        counts = sorted({t.trips for t in rows.timed})
        yield f"timed on this machine with {', '.join(f'{n:,}' for n in counts)} trips"


def figure(rows: CrossingRows) -> Svg:
    """Above, the time against the trips; below, the same over that of the fastest way, and which
    one that is.
    """
    scale, places = _scale(rows), range(len(rows.counts))
    marks = [
        f'<g data-scrub="trips" data-first="{rows.first}"></g>',
        label(LEFT, 20, fit(sentence(rows), RIGHT - LEFT), "i w", title=sentence(rows)),
        label(LEFT, 36, fit(_as_it_is(rows), RIGHT - LEFT), "q", title=_as_it_is(rows)),
        *(_ground(rows, i) for i in places),
        *_grid(scale),
        *_own(rows),
    ]
    for n, way in enumerate(rows.ways):
        marks += _way(rows, n, way, scale)
    marks += [*_names(rows, scale), *_points(rows, scale), *_ribbon(rows)]
    marks += [_shown(rows, i, scale) for i in places]
    y = RIBBON + 62
    marks += _legend(rows, y)
    for n, way in enumerate(rows.ways):
        y += 16
        shape, style = _line(n)
        marks.append(path(f"M{LEFT} {y - 4:g}h22", "var(--ink)", style))
        marks.append(_mark(shape, LEFT + 11, y - 4, "var(--pane)"))
        marks.append(label(LEFT + 30, y, way.label, "i w" if way.chosen else "i"))
        marks.append(label(LEFT + 136, y, fit(_spent(way), RIGHT - LEFT - 136)))
    for name, why in rows.refused:
        y += 16
        marks.append(label(LEFT + 30, y, name, "q"))
        marks.append(label(LEFT + 136, y, fit(f"no: {why}", 620), "q", title=f"no: {why}"))
    y += 6
    for line in _known(rows):
        y += 16
        marks.append(label(LEFT, y, fit(line, RIGHT - LEFT), "q", title=line))
    return Svg(WIDTH, y + 14, "".join(marks), f"Crossing point. {caption(rows)}")


def _line(n: int) -> tuple[str, str]:
    """The mark and the line of a way, by its place."""
    return LINES[min(n, len(LINES) - 1)]


def _as_it_is(rows: CrossingRows) -> str:
    way = next((w.label for w in rows.ways if w.chosen), "")
    if rows.trips is None:
        trips = "how many trips it makes only a run tells"
    else:
        named = f" ({rows.symbol})" if rows.symbol else ""
        trips = f"it makes {counted(rows.trips)}{named}"
    taken = f"compiled to go {way}, " if way else ""
    return f"predicted for {rows.device}; {taken}{trips}"


def _spent(way: WayRow) -> str:
    before = f"{_us(way.before_us)} before the first trip, " if way.before_us else ""
    parts = ", ".join(f"{name} {_us(us)}" for name, us in way.terms)
    told = ""
    if way.from_trips is not None:
        told = f"; less than on the host from {counted(way.from_trips)} on"
    return f"{before}{_us(way.trip_us)} a trip: {parts}{told}"


def _us(us: float) -> str:
    return time_text(us) if us >= 10 else f"{us:.2f} µs"


def _scale(rows: CrossingRows) -> _Scale:
    """So that all times are inside but the least, which is no time at all."""
    spent = [us for w in rows.ways for us in w.times_us if us > 0]
    spent += [t.median_us for t in rows.timed if t.median_us > 0.05] or [1.0]
    low, high = floor(log10(min(spent))), ceil(log10(max(spent)))
    return _Scale(low, max(high, low + 1))


def _grid(s: _Scale) -> Iterator[str]:
    for n in (0, *(10**p for p in range(7))):
        x = _x(n)
        yield path(f"M{x:.1f} {TOP}V{FLOOR}M{x:.1f} {ABOVE}V{BELOW}", "var(--line)")
        yield label(x, BELOW + 52, f"{n:,}", "q", anchor="middle")
    yield label(X1 + 40, BELOW + 52, "trips", "q")
    every = 1 if s.high - s.low <= 8 else 2
    for power in range(s.low, s.high + 1):
        y = s.y(10.0**power)
        yield path(f"M{NONE} {y:.1f}H{X1}", "var(--line)")
        if (power - s.low) % every == 0:
            yield label(NONE - 12, y + 4, _decade(power), "q", anchor="end")
    yield path(f"M{NONE} {TOP}V{FLOOR}H{X1}M{NONE} {ABOVE}V{BELOW}H{X1}", "var(--ink2)")
    for y in (FLOOR, BELOW):  # between none and one the axis is cut
        yield rect(106, y - 3, 5, 6, "var(--pane)")
        yield path(f"M104 {y + 4:g}l5 -8M108.5 {y + 4:g}l5 -8", "var(--ink2)")
    yield label(LEFT, TOP - 10, "time of the loop", "i w")
    yield label(LEFT, ABOVE - 12, "over that of the fastest way", "i w")
    for times in (1, 3, 10, 30):
        y = _share(times)
        yield path(f"M{NONE} {y:.1f}H{X1}", "var(--line)")
        yield label(NONE - 12, y + 4, f"{times}×", "q", anchor="end")


def _decade(power: int) -> str:
    for unit, step in (("s", 6), ("ms", 3), ("µs", 0), ("ns", -3)):
        if power >= step:
            return f"{10 ** (power - step):,} {unit}"
    return f"{10.0**power:g} µs"


def _own(rows: CrossingRows) -> Iterator[str]:
    """The trips that it makes, and where another way becomes the fastest."""
    for n in rows.meets:
        yield path(f"M{_x(n):.1f} {ABOVE}V{RIBBON + 16}", "var(--ink2)", 'stroke-dasharray="2 2"')
    if rows.trips is not None:
        x = _x(min(rows.trips, MOST))
        yield path(f"M{x:.1f} {TOP - 4}V{RIBBON + 16}", "var(--ink)")
        yield label(x, TOP - 8, f"as it runs: {counted(rows.trips)}", "i", anchor="middle")


def _way(rows: CrossingRows, n: int, way: WayRow, s: _Scale) -> Iterator[str]:
    """A way's two lines, from one trip on; no trip is a mark of its own."""
    shape, style = _line(n)
    fastest = [rows.ways[k].times_us[i] for i, k in enumerate(rows.least)]
    times = [(c, us) for c, us in zip(rows.counts, way.times_us) if c]
    yield path("M" + "L".join(f"{_x(c):.1f} {s.y(us):.1f}" for c, us in times), "var(--ink)", style)
    shares = [(c, us / best) for c, us, best in zip(rows.counts, way.times_us, fastest) if c]
    far = "M" + "L".join(f"{_x(c):.1f} {_share(share):.1f}" for c, share in shares)
    yield path(far, "var(--ink)", style)
    if not rows.counts[0] and way.times_us[0] > 0:
        yield _mark(shape, NONE, s.y(way.times_us[0]), "var(--pane)")


def _names(rows: CrossingRows, s: _Scale) -> Iterator[str]:
    """The names of the ways at the ends of their lines, none over another."""
    for top, y in ((True, s.y), (False, _share)):
        last = -1e9
        best = rows.ways[rows.least[-1]].times_us[-1]
        ends = [(y(w.times_us[-1] if top else w.times_us[-1] / best), w) for w in rows.ways]
        lowest = FLOOR if top else BELOW
        ends.sort(key=lambda end: end[0])
        for i, (here, way) in enumerate(ends):
            below = 14 * (len(ends) - 1 - i)
            where = max(last + 14, min(here, lowest + 8 - below))
            yield path(f"M{X1 + 2} {here:.1f}L{X1 + 12} {where:.1f}", "var(--edge)")
            style = "i w" if way.chosen else "i"
            yield label(X1 + 16, where + 4, fit(way.label, RIGHT - X1 - 16), style)
            last = where


def _points(rows: CrossingRows, s: _Scale) -> Iterator[str]:
    """What was timed: filled, with its interval."""
    places = {w.label: n for n, w in enumerate(rows.ways)}
    for t in rows.timed:
        n = places[t.label]
        beside = 4 * (n - (len(rows.ways) - 1) / 2)  # what is alike stands beside each other
        x, y = _x(t.trips) + beside, s.y(t.median_us)
        said = (
            f"{t.label}, {counted(t.trips)}: measured {_us(t.median_us)}, 99% interval "
            f"{_us(t.low_us)} to {_us(t.high_us)}, n = {t.n}"
        )
        bar = path(f"M{x:.1f} {s.y(t.low_us):.1f}V{s.y(t.high_us):.1f}", "var(--ink)")
        yield f"<g><title>{said}</title>{bar}{_mark(_line(n)[0], x, y, 'var(--ink)')}</g>"


def _ribbon(rows: CrossingRows) -> Iterator[str]:
    """Which way is the fastest, from no trip to a million."""
    yield label(LEFT, RIBBON + 12, "the fastest", "q")
    begin = 0
    for i in range(1, len(rows.counts) + 1):
        if i < len(rows.counts) and rows.least[i] == rows.least[begin]:
            continue
        x = NONE - 8 if begin == 0 else _x(rows.counts[begin])
        end = X1 + 8 if i == len(rows.counts) else _x(rows.counts[i])
        way = rows.ways[rows.least[begin]].label
        until = "on" if i == len(rows.counts) else f"to {rows.counts[i] - 1:,}"
        said = f"{way}: from {rows.counts[begin]:,} trips {until}"
        level = "v0" if rows.least[begin] == 0 else "v1"
        edge = 'stroke="var(--line2)"'
        yield rect(x, RIBBON, end - x, 17, f"var(--{level})", edge, title=said)
        if text_width(way) < end - x - 4:
            yield label((x + end) / 2, RIBBON + 12, way, "i", anchor="middle", title=said)
        begin = i


def _ground(rows: CrossingRows, i: int) -> str:
    """What lights up behind a count when it is its turn, and what is then said."""
    x = _x(rows.counts[i])
    before = _x(rows.counts[i - 1]) if i else NONE - 16
    after = _x(rows.counts[i + 1]) if i + 1 < len(rows.counts) else X1 + 16
    left, right = (before + x) / 2, (x + after) / 2
    box = rect(left, TOP, right - left, RIBBON + 17 - TOP, "transparent", 'class="ground"')
    name = counted(rows.counts[i])
    return stepped(box, i, at(rows, i), name)


def _shown(rows: CrossingRows, i: int, s: _Scale) -> str:
    """The marks on the lines at a count, while it is its turn."""
    x, hidden = _x(rows.counts[i]), 'class="only" visibility="hidden" pointer-events="none"'
    ways = ((_line(n)[0], s.y(way.times_us[i])) for n, way in enumerate(rows.ways))
    return stepped("".join(_mark(shape, x, y, "var(--accent)", hidden) for shape, y in ways), i)


def _legend(rows: CrossingRows, y: float) -> Iterator[str]:
    yield path(f"M{LEFT} {y - 4:g}h22", "var(--ink)", 'stroke-width="1.4"')
    yield label(LEFT + 30, y, "predicted")
    yield _mark("circle", LEFT + 111, y - 4, "var(--ink)")
    told = "measured here, with its 99% interval" if rows.timed else "measured: not asked for yet"
    yield label(LEFT + 121, y, told)
    if any(way.chosen for way in rows.ways):
        yield label(RIGHT, y, "bold: as it was compiled", "q", anchor="end")


def _mark(shape: str, x: float, y: float, fill: str, extra: str = "") -> str:
    style = f'fill="{fill}" stroke="var(--ink)" stroke-width="1.2" {extra}'
    match shape:
        case "square":
            return f'<path d="M{x - 3.5:.1f} {y - 3.5:.1f}h7v7h-7z" {style}/>'
        case "triangle":
            return f'<path d="M{x:.1f} {y - 5:.1f}l4.5 8h-9z" {style}/>'
        case "diamond":
            return f'<path d="M{x:.1f} {y - 5:.1f}l4.5 5l-4.5 5l-4.5 -5z" {style}/>'
        case "cross":
            d = f"M{x - 1.5:.1f} {y - 4.5:.1f}h3v3h3v3h-3v3h-3v-3h-3v-3h3z"
            return f'<path d="{d}" {style}/>'
        case _:
            return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" {style}/>'


def _draw(s: OnShow, op: str) -> Drawn:
    found = crossing(s, op)
    if found is None:
        return _none()
    rows = data(found, s.now.compiled.device.name, supposed_of(s) != Supposed())
    return rows, figure(rows), table(rows)


def _none() -> Drawn:
    """A program without a loop."""
    chapter = "notebooks/09_control_flow.ipynb"
    words = f"No loop whose sizes are known before a run. Open {chapter} for some."
    drawing = Svg(WIDTH, 40, label(LEFT, 24, words, "i"), words)
    return (), drawing, Table(("loop",), (("none",),), ((),), words)


PICTURE = Picture(
    name="crossing",
    title="Crossing point",
    words="What a loop takes by the number of its trips: by the host, in the program, unrolled.",
    stage=Stage.TASKED,
    family=LOOPS,
    draw=_draw,
)
