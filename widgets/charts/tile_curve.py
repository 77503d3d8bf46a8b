"""Tile size against memory traffic as a plotly figure."""

from __future__ import annotations

import plotly.graph_objects as go

from widgets.draw.plots import colours, styled
from widgets.draw.table import size_text
from widgets.welder.tile_curve import CurveRows, point_words

WORDS = "%{customdata}<extra></extra>"


def chart(rows: CurveRows, title: str, theme: str) -> go.Figure:
    """Draw the bytes that all tasks move over the elements of the output tile, both logarithmic.

    The tiles that fit, those that do not, the least of each size, and the end of the capacity.
    """
    c, figure = colours(theme), go.Figure()
    best = rows.frontier
    figure.add_scatter(
        x=[p.elements for p in best],
        y=[p.traffic for p in best],
        name="the least of each size",
        mode="lines",
        line={"color": c["ink2"], "width": 1.4},
        hoverinfo="skip",
    )
    fits = [n for n, p in enumerate(rows.points) if p.fits]
    others = [n for n, p in enumerate(rows.points) if not p.fits]
    _points(figure, rows, fits, "fits", {"symbol": "circle-open", "color": c["ink"], "size": 8})
    bad = {"symbol": "x-thin-open", "color": c["bad"], "size": 8}
    _points(figure, rows, others, "does not fit", bad)
    on = {"symbol": "circle", "color": c["accent"], "size": 12}
    _points(figure, rows, [rows.rank] if rows.rank >= 0 else [], "current", on)
    if rows.cut:
        room = f", {size_text(rows.capacity)}" if rows.capacity else ""
        line_name = f"capacity of {rows.level}{room}"
        moved = [p.traffic for p in rows.points]
        figure.add_scatter(
            x=[rows.cut] * 2,
            y=[min(moved), max(moved)],
            name=line_name,
            mode="lines",
            line={"color": c["bad"], "width": 1.4, "dash": "dash"},
            customdata=[line_name] * 2,
            hovertemplate=WORDS,
        )
    figure.update_xaxes(title="size of the output tile (elements)", type="log")
    figure.update_yaxes(
        title=f"traffic of {rows.farther} to {rows.level} (bytes), predicted",
        type="log",
    )
    return styled(figure, theme, title, 460)


def _points(
    figure: go.Figure, rows: CurveRows, shown: list[int], name: str, marker: dict[str, object]
) -> None:
    if shown:
        figure.add_scatter(
            x=[rows.points[n].elements for n in shown],
            y=[rows.points[n].traffic for n in shown],
            name=name,
            mode="markers",
            marker=marker,
            customdata=[point_words(rows, n) for n in shown],
            meta={"take": [{"rank": n} for n in shown]},
            hovertemplate=WORDS,
        )
