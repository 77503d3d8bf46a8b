"""Charts as plotly figures in the colours and fonts of the pictures."""

from __future__ import annotations

import gzip
from functools import cache
from importlib.resources import files
from itertools import chain
from typing import Any

import plotly.graph_objects as go
from plotly.basedatatypes import BasePlotlyType

from explorer.errors import BadOption
from widgets.draw.theme import EITHER, FONTS, LIGHT, SCHEMES

PAGE = {name: f"var(--{name})" for name in LIGHT}  # canvas/chart.js puts the colours in
GROUND = ("font", "hoverlabel", "paper_bgcolor", "plot_bgcolor")
THEMES = {**SCHEMES, "either": EITHER, "page": PAGE}


def colours(theme: str) -> dict[str, str]:
    """The tokens of a theme, "either" on a ground of any, "page" for one of our pages, which puts
    its colours in; BadOption where there is none of that name.
    """
    if theme not in THEMES:
        raise BadOption(f"there is no theme {theme!r}", where=theme, expected=", ".join(THEMES))
    return THEMES[theme]


def styled(figure: go.Figure, theme: str, title: str, height: int, **more: Any) -> go.Figure:
    """The figure with our paper, ink, fonts and grid; the legend above, where it hides nothing."""
    c = colours(theme)
    axis = {
        "gridcolor": c["line"],
        "linecolor": c["line2"],
        "zerolinecolor": c["line"],
        "ticks": "outside",
        "tickcolor": c["line2"],
        "automargin": True,
        "title": {"font": {"size": 11}, "standoff": 6},
    }
    told: dict[str, Any] = {
        "paper_bgcolor": c["pane"],
        "plot_bgcolor": c["pane"],
        "font": {"family": FONTS["ui"], "size": 12, "color": c["ink2"]},
        "hoverlabel": {
            "bgcolor": c["tint"],
            "font": {"color": c["ink"]},
            "bordercolor": c["line2"],
        },
        "legend": {
            "orientation": "h",
            "yref": "container",
            "y": 1 - 44 / height,
            "yanchor": "top",
            "x": 0,
            "traceorder": "normal",
        },
        "title": {
            "text": title,
            "yref": "container",
            "y": 1 - 14 / height,
            "yanchor": "top",
            "x": 0.01,
            "font": {"size": 14, "color": c["ink"]},
        },
        "margin": {"l": 60, "r": 20, "t": 96, "b": 50},
        "height": height,
        "autosize": True,
        **more,
    }
    axes = chain(figure.select_xaxes(), figure.select_yaxes())
    told |= dict.fromkeys((found.plotly_name for found in axes), axis)
    for name, value in told.items():
        figure.layout[name] = _over(figure.layout[name], value)
    heads = {"xref": "paper"}  # of figures with several parts
    figure.update_annotations(heads, font={"size": 12, "color": c["ink"]}, x=0, xanchor="left")
    return figure


def _over(old: Any, new: Any) -> Any:
    """What a part of a layout becomes where `new` is written over it: plotly's own update asks at
    each step of each path what it could be, ten times as long.
    """
    if not isinstance(new, dict):
        return new
    known = old.to_plotly_json() if isinstance(old, BasePlotlyType) else old or {}
    return known | {name: _over(known.get(name), value) for name, value in new.items()}


def rows_high(count: int, row: int = 18) -> dict[str, int]:
    """What a layout says of a chart with a row of words for each of so many things: that it is no
    lower than they need, in pixels; its room scrolls.
    """
    return {"least": 84 + row * max(5, count)}


def for_page(figure: go.Figure) -> dict[str, Any]:
    """The traces and axes of a figure of the theme "page": what stands around them, size, title and
    legend, is the page's.
    """
    found: dict[str, Any] = figure.to_plotly_json()
    layout = found["layout"]
    kept = ("xaxis", "yaxis", "yaxis2", "barmode", "bargap", "annotations", "meta", *GROUND)
    return {"data": found["data"], "layout": {k: layout[k] for k in kept if k in layout}}


@cache
def library() -> bytes:
    """The script that draws figures, as it comes with plotly, compressed by gzip."""
    script = files("plotly") / "package_data" / "plotly.min.js"
    return gzip.compress(script.read_bytes(), 9, mtime=0)
