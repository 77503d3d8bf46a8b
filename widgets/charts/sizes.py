"""The cost of a run over the size of a symbol as a plotly figure."""

from __future__ import annotations

import plotly.graph_objects as go

from widgets.draw.plots import colours, spread_axis, styled
from widgets.draw.table import time_text
from widgets.timed.measured_text import measured_text, whiskers
from widgets.timed.sizes import KINDS, PROGRAMS, TASKS, TILE, SizeRows

SYMBOLS = {TILE: "square", PROGRAMS: "diamond", TASKS: "line-ns-open"}
WORDS = "%{customdata}<extra></extra>"


def chart(rows: SizeRows, title: str, theme: str) -> go.Figure:
    """Draw the planned time of a run at each size, a mark at each break, and measurements."""
    c, figure, name = colours(theme), go.Figure(), rows.symbol
    figure.add_scatter(
        x=[p.size for p in rows.planned],
        y=[p.us for p in rows.planned],
        name="predicted",
        mode="lines+markers",
        line={"color": c["ink2"], "width": 1.4},
        marker={"symbol": "circle-open", "size": 5, "color": c["ink2"]},
        customdata=[
            f"{name} = {p.size:,}: predicted {time_text(p.us)}{_each(p.us, p.size)}"
            for p in rows.planned
        ],
        meta={"k": [f"predicted size:{p.size}" for p in rows.planned]},
        hovertemplate=WORDS,
    )
    for kind in KINDS:
        _breaks(figure, rows, kind, c["bad"])
    if rows.measured:
        _measured(figure, rows, c["ink"])
    if rows.at is not None:
        figure.add_scatter(
            x=[rows.at.size],
            y=[rows.at.us],
            name=f"current: {rows.at.size:,}",
            mode="markers",
            marker={"symbol": "circle-open", "color": c["accent"], "size": 14, "line_width": 2},
            customdata=[f"{name} = {rows.at.size:,}, current: predicted {time_text(rows.at.us)}"],
            meta={"k": "current"},
            hovertemplate=WORDS,
        )
    if rows.planned[0].size > 0:
        figure.update_xaxes(title=f"{name} (elements)", type="log")
    else:
        figure.update_xaxes(title=f"{name} (elements)")
    times = [p.us for p in rows.planned]
    times += [us for _, m in rows.measured for us in (m.low_us, m.high_us)]
    figure.update_yaxes(title="time per run (µs)", **spread_axis(times))
    return styled(figure, theme, title, 480, showlegend=True)


def _breaks(figure: go.Figure, rows: SizeRows, kind: str, ink: str) -> None:
    """Add the breaks of one kind: sizes from which on the plan differs."""
    mine = [b for b in rows.breaks if b.kind == kind]
    if mine:
        figure.add_scatter(
            x=[b.size for b in mine],
            y=[b.us for b in mine],
            name=kind,
            mode="markers",
            marker={
                "symbol": SYMBOLS[kind],
                "color": ink,
                "size": 12 if kind == TASKS else 6,
                "line": {"width": 1.4, "color": ink},
            },
            customdata=[f"from {rows.symbol} = {b.size:,} on, {kind}<br>{b.words}" for b in mine],
            meta={"k": [f"change size:{b.size}" for b in mine]},
            hovertemplate=WORDS,
        )


def _measured(figure: go.Figure, rows: SizeRows, ink: str) -> None:
    timings = rows.measured
    figure.add_scatter(
        x=[size for size, _ in timings],
        y=[m.median_us for _, m in timings],
        name="measured, 99 % interval",
        mode="markers",
        marker={"symbol": "circle", "size": 7, "color": ink},
        error_y=whiskers([m for _, m in timings], ink, thickness=1.4, width=3),
        customdata=[
            f"{rows.symbol} = {size:,}: {measured_text(m)}{_each(m.median_us, size)}"
            for size, m in timings
        ],
        meta={"k": [f"measured size:{size}" for size, _ in timings]},
        hovertemplate=WORDS,
    )


def _each(us: float, size: int) -> str:
    return f", {time_text(us / size)} for each" if size > 1 else ""
