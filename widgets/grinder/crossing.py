"""The schedules of a loop by trip count: their times, crossing points, and their drawn ratios.

Times are predicted, with measurements where there are any. They are drawn relative to the host.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log10

from explorer.plain_text import counted
from explorer.runtime.planning.schedule_times import (
    Crossing,
    CrossingConstants,
    ScheduleTime,
    TimedSchedule,
)
from widgets.draw.svg import fit, label, path, rect, step_group, text_width, wrap_text
from widgets.draw.table import lit_by, time_text

MOST = 10**6  # trips
HOST, PROGRAM = "on the host", "in the program"
PX, AXIS, LINE = 13, 56.0, 18.0
LINE_STYLES = (  # dash and width: on the host, in the program, then the others
    ("6 4", 2.0),
    ("", 2.5),
    ("2 3", 1.8),
    ("8 3 2 3", 1.8),
    ("12 4", 1.8),
    ("", 1.2),
)
WIDEST = 100.0  # ratio to the host's time, and its inverse, beyond which the axis ends
RIBBON = 20.0


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """The predicted times of one schedule at each trip count, in microseconds.

    `before_us` is spent before the first trip; `terms` are the costs of a trip of a full unrolled
    iteration. From `from_trips` trips on it is faster than the host (None: never).
    """

    label: str
    times_us: tuple[float, ...]
    before_us: float
    trip_us: float
    terms: tuple[tuple[str, float], ...]
    from_trips: int | None = None
    chosen: bool = False


@dataclass(frozen=True, slots=True)
class CrossingRows:
    """The schedules of a loop at `counts` trips.

    `least` is the position of the fastest schedule at each count. `trips` is the loop's own trip
    count, None if only a run can tell; the fastest schedule changes at `crossing_counts`.
    """

    loop: str
    device: str
    supposed: bool
    counts: tuple[int, ...]
    schedules: tuple[ScheduleRow, ...]
    least: tuple[int, ...]
    refused: tuple[tuple[str, str], ...]
    trips: int | None
    symbol: str
    constants: CrossingConstants
    timed: tuple[TimedSchedule, ...]
    ops: tuple[str, ...]

    @property
    def first(self) -> int:
        """The initial position of the scrubber: the loop's own trip count, else 1,000."""
        return self.counts.index(1000 if self.trips is None else min(self.trips, MOST))

    @property
    def crossing_counts(self) -> tuple[int, ...]:
        """The counts at which the fastest schedule differs from that of the count before."""
        pairs = zip(self.counts[1:], self.least, self.least[1:])
        return tuple(n for n, a, b in pairs if a != b)


def data(loop: Crossing, device: str, supposed: bool = False) -> CrossingRows:
    """Return the rows of one loop."""
    host = loop.find(HOST)
    schedules = loop.open
    overtaking = {w.label: None if w is host else w.overtakes(host) for w in schedules}
    marks = [n for _, _, n in loop.overtaking()]
    counts = tuple(sorted({*_usual(), *(n for n in marks if n <= MOST), *_own_trips(loop)}))
    rows = tuple(_row(w, counts, overtaking[w.label], w.schedule == loop.chosen) for w in schedules)
    least = tuple(schedules.index(loop.least(n)) for n in counts)
    return CrossingRows(
        loop.loop,
        device,
        supposed,
        counts,
        rows,
        least,
        tuple((w.label, w.refused) for w in loop.schedules if w.refused),
        loop.trips,
        loop.symbol,
        loop.constants,
        loop.timed,
        loop.origin,
    )


def _usual() -> list[int]:
    """Return 0, then 1, 2 and 5 of each decade."""
    return [0, *(m * 10**p for p in range(6) for m in (1, 2, 5)), MOST]


def _own_trips(loop: Crossing) -> list[int]:
    return [] if loop.trips is None else [min(max(loop.trips, 0), MOST)]


def _row(
    schedule: ScheduleTime, counts: tuple[int, ...], begins: int | None, chosen: bool
) -> ScheduleRow:
    trip = schedule.each(None)
    times = tuple(schedule.at(n).us for n in counts)
    return ScheduleRow(
        schedule.label, times, schedule.entry.us, trip.us, trip.terms, begins, chosen
    )


def sentence(rows: CrossingRows) -> str:
    """Describe where the schedules cross."""
    schedules = {w.label: w for w in rows.schedules}
    program = next((label for label in schedules if label.startswith(PROGRAM)), "")
    if not program:
        each = f"{time_text(schedules[HOST].trip_us)} an iteration"
        return f"{rows.loop}: only the host can follow it, {each}"
    begins = schedules[program].from_trips
    if begins is not None:
        begin_words = "the first iteration" if begins <= 1 else f"{begins:,} iterations"
        return f"{rows.loop}: from {begin_words} on the program takes less than the host"
    return f"{rows.loop}: the host takes less than the program, however many iterations there are"


def at(rows: CrossingRows, position: int) -> str:
    """Describe the schedules at one count, the fastest first."""
    order = sorted(rows.schedules, key=lambda w: w.times_us[position])
    times = [f"{w.label}: {time_text(w.times_us[position])}" for w in order]
    return f"the fastest is {', '.join(times)}"


@dataclass(frozen=True, slots=True)
class Scales:
    """The two axes: iterations and time ratios, both logarithmic."""

    left: float
    right: float
    top: float
    foot: float
    low: float
    high: float

    def x(self, count: float) -> float:
        """Return the x of a number of iterations; zero lies a little before one."""
        if count < 1:
            return self.left - 12
        return self.left + log10(count) / log10(MOST) * (self.right - self.left)

    def y(self, ratio: float) -> float:
        """Return the y of a ratio on the logarithmic axis."""
        share = (log10(ratio) - log10(self.low)) / (log10(self.high) - log10(self.low))
        return self.foot - min(1.0, max(0.0, share)) * (self.foot - self.top)


def ratios(
    rows: CrossingRows,
    descriptions: Sequence[tuple[str, str]],
    notes: Sequence[str],
    wide: float,
    high: float,
) -> Iterator[str]:
    """Draw the chart, and under it the description of each schedule, and `notes`.

    Descriptions and notes are left out where they do not fit.
    """
    low_page = high < 330
    key = [] if low_page else list(_key(rows, descriptions, notes, wide, high - 240))
    flowing = _flowing(descriptions[: len(rows.schedules)], wide) if not key else []
    below = LINE * (len(key) or 1 + max((row for _, row, _ in flowing), default=0)) + 8
    host = next((w.times_us for w in rows.schedules if w.label == HOST), rows.schedules[0].times_us)
    lines = [[(n, us / h) for n, us, h in zip(rows.counts, w.times_us, host) if n and us > 0 < h]
             for w in rows.schedules]  # fmt: skip
    values = [1.0, *(r for line in lines for _, r in line), *(r for _, r, *_ in timed(rows))]
    low = max(1 / WIDEST, min(0.5, min(values) / 1.3))
    most = min(WIDEST, max(2.0, max(values) * 1.3))
    top = 28.0 if low_page else 52.0
    scales = Scales(AXIS + 16, wide - 24, top, high - below - 78, low, most)
    yield f'<g data-scrub="iterations" data-first="{rows.first}"></g>'
    yield label(0, 16, "Time over that on the host", "big")
    legend = "below 1× a schedule takes less; predicted" + ", filled: measured" * bool(rows.timed)
    if not low_page:
        yield label(0, 36, fit(legend, wide, PX))
    yield from _axes(scales, wide)
    for n, line in enumerate(lines):
        if line:
            yield lit_by(_line(n, line, scales), f"way:{n}")
    yield from _measured(rows, scales)
    yield from _crossings(rows, scales)
    yield from _ribbon(rows, scales)
    for n in range(len(rows.counts)):
        yield _step(rows, n, lines, scales)
    y = high - below + 18
    for x, row, (n, name) in flowing:
        yield _sample(n, y + LINE * row, x)
        yield label(x + 42, y + LINE * row, name, "i")
    for k, (sample, text, style) in enumerate(key):
        if sample >= 0:
            yield _sample(sample, y + LINE * k)
        yield label(44 if sample > -2 else 0, y + LINE * k, text, style)


def _key(
    rows: CrossingRows,
    descriptions: Sequence[tuple[str, str]],
    notes: Sequence[str],
    wide: float,
    high: float,
) -> Iterator[tuple[int, str, str]]:
    """Yield the legend: the line sample, the text and its style.

    Text that does not fit is left to the table: first the notes, then what each schedule spends.
    """
    most = int(high / LINE)
    lines_out: list[tuple[int, str, str]] = []
    for words in (True, False):
        lines_out = []
        for n, (name, spent) in enumerate(descriptions):
            lines = wrap_text(f"{name}: {spent}" if words else name, wide - 48, PX)
            sample = n if n < len(rows.schedules) else -1
            lines_out += [(sample if k == 0 else -1, line, "i") for k, line in enumerate(lines)]
        if len(lines_out) <= most:
            break
    for note in notes:
        lines = wrap_text(note, wide, PX)
        if len(lines_out) + len(lines) <= most:
            lines_out += [(-2, line, "q") for line in lines]
    yield from lines_out[:most]


def _axes(s: Scales, wide: float) -> Iterator[str]:
    yield rect(s.left, s.top, s.right - s.left, s.foot - s.top, "var(--app)")
    before = s.foot + 40
    for ratio in _ticks(s.low, s.high):
        y = s.y(ratio)
        near_one = ratio != 1 and abs(y - s.y(1)) < LINE
        if before - y < LINE or near_one:
            continue
        before = y
        if ratio != 1:
            yield path(f"M{s.left:g} {y:.1f}H{s.right:g}", "var(--line2)")
        yield label(s.left - 22, y + 4.5, f"{ratio:g}×", "i w" if ratio == 1 else "i", anchor="end")
    end = -1.0
    for power in range(7):
        x, text = s.x(10**power), f"{10**power:,}"
        half = text_width(text, PX) / 2
        left = min(max(x - half, 0), wide - 2 * half)
        if left > end + 8:
            yield path(f"M{x:.1f} {s.foot:g}v5", "var(--edge)")
            yield label(left, s.foot + 20, text, "i")
            end = left + 2 * half
    yield label(s.left, s.foot + 38, "iterations of the loop", "q")


def _ticks(low: float, high: float) -> list[float]:
    """Return round ratios; only powers of ten where the axis is long."""
    every = [m * 10.0**p for p in range(-3, 4) for m in (1, 2, 5)]
    ticks = [round(v, 6) for v in every if low <= v <= high]
    if len(ticks) > 8:
        ticks = [v for v in ticks if f"{v:e}".startswith("1.")]
    return ticks


def _line(n: int, line: Sequence[tuple[int, float]], s: Scales) -> str:
    dash, width = LINE_STYLES[min(n, len(LINE_STYLES) - 1)]
    d = "M" + "L".join(f"{s.x(count):.1f} {s.y(ratio):.1f}" for count, ratio in line)
    extra = f'stroke-width="{width}" stroke-linejoin="round"'
    return path(d, "var(--ink)", extra + (f' stroke-dasharray="{dash}"' if dash else ""))


def _flowing(
    descriptions: Sequence[tuple[str, str]], wide: float
) -> list[tuple[float, int, tuple[int, str]]]:
    """Return the names of the schedules as flowing text: x, line, and (index, name) of each."""
    placed, x, line = [], 0.0, 0
    for n, (name, _) in enumerate(descriptions):
        name = fit(name, wide - 60, PX)
        room = text_width(name, PX) + 60
        if x and x + room > wide:
            x, line = 0.0, line + 1
        placed.append((x, line, (n, name)))
        x += room
    return [f for f in placed if f[1] < 3]


def _sample(n: int, y: float, x: float = 0.0) -> str:
    dash, width = LINE_STYLES[min(n, len(LINE_STYLES) - 1)]
    extra = f'stroke-width="{width}"' + (f' stroke-dasharray="{dash}"' if dash else "")
    return path(f"M{x + 2:g} {y - 4.5:g}h34", "var(--ink)", extra)


def _crossings(rows: CrossingRows, s: Scales) -> Iterator[str]:
    """Mark where the fastest schedule changes, and how many iterations the loop makes."""
    meets = [count for count in rows.crossing_counts if count >= 1]
    for count in meets:
        line = f"M{s.x(count):.1f} {s.top:g}V{s.foot:g}"
        yield lit_by(path(line, "var(--ink2)", 'stroke-dasharray="2 4"'), "cross")
    end = 0.0
    for count in meets:
        x, text = s.x(count), f"from {counted(count, 'iteration')}"
        wide = text_width(text, PX)
        left = x + 4 if x + 4 + wide < s.right else x - 4 - wide
        if left > end:
            ground = rect(left - 3, s.top + 2, wide + 6, 18, "var(--app)")
            yield lit_by(ground + label(left, s.top + 15, text, "i"), "cross")
            end = left + wide + 4
    if rows.trips:
        x = s.x(min(rows.trips, MOST))
        mark = f'<path d="M{x - 6:.1f} {s.foot + 2:g}h12l-6 -9z" fill="var(--ink)"/>'
        yield lit_by(mark, "now")


def timed(rows: CrossingRows) -> Iterator[tuple[TimedSchedule, float, float, float]]:
    """Yield each measurement with its median and interval relative to the host's median.

    Only trip counts that were also measured on the host are included.
    """
    host = {t.trips: t.median_us for t in rows.timed if t.label == HOST}
    for t in rows.timed:
        base = host.get(t.trips, 0.0)
        if base and t.trips:
            yield t, t.median_us / base, t.low_us / base, t.high_us / base


def _measured(rows: CrossingRows, s: Scales) -> Iterator[str]:
    """Draw measurements with their intervals; those beyond the axis are only in the table."""
    for t, ratio, low, high in timed(rows):
        if not s.low <= ratio <= s.high:
            continue
        x, index = s.x(t.trips), next(n for n, w in enumerate(rows.schedules) if w.label == t.label)
        tip = f"{t.label}, {counted(t.trips, 'iteration')}: measured {time_text(t.median_us)}"
        span = f"M{x:.1f} {s.y(max(low, s.low)):.1f}V{s.y(high):.1f}"
        marks = path(span, "var(--ink)", 'stroke-width="2"')
        square = (x - 4, s.y(ratio) - 4, 8, 8)
        marks += rect(*square, "var(--ink)", 'stroke="var(--pane)"', title=tip)
        yield lit_by(marks, f"way:{index} measured")


def _ribbon(rows: CrossingRows, s: Scales) -> Iterator[str]:
    """Draw the band of the fastest schedule, from zero iterations to a million."""
    y, begin = s.foot + 46, 0
    for i in range(1, len(rows.counts) + 1):
        if i < len(rows.counts) and rows.least[i] == rows.least[begin]:
            continue
        x = s.x(rows.counts[begin])
        end = s.right if i == len(rows.counts) else s.x(rows.counts[i])
        fastest = rows.schedules[rows.least[begin]].label
        level = "v0" if fastest == HOST else "v1"
        tip = f"{fastest} is the fastest from {counted(rows.counts[begin], 'iteration')}"
        edge = 'stroke="var(--line2)"'
        marks = rect(x, y, end - x, RIBBON, f"var(--{level})", edge, title=tip)
        text = f"fastest: {fastest}"
        text = text if text_width(text, PX) < end - x - 8 else fastest
        if text_width(text, PX) < end - x - 8:
            marks += label((x + end) / 2, y + 15, text, "i", anchor="middle")
        yield lit_by(marks, f"way:{rows.least[begin]} fastest")
        begin = i


def _step(
    rows: CrossingRows, n: int, lines: Sequence[Sequence[tuple[int, float]]], s: Scales
) -> str:
    """Draw the marker and the ratios of one iteration count, shown while the scrubber is there."""
    counts = rows.counts
    x = s.x(counts[n])
    left = (s.x(counts[n - 1]) + x) / 2 if n else x - 6
    right = (x + s.x(counts[n + 1])) / 2 if n + 1 < len(counts) else s.right
    ground = rect(left, s.top, right - left, s.foot - s.top, "transparent")
    only = 'class="only" visibility="hidden" pointer-events="none"'
    marks = path(f"M{x:.1f} {s.top:g}V{s.foot:g}", "var(--accent)", 'stroke-width="1.5"')
    for line in lines:
        for count, ratio in line:
            if count == counts[n]:
                dot = f'cx="{x:.1f}" cy="{s.y(ratio):.1f}" r="4"'
                marks += f'<circle {dot} fill="var(--pane)" stroke="var(--accent)"/>'
    name = counted(counts[n], "iteration")
    return step_group(f"{ground}<g {only}>{marks}</g>", n, at(rows, n), name)
