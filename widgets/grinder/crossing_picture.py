"""The words of a loop's crossing point, and what is drawn below its chart."""

from __future__ import annotations

from collections.abc import Iterator
from math import log10

from explorer.ir.stage import Stage
from explorer.runtime.control.costs import Supposed
from explorer.runtime.control.way_times import Timed
from widgets.draw.svg import Svg, fit, label, rect, stepped, text_width, wrapped
from widgets.draw.table import Cell, Table, count_text, time_text
from widgets.grinder.crossing import MOST, CrossingRows, WayRow, at, data, sentence
from widgets.grinder.view import LOOPS, crossing, supposed_of
from widgets.model.on_show import OnShow
from widgets.model.picture import Drawn, Picture

WIDTH, LEFT, RIGHT = 780.0, 12.0, 768.0
NONE, X0, X1 = 92.0, 124.0, 632.0  # no trip, one, a million
RIBBON = 56.0  # which way is the fastest


def _x(trips: float) -> float:
    if trips < 1:
        return NONE
    return X0 + log10(trips) / log10(MOST) * (X1 - X0)


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
    return "; ".join((sentence(rows), _as_it_is(rows), *_known(rows)))


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
    """Below the chart: which way is the fastest from no trip to a million, and what each spends."""
    places = range(len(rows.counts))
    marks = [
        f'<g data-scrub="trips" data-first="{rows.first}"></g>',
        label(LEFT, 20, fit(sentence(rows), RIGHT - LEFT), "i w", title=sentence(rows)),
        label(LEFT, 36, fit(_as_it_is(rows), RIGHT - LEFT), "q", title=_as_it_is(rows)),
        *(_ground(rows, i) for i in places),
        *_ribbon(rows),
        *(_shown(rows, i) for i in places),
    ]
    y = RIBBON + 42
    named = [*(w.label for w in rows.ways), *(name for name, _ in rows.refused)]
    beside = LEFT + 12 + max(1.06 * text_width(name) for name in named)  # one may be bold
    room = RIGHT - beside
    for way in rows.ways:
        marks.append(label(LEFT, y, way.label, "i w" if way.chosen else "i"))
        marks += [label(beside, y + 14 * n, s) for n, s in enumerate(wrapped(_spent(way), room))]
        y += 16 + 14 * (len(wrapped(_spent(way), room)) - 1)
    for name, why in rows.refused:
        marks.append(label(LEFT, y, name, "q"))
        marks.append(label(beside, y, fit(f"no: {why}", room), "q", title=f"no: {why}"))
        y += 16
    y -= 10
    for line in _known(rows):
        y += 16
        marks.append(label(LEFT, y, fit(line, RIGHT - LEFT), "q", title=line))
    return Svg(WIDTH, y + 14, "".join(marks), f"Crossing point. {caption(rows)}")


def _as_it_is(rows: CrossingRows) -> str:
    way = next((w.label for w in rows.ways if w.chosen), "")
    if rows.trips is None:
        trips = "how many trips it makes only a run tells"
    else:
        named = f" ({rows.symbol})" if rows.symbol else ""
        trips = f"it makes {count_text(rows.trips, 'trip')}{named}"
    taken = f"compiled to go {way}, " if way else ""
    return f"predicted for {rows.device}; {taken}{trips}"


def _spent(way: WayRow) -> str:
    before = f"{_us(way.before_us)} before the first trip, " if way.before_us else ""
    parts = ", ".join(f"{name} {_us(us)}" for name, us in way.terms)
    told = ""
    if way.from_trips is not None:
        told = f"; less than on the host from {count_text(way.from_trips, 'trip')} on"
    return f"{before}{_us(way.trip_us)} a trip: {parts}{told}"


def _us(us: float) -> str:
    return time_text(us) if us >= 10 else f"{us:.2f} µs"


def timed_words(t: Timed) -> str:
    """What the clock said of a way."""
    return (
        f"{t.label}, {count_text(t.trips, 'trip')}: measured {_us(t.median_us)}, 99% interval "
        f"{_us(t.low_us)} to {_us(t.high_us)}, n = {t.n}"
    )


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
    box = rect(left, RIBBON - 8, right - left, 28, "transparent", 'class="ground"')
    name = count_text(rows.counts[i], "trip")
    return stepped(box, i, at(rows, i), name)


def _shown(rows: CrossingRows, i: int) -> str:
    """The mark at a count, while it is its turn."""
    x, hidden = _x(rows.counts[i]), 'class="only" visibility="hidden" pointer-events="none"'
    mark = f'<path d="M{x - 4:.1f} {RIBBON - 8:g}h8l-4 7z" fill="var(--accent)" {hidden}/>'
    return stepped(mark, i)


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
