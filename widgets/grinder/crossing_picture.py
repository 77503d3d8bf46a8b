"""Text and picture of a loop's crossing point."""

from __future__ import annotations

from collections.abc import Iterator

from explorer.ir.stage import Stage
from explorer.runtime.control.costs import AssumedCosts
from explorer.runtime.control.schedule_times import TimedSchedule
from widgets.draw.see import Mark, Sentence
from widgets.draw.svg import Svg, label, wrap_text
from widgets.draw.table import Cell, Table, count_text, time_text
from widgets.grinder.crossing import HOST, CrossingRows, ScheduleRow, data, sentence
from widgets.grinder.ratio_chart import ratios
from widgets.grinder.view import LOOPS, assumed_costs, crossing
from widgets.model.on_show import HEIGHT, WIDTH, OnShow
from widgets.model.picture import Drawn, Picture

PX = 13


def table(rows: CrossingRows) -> Table:
    """Return one row per trip count: predicted time of each schedule, the fastest, and timings."""
    labels = [w.label for w in rows.schedules]
    columns = ("iterations", *(f"{name} µs" for name in labels), "least")
    body: list[tuple[Cell, ...]] = [
        (n, *(w.times_us[i] for w in rows.schedules), labels[rows.least[i]])
        for i, n in enumerate(rows.counts)
    ]
    timed = sorted({t.trips for t in rows.timed})
    for n in timed:
        us = {t.label: t.median_us for t in rows.timed if t.trips == n}
        best = min(us, key=lambda name: us[name])
        body.append((n, *(us.get(name, "") for name in labels), f"{best}, measured"))
    return Table(columns, tuple(body), tuple(rows.ops for _ in body), caption(rows), see(rows))


def caption(rows: CrossingRows) -> str:
    """Describe where the schedules cross, the source of the times, and the launch costs."""
    return "; ".join((sentence(rows), _describe_compiled(rows), *_describe_sources(rows)))


def _describe_sources(rows: CrossingRows) -> Iterator[str]:
    """Yield a line for each source of the predictions, and one for the timings."""
    k = rows.constants
    source = "as supposed here" if rows.supposed else k.source
    yield f"a launch {k.launch_us:g} µs, a barrier of all cores {k.barrier_us:g} µs ({source})"
    copy_us, look_us = k.python.copy_us, k.python.look_us
    yield f"a copy from Python {copy_us:g} µs, a scalar readback {look_us:g} µs"
    if rows.timed:
        counts = sorted({t.trips for t in rows.timed})
        yield f"timed on this machine with {', '.join(f'{n:,}' for n in counts)} iterations"


def figure(rows: CrossingRows, size: tuple[int, int] = (WIDTH, HEIGHT)) -> Svg:
    """Draw each schedule's time relative to the host by iterations, and below what it spends."""
    wide, high = size
    descriptions = [(w.label + ", as compiled" * w.chosen, _spent(w)) for w in rows.schedules]
    descriptions += [(name, f"not possible, {why}") for name, why in rows.refused]
    body = "".join(
        ratios(rows, descriptions, [_describe_compiled(rows), *_describe_sources(rows)], wide, high)
    )
    return Svg(wide, high, body, f"Crossing point. {caption(rows)}", px=PX)


def _describe_compiled(rows: CrossingRows) -> str:
    schedule = next((w.label for w in rows.schedules if w.chosen), "")
    if rows.trips is None:
        trips = "only a run tells how many iterations it makes"
    else:
        named = f" ({rows.symbol})" if rows.symbol else ""
        trips = f"it makes {count_text(rows.trips, 'iteration')}{named}"
    taken = f"compiled to run {schedule}, " if schedule else ""
    return f"predicted for {rows.device}; {taken}{trips}"


def _spent(schedule: ScheduleRow) -> str:
    before = f"{_us(schedule.before_us)} before the first iteration, " if schedule.before_us else ""
    parts = ", ".join(f"{name} {_us(us)}" for name, us in schedule.terms)
    return f"{before}{_us(schedule.trip_us)} an iteration: {parts}"


def _us(us: float) -> str:
    return time_text(us) if us >= 10 else f"{us:.2f} µs"


def timed_words(t: TimedSchedule) -> str:
    """Describe the measurement of a schedule."""
    return (
        f"{t.label}, {count_text(t.trips, 'iteration')}: measured {_us(t.median_us)}, 99% interval "
        f"{_us(t.low_us)} to {_us(t.high_us)}, n = {t.n}"
    )


def see(rows: CrossingRows) -> tuple[Sentence, ...]:
    """Return the key sentences: the crossing, the trip count, and what the best schedule saves."""
    head, _, conclusion = sentence(rows).partition(": ")
    sentences: list[Sentence] = [(f"{head}: ", Mark(conclusion, "cross"), ".")]
    if rows.trips is None:
        sentences.append(("Only a run tells how many iterations it makes.",))
        return tuple(sentences)
    named = f" ({rows.symbol})" if rows.symbol else ""
    sentences.append(
        ("It makes ", Mark(count_text(rows.trips, "iteration"), "now"), f"{named} as compiled.")
    )
    host = next((w for w in rows.schedules if w.label == HOST), None)
    best = rows.schedules[rows.least[rows.first]]
    if host is not None and best is not host and best.times_us[rows.first] > 0:
        ratio = host.times_us[rows.first] / best.times_us[rows.first]
        key = f"way:{rows.schedules.index(best)}"
        lead = f"On the host that takes {ratio:.3g} times as long as "
        sentences.append((lead, Mark(best.label, key), "."))
    return tuple(sentences)


def _draw(s: OnShow, op: str) -> Drawn:
    loop = crossing(s, op)
    if loop is None:
        return _none(s)
    rows = data(loop, s.now.compiled.device.name, assumed_costs(s) != AssumedCosts())
    return rows, figure(rows, s.view.size), table(rows)


def _none(s: OnShow) -> Drawn:
    """Return the placeholder for a program without a loop."""
    chapter = "notebooks/09_control_flow.ipynb"
    words = f"No loop whose sizes are known before a run. Open {chapter} for some."
    wide, high = s.view.size
    lines = wrap_text(words, wide - 16, PX)
    marks = [label(8, 24 + 20 * n, line, "i") for n, line in enumerate(lines)]
    drawing = Svg(wide, high, "".join(marks), words, px=PX)
    return (), drawing, Table(("loop",), (("none",),), ((),), words)


PICTURE = Picture(
    name="crossing",
    title="Crossing point",
    words="The time of a loop by its iterations, relative to the host: in the program, on one "
    "core, unrolled.",
    stage=Stage.TASKED,
    family=LOOPS,
    draw=_draw,
)
