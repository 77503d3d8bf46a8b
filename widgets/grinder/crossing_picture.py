"""The Crossing point picture of a loop: table, text, drawing and chart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import plotly.graph_objects as go

from explorer.ir.stage import Stage
from explorer.plain_text import counted
from explorer.runtime.planning.control_costs import AssumedCosts
from explorer.runtime.planning.schedule_times import TimedSchedule
from widgets.draw.plots import colours, styled
from widgets.draw.svg import Svg, label, wrap_text
from widgets.draw.table import Cell, Mark, Sentence, Table, time_text
from widgets.grinder.crossing import (
    HOST,
    MOST,
    PX,
    CrossingRows,
    ScheduleRow,
    at,
    data,
    ratios,
    sentence,
)
from widgets.grinder.view import LOOPS, assumed_costs, crossing
from widgets.model.compiled import whiskers
from widgets.model.picture import HEIGHT, WIDTH, Drawn, OnShow, Picture

NONE = 0.3  # the place of zero trips on a logarithmic axis
FARTHEST = 30.0  # the highest ratio to the least that is drawn
WORDS = "%{customdata}<extra></extra>"
LINES = (  # from the host, in the program, and unrolled by more and more
    ("square", "dash", 1.4),
    ("circle", "solid", 2.2),
    ("triangle-up", "solid", 1.2),
    ("diamond", "dot", 1.2),
    ("cross", "dashdot", 1.2),
)


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
        trips = f"it makes {counted(rows.trips, 'iteration')}{named}"
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
        f"{t.label}, {counted(t.trips, 'iteration')}: measured {_us(t.median_us)}, 99% interval "
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
        ("It makes ", Mark(counted(rows.trips, "iteration"), "now"), f"{named} as compiled.")
    )
    host = next((w for w in rows.schedules if w.label == HOST), None)
    best = rows.schedules[rows.least[rows.first]]
    if host is not None and best is not host and best.times_us[rows.first] > 0:
        ratio = host.times_us[rows.first] / best.times_us[rows.first]
        key = f"way:{rows.schedules.index(best)}"
        lead = f"On the host that takes {ratio:.3g} times as long as "
        sentences.append((lead, Mark(best.label, key), "."))
    return tuple(sentences)


def chart(rows: CrossingRows, title: str, theme: str) -> go.Figure:
    """Draw the time of the loop over its trips, logarithmic, a line per schedule.

    Below, the same relative to the fastest schedule.
    """
    c, figure = colours(theme), go.Figure()
    best = [rows.schedules[k].times_us[i] for i, k in enumerate(rows.least)]
    for n, schedule in enumerate(rows.schedules):
        _add_line(figure, rows, n, schedule.times_us, False, c)
        shares = tuple(us / b if b > 0 else 0.0 for us, b in zip(schedule.times_us, best))
        _add_line(figure, rows, n, shares, True, c)
        _timed(figure, rows, n, c)
    spent = [us for w in rows.schedules for us in w.times_us if us > 0] or [1.0]
    if rows.trips is not None:
        _as_it_runs(figure, rows, min(spent), max(spent), c)
    figure.update_layout(yaxis2={"anchor": "x"})
    powers = [10**p for p in range(7)]
    figure.update_xaxes(
        title_text="iterations of the loop (count)",
        type="log",
        tickvals=[NONE, *powers],
        ticktext=["0", *(f"{n:,}" for n in powers)],
        anchor="y2",
    )
    above = {"title": {"text": "time of the loop (µs), predicted"}, "type": "log"}
    below = {"title": {"text": "over the fastest (×)"}, "type": "log"}
    figure.update_layout(
        yaxis={**above, "domain": [0.42, 1]},
        yaxis2={
            **below,
            "domain": [0, 0.34],
            "range": [-0.05, 1.5],
            "tickvals": [1, 3, 10, FARTHEST],
        },
    )
    return styled(figure, theme, title, 520)


def _line(n: int) -> tuple[str, str, float]:
    return LINES[min(n, len(LINES) - 1)]


def _name(schedule: ScheduleRow) -> str:
    return f"{schedule.label}, as compiled" if schedule.chosen else schedule.label


def _add_line(
    figure: go.Figure,
    rows: CrossingRows,
    n: int,
    values: tuple[float, ...],
    shares: bool,
    c: Mapping[str, str],
) -> None:
    """Add one line of a schedule, where its time is known."""
    (symbol, dash, width), schedule = _line(n), rows.schedules[n]
    positive = [i for i, value in enumerate(values) if value > 0]
    figure.add_scatter(
        x=[rows.counts[i] or NONE for i in positive],
        y=[values[i] for i in positive],
        name=_name(schedule),
        legendgroup=schedule.label,
        showlegend=not shares,
        yaxis="y2" if shares else "y",
        mode="lines+markers",
        line={"color": c["ink"], "dash": dash, "width": width},
        marker={"symbol": f"{symbol}-open", "color": c["ink"], "size": 6},
        customdata=[_words(rows, n, i) for i in positive],
        hovertemplate=WORDS,
    )


def _words(rows: CrossingRows, n: int, i: int) -> str:
    schedule = rows.schedules[n]
    iterations = counted(rows.counts[i], "iteration")
    head = f"{schedule.label}, {iterations}: {time_text(schedule.times_us[i])}"
    return f"{head}<br>{at(rows, i)}"


def _timed(figure: go.Figure, rows: CrossingRows, n: int, c: Mapping[str, str]) -> None:
    """Add the measurements of a schedule: filled marks with intervals."""
    schedule = rows.schedules[n]
    mine = [t for t in rows.timed if t.label == schedule.label]
    if mine:
        figure.add_scatter(
            x=[t.trips or NONE for t in mine],
            y=[t.median_us for t in mine],
            error_y=whiskers(mine, c["ink"], thickness=1),
            name=f"measured, {schedule.label}",
            mode="markers",
            marker={"symbol": _line(n)[0], "color": c["ink"], "size": 9},
            customdata=[timed_words(t) for t in mine],
            hovertemplate=WORDS,
        )


def _as_it_runs(
    figure: go.Figure, rows: CrossingRows, low: float, high: float, c: Mapping[str, str]
) -> None:
    assert rows.trips is not None
    name = f"as it runs: {counted(rows.trips, 'iteration')}"
    figure.add_scatter(
        x=[min(rows.trips, MOST) or NONE] * 2,
        y=[low, high],
        name=name,
        mode="lines",
        line={"color": c["ink3"], "width": 1},
        customdata=[name] * 2,
        hovertemplate=WORDS,
    )


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
    chart=chart,
)
