"""A sweep as a plotly figure: what was varied beside the time that came of it, and time over memory
with the points that nothing beats.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from explorer.errors import BadOption
from explorer.tuning.sweep import Sweep
from explorer.tuning.sweep.rows import MEASURED, Row
from widgets.draw.plots import colours, styled

HEIGHT, KIB = 800, 1024
MARKS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "pentagon", "star")
ABOVE, LEGEND = 130, 0.47  # pixels over the lines; where the legend stands, over the points


def chart(found: Sweep, theme: str = "either") -> go.Figure:
    """Above: a line a point through the values that were varied, to its time; one group of points
    that may be compared at a time, by the menu. Below: every point by time and memory between
    kernels, its group's front in colour and joined. Raises BadOption where every point failed.
    """
    groups = tuple(found.comparable.items())
    if not groups:
        raise BadOption(f"every point of the sweep of {found.model} failed", where=found.model)
    figure = make_subplots(
        rows=2, cols=1, specs=[[{"type": "domain"}], [{"type": "xy"}]], vertical_spacing=0.2
    )
    for number, (_, rows) in enumerate(groups):
        figure.add_trace(_lines(found, rows, theme, visible=number == 0), row=1, col=1)
    for number, (name, rows) in enumerate(groups):
        for trace in _points(name, rows, found.front[name], number, theme):
            figure.add_trace(trace, row=2, col=1)
    figure.update_xaxes(title="time per run (µs), measured where a clock ran", rangemode="tozero")
    figure.update_yaxes(title="memory between kernels (KiB)", rangemode="tozero")
    failed = f", {len(found.failures)} failed" if found.failures else ""
    title = f"Sweep of {found.model}: {len(found.rows)} points{failed}"
    menu = {"updatemenus": [_menu(groups, len(figure.data))]} if len(groups) > 1 else {}
    styled(figure, theme, title, HEIGHT, **menu)
    return figure.update_layout(
        margin={"t": ABOVE, "r": 60}, legend={"yref": "paper", "y": LEGEND, "yanchor": "bottom"}
    )


def _lines(found: Sweep, rows: Sequence[Row], theme: str, visible: bool) -> go.Parcoords:
    c = colours(theme)
    times = [row.us for row in rows]
    dimensions: list[dict[str, Any]] = []
    for name, texts in found.vary:
        if len({dict(row.varied)[name] for row in rows}) < 2:
            continue  # the same for all of them, as the sizes are
        places = {text: n for n, text in enumerate(texts)}
        dimensions.append(
            {
                "label": name,
                "values": [places[dict(row.varied)[name]] for row in rows],
                "tickvals": list(places.values()),
                "ticktext": list(places),
                "range": [0, max(1, len(texts) - 1)],
            }
        )
    said = "measured" if rows[0].kind == MEASURED else "predicted"
    dimensions.append({"label": f"µs, {said}", "values": times})
    return go.Parcoords(
        dimensions=dimensions,
        line={"color": times, "colorscale": [[0, c["accent"]], [1, c["ink3"]]]},
        labelfont={"color": c["ink"]},
        tickfont={"color": c["ink2"]},
        rangefont={"color": c["ink2"]},
        visible=visible,
    )


def _points(
    name: str, rows: Sequence[Row], front: Sequence[Row], number: int, theme: str
) -> tuple[go.Scatter, go.Scatter]:
    c = colours(theme)
    same = {"legendgroup": name, "marker": {"symbol": MARKS[number % len(MARKS)], "size": 8}}
    words = [" ".join(f"{n}={t}" for n, t in row.varied) + f"<br>{row.words}" for row in rows]
    every = go.Scatter(
        x=[row.us for row in rows],
        y=[row.arena_bytes / KIB for row in rows],
        mode="markers",
        name=short(name),
        customdata=words,
        hovertemplate="%{customdata}<extra></extra>",
        marker_color=c["ink3"],
        **same,
    )
    best = go.Scatter(
        x=[row.us for row in front],
        y=[row.arena_bytes / KIB for row in front],
        mode="lines+markers",
        showlegend=False,
        line={"color": c["accent"], "shape": "hv"},
        marker_color=c["accent"],
        hoverinfo="skip",
        **same,
    )
    return every, best


def _menu(groups: Sequence[tuple[str, Sequence[Row]]], traces: int) -> dict[str, Any]:
    """Which group's lines stand above; the points below stay."""
    count = len(groups)
    return {
        "x": 0.0,
        "xanchor": "left",
        "y": 1.09,
        "yanchor": "bottom",
        "buttons": [
            {
                "label": short(name),
                "method": "restyle",
                "args": [
                    {"visible": [n == number for n in range(count)] + [True] * (traces - count)}
                ],
            }
            for number, (name, _) in enumerate(groups)
        ],
    }


def short(name: str) -> str:
    """Sizes and processor of a group, without the rest of the card."""
    return ", ".join(name.partition(";")[0].split(", L1")[0].split(", ")[:3])
