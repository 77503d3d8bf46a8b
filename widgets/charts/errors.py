"""Planned and measured times of calls as a plotly figure, with their ratios below."""

from __future__ import annotations

from collections.abc import Mapping

import plotly.graph_objects as go

from widgets.draw.plots import colours, styled
from widgets.draw.table import time_text
from widgets.draw.theme import family_token
from widgets.rammer.errors_picture import ErrorRow, ErrorRows

WORDS = "%{customdata}<extra></extra>"
SYMBOLS = {  # a shape beside the colour
    "conv": "square",
    "matmul": "circle",
    "elementwise": "triangle-up",
    "reduction": "diamond",
    "layout": "cross",
    "control flow": "x",
    "library call": "star",
}
FACTORS = (0.5, 2.0)


def chart(rows: ErrorRows, title: str, theme: str) -> go.Figure:
    """Draw the measured time of a brick over the planned one, logarithmic, a point per call.

    On the diagonal both are equal. Below, their ratio.
    """
    c, figure = colours(theme), go.Figure()
    planned = [r.planned_us for r in rows.calls]
    ends = min(planned) / 1.5, max(planned) * 1.5
    _line(figure, ends, ends, "as predicted", "solid", c)
    for k in FACTORS:
        name = "twice as long, or half"
        _line(figure, ends, (k * ends[0], k * ends[1]), name, "dot", c, k == FACTORS[0])
    _line(figure, ends, (1.0, 1.0), "as predicted", "solid", c, False, "y2")
    for k in FACTORS:
        _line(figure, ends, (k, k), "twice as long, or half", "dot", c, False, "y2")
    for family in dict.fromkeys(r.family for r in rows.calls):
        mine = [(n, r) for n, r in enumerate(rows.calls) if r.family == family]
        _points(figure, rows, mine, False, c)
        _points(figure, rows, mine, True, c)
    figure.update_layout(yaxis2={"anchor": "x"})
    figure.update_xaxes(title_text="time per task (µs), predicted", type="log", anchor="y2")
    above = {"title": {"text": f"per task (µs), {rows.kind}"}, "type": "log"}
    below = {"title": {"text": f"{rows.kind} ÷ predicted (×)"}, "type": "log"}
    figure.update_layout(
        yaxis={**above, "domain": [0.4, 1]},
        yaxis2={**below, "domain": [0, 0.32], "tickvals": [0.1, 0.25, 0.5, 1, 2, 4, 10]},
    )
    return styled(figure, theme, title, 560, meta={"least": 400})  # for six ticks below


def _line(
    figure: go.Figure,
    x: tuple[float, float],
    y: tuple[float, float],
    name: str,
    dash: str,
    c: Mapping[str, str],
    named: bool = True,
    axis: str = "y",
) -> None:
    figure.add_scatter(
        x=x,
        y=y,
        name=name,
        legendgroup=name,
        showlegend=named,
        yaxis=axis,
        mode="lines",
        line={"color": c["ink3"], "dash": dash, "width": 1},
        hoverinfo="skip",
    )


def _points(
    figure: go.Figure,
    rows: ErrorRows,
    numbered: list[tuple[int, ErrorRow]],
    left: bool,
    c: Mapping[str, str],
) -> None:
    """Add a family's calls: their times, or below their ratios."""
    mine = [r for _, r in numbered]
    family, kind = mine[0].family, rows.kind
    token = family_token(family)
    figure.add_scatter(
        x=[r.planned_us for r in mine],
        y=[r.ratio if left else r.us for r in mine],
        name=family,
        legendgroup=family,
        showlegend=not left,
        yaxis="y2" if left else "y",
        mode="markers",
        marker={
            "symbol": SYMBOLS.get(family, "circle"),
            "color": c.get(token, c["ink2"]),
            "size": 10,
            "line": {"color": c["ink"], "width": 1},
        },
        selected={"marker": {"color": c["accent"], "opacity": 1}},
        unselected={"marker": {"opacity": 1}},
        customdata=[_words(r, kind) for r in mine],
        meta={
            "ops": [list(r.ops) for r in mine],
            "k": [f"call call:{n}{' near' * (r.off <= rows.half_within)}" for n, r in numbered],
        },
        hovertemplate=WORDS,
    )


def _words(r: ErrorRow, kind: str) -> str:
    return (
        f"{r.label}: predicted {time_text(r.planned_us)} per task, "
        f"{kind} {time_text(r.us)} (×{r.ratio:.2f})<br>"
        f"{r.bricks:,} tasks, {time_text(r.work_us)} in all<br>"
        f"{r.call} in the program"
    )
