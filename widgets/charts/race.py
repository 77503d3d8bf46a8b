"""A race as a plotly figure."""

from __future__ import annotations

import plotly.graph_objects as go

from widgets.draw.plots import colours, styled
from widgets.draw.table import time_text
from widgets.rammer.race_chart import RaceRows
from widgets.timed.measured_text import whiskers


def chart(rows: RaceRows, title: str, theme: str) -> go.Figure:
    """Draw a dot per runtime at its median, with its interval, from zero; the fastest on top."""
    c, figure = colours(theme), go.Figure()
    figure.add_scatter(
        x=[r.median_us for r in rows.runners],
        y=[r.name for r in rows.runners],
        name="median, 99 % interval",
        mode="markers",
        marker={"color": c["ink"], "size": 10},
        error_x=whiskers(rows.runners, c["ink"], thickness=2, width=5),
        customdata=[
            f"{r.name}: {time_text(r.median_us)}, {time_text(r.low_us)} to "
            f"{time_text(r.high_us)}, n = {r.n}, largest error {r.max_abs_error:.2g}"
            for r in rows.runners
        ],
        hovertemplate="%{customdata}<extra></extra>",
    )
    figure.update_xaxes(title="time per run (µs), measured", rangemode="tozero")
    figure.update_yaxes(title="runtime", autorange="reversed")
    return styled(figure, theme, title, 160 + 40 * max(3, len(rows.runners)), showlegend=True)
