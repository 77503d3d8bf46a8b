"""The schedules of a loop over its trip count, as a plotly figure."""

from __future__ import annotations

from collections.abc import Mapping

import plotly.graph_objects as go

from widgets.draw.plots import colours, styled
from widgets.draw.table import count_text, time_text
from widgets.grinder.crossing import MOST, CrossingRows, ScheduleRow, at
from widgets.grinder.crossing_picture import timed_words
from widgets.timed.measured_text import whiskers

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
    iterations = count_text(rows.counts[i], "iteration")
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
    name = f"as it runs: {count_text(rows.trips, 'iteration')}"
    figure.add_scatter(
        x=[min(rows.trips, MOST) or NONE] * 2,
        y=[low, high],
        name=name,
        mode="lines",
        line={"color": c["ink3"], "width": 1},
        customdata=[name] * 2,
        hovertemplate=WORDS,
    )
