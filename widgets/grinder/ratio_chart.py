"""The schedules of a loop against its iterations, as times over that on the host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log10

from explorer.runtime.control.way_times import Timed
from widgets.draw.see import lit_by
from widgets.draw.svg import fit, label, path, rect, stepped, text_width, wrapped
from widgets.draw.table import count_text, time_text
from widgets.grinder.crossing import HOST, MOST, CrossingRows, at

PX, AXIS, LINE = 13, 56.0, 18.0
LOOKS = (  # on the host, in the program, then the others: dash and width of a line
    ("6 4", 2.0),
    ("", 2.5),
    ("2 3", 1.8),
    ("8 3 2 3", 1.8),
    ("12 4", 1.8),
    ("", 1.2),
)
WIDEST = 100.0  # times the host's time, and its inverse: what is beyond is cut
RIBBON = 20.0


@dataclass(frozen=True, slots=True)
class Scales:
    """Where iterations and ratios are drawn."""

    left: float
    right: float
    top: float
    foot: float
    low: float
    high: float

    def x(self, count: float) -> float:
        """A number of iterations; none is a little before one."""
        if count < 1:
            return self.left - 12
        return self.left + log10(count) / log10(MOST) * (self.right - self.left)

    def y(self, ratio: float) -> float:
        """A ratio, on a logarithmic axis."""
        share = (log10(ratio) - log10(self.low)) / (log10(self.high) - log10(self.low))
        return self.foot - min(1.0, max(0.0, share)) * (self.foot - self.top)


def ratios(
    rows: CrossingRows,
    told: Sequence[tuple[str, str]],
    notes: Sequence[str],
    wide: float,
    high: float,
) -> Iterator[str]:
    """The chart; under it what is `told` of each schedule, and `notes`, as far as there is room."""
    low_page = high < 330
    key = [] if low_page else list(_key(rows, told, notes, wide, high - 240))
    flowing = _flowing(told[: len(rows.ways)], wide) if not key else []
    below = LINE * (len(key) or 1 + max((row for _, row, _ in flowing), default=0)) + 8
    host = next((w.times_us for w in rows.ways if w.label == HOST), rows.ways[0].times_us)
    lines = [[(n, us / h) for n, us, h in zip(rows.counts, w.times_us, host) if n and us > 0 < h]
             for w in rows.ways]  # fmt: skip
    values = [1.0, *(r for line in lines for _, r in line), *(r for _, r, *_ in timed(rows))]
    low = max(1 / WIDEST, min(0.5, min(values) / 1.3))
    most = min(WIDEST, max(2.0, max(values) * 1.3))
    top = 28.0 if low_page else 52.0
    scales = Scales(AXIS + 16, wide - 24, top, high - below - 78, low, most)
    yield f'<g data-scrub="iterations" data-first="{rows.first}"></g>'
    yield label(0, 16, "Time over that on the host", "big")
    said = "below 1× a schedule takes less; predicted" + ", filled: measured" * bool(rows.timed)
    if not low_page:
        yield label(0, 36, fit(said, wide, PX))
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
    told: Sequence[tuple[str, str]],
    notes: Sequence[str],
    wide: float,
    high: float,
) -> Iterator[tuple[int, str, str]]:
    """The words under the chart: which line, a line of words, and its style. What has no room is
    in the table: first the notes, then what a schedule spends.
    """
    most = int(high / LINE)
    found: list[tuple[int, str, str]] = []
    for words in (True, False):
        found = []
        for n, (name, spent) in enumerate(told):
            lines = wrapped(f"{name}: {spent}" if words else name, wide - 48, PX)
            sample = n if n < len(rows.ways) else -1
            found += [(sample if k == 0 else -1, line, "i") for k, line in enumerate(lines)]
        if len(found) <= most:
            break
    for note in notes:
        lines = wrapped(note, wide, PX)
        if len(found) + len(lines) <= most:
            found += [(-2, line, "q") for line in lines]
    yield from found[:most]


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
    """Ratios that people say; few where the axis is long."""
    every = [m * 10.0**p for p in range(-3, 4) for m in (1, 2, 5)]
    found = [round(v, 6) for v in every if low <= v <= high]
    if len(found) > 8:
        found = [v for v in found if f"{v:e}".startswith("1.")]
    return found


def _line(n: int, line: Sequence[tuple[int, float]], s: Scales) -> str:
    dash, width = LOOKS[min(n, len(LOOKS) - 1)]
    d = "M" + "L".join(f"{s.x(count):.1f} {s.y(ratio):.1f}" for count, ratio in line)
    extra = f'stroke-width="{width}" stroke-linejoin="round"'
    return path(d, "var(--ink)", extra + (f' stroke-dasharray="{dash}"' if dash else ""))


def _flowing(
    told: Sequence[tuple[str, str]], wide: float
) -> list[tuple[float, int, tuple[int, str]]]:
    """The names of the schedules one after the other: where each is, in which line."""
    found, x, line = [], 0.0, 0
    for n, (name, _) in enumerate(told):
        name = fit(name, wide - 60, PX)
        room = text_width(name, PX) + 60
        if x and x + room > wide:
            x, line = 0.0, line + 1
        found.append((x, line, (n, name)))
        x += room
    return [f for f in found if f[1] < 3]


def _sample(n: int, y: float, x: float = 0.0) -> str:
    dash, width = LOOKS[min(n, len(LOOKS) - 1)]
    extra = f'stroke-width="{width}"' + (f' stroke-dasharray="{dash}"' if dash else "")
    return path(f"M{x + 2:g} {y - 4.5:g}h34", "var(--ink)", extra)


def _crossings(rows: CrossingRows, s: Scales) -> Iterator[str]:
    """Where another schedule becomes the fastest, and how many iterations the loop makes."""
    meets = [count for count in rows.meets if count >= 1]
    for count in meets:
        line = f"M{s.x(count):.1f} {s.top:g}V{s.foot:g}"
        yield lit_by(path(line, "var(--ink2)", 'stroke-dasharray="2 4"'), "cross")
    end = 0.0
    for count in meets:
        x, text = s.x(count), f"from {count_text(count, 'iteration')}"
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


def timed(rows: CrossingRows) -> Iterator[tuple[Timed, float, float, float]]:
    """What the clock said, over the host's median with as many iterations: the median and its
    interval.
    """
    host = {t.trips: t.median_us for t in rows.timed if t.label == HOST}
    for t in rows.timed:
        base = host.get(t.trips, 0.0)
        if base and t.trips:
            yield t, t.median_us / base, t.low_us / base, t.high_us / base


def _measured(rows: CrossingRows, s: Scales) -> Iterator[str]:
    """Filled marks with their intervals; those beyond the axis are in the table."""
    for t, ratio, low, high in timed(rows):
        if not s.low <= ratio <= s.high:
            continue
        x, way = s.x(t.trips), next(n for n, w in enumerate(rows.ways) if w.label == t.label)
        said = f"{t.label}, {count_text(t.trips, 'iteration')}: measured {time_text(t.median_us)}"
        span = f"M{x:.1f} {s.y(max(low, s.low)):.1f}V{s.y(high):.1f}"
        marks = path(span, "var(--ink)", 'stroke-width="2"')
        square = (x - 4, s.y(ratio) - 4, 8, 8)
        marks += rect(*square, "var(--ink)", 'stroke="var(--pane)"', title=said)
        yield lit_by(marks, f"way:{way} measured")


def _ribbon(rows: CrossingRows, s: Scales) -> Iterator[str]:
    """Which schedule is the fastest, from no iteration to a million."""
    y, begin = s.foot + 46, 0
    for i in range(1, len(rows.counts) + 1):
        if i < len(rows.counts) and rows.least[i] == rows.least[begin]:
            continue
        x = s.x(rows.counts[begin])
        end = s.right if i == len(rows.counts) else s.x(rows.counts[i])
        way = rows.ways[rows.least[begin]].label
        level = "v0" if way == HOST else "v1"
        said = f"{way} is the fastest from {count_text(rows.counts[begin], 'iteration')}"
        edge = 'stroke="var(--line2)"'
        marks = rect(x, y, end - x, RIBBON, f"var(--{level})", edge, title=said)
        text = f"fastest: {way}"
        text = text if text_width(text, PX) < end - x - 8 else way
        if text_width(text, PX) < end - x - 8:
            marks += label((x + end) / 2, y + 15, text, "i", anchor="middle")
        yield lit_by(marks, f"way:{rows.least[begin]} fastest")
        begin = i


def _step(
    rows: CrossingRows, n: int, lines: Sequence[Sequence[tuple[int, float]]], s: Scales
) -> str:
    """A count of iterations: where it is, and the ratios there; seen while it is its turn."""
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
    name = count_text(counts[n], "iteration")
    return stepped(f"{ground}<g {only}>{marks}</g>", n, at(rows, n), name)
