"""Charts as plotly figures in the colours and fonts of the pictures."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from itertools import chain
from math import ceil, floor, inf, log2, log10
from typing import Any

import plotly.graph_objects as go
from plotly.basedatatypes import BasePlotlyType

from explorer.errors import BadOption
from widgets.draw.table import size_text
from widgets.draw.theme import EITHER, FONTS, LIGHT, SCHEMES

PAGE = {name: f"var(--{name})" for name in LIGHT}  # canvas/chart.js puts the colours in
GROUND = ("font", "hoverlabel", "paper_bgcolor", "plot_bgcolor")
THEMES = {**SCHEMES, "either": EITHER, "page": PAGE}


def colours(theme: str) -> dict[str, str]:
    """Return the colour tokens of a theme.

    "either" suits a ground of any colour. "page" is for Ironworks' own pages, which fill in their
    colours. Raises BadOption for an unknown theme.
    """
    if theme not in THEMES:
        raise BadOption(f"there is no theme {theme!r}", where=theme, expected=", ".join(THEMES))
    return THEMES[theme]


def styled(figure: go.Figure, theme: str, title: str, height: int, **more: Any) -> go.Figure:
    """Apply the paper, ink, fonts and grid of the pictures to a figure, in place, and return it.

    The legend stands above the plot, where it hides nothing.
    """
    c = colours(theme)
    axis = {
        "gridcolor": c["line"],
        "linecolor": c["line2"],
        "zerolinecolor": c["line"],
        "ticks": "outside",
        "tickcolor": c["line2"],
        "automargin": True,
        "exponentformat": "none",
        "separatethousands": True,
        "title": {"font": {"size": 13}, "standoff": 6},
    }
    settings: dict[str, Any] = {
        "paper_bgcolor": c["pane"],
        "plot_bgcolor": c["pane"],
        "font": {"family": FONTS["ui"], "size": 13, "color": c["ink2"]},
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
    settings |= dict.fromkeys((an_axis.plotly_name for an_axis in axes), axis)
    for name, value in settings.items():
        figure.layout[name] = _merge_layout(figure.layout[name], value)
    _label_log_axes(figure)
    heads = {"xref": "paper"}  # of figures with several parts
    figure.update_annotations(heads, font={"size": 12, "color": c["ink"]}, x=0, xanchor="left")
    return figure


def _label_log_axes(figure: go.Figure) -> None:
    """Set readable ticks on logarithmic axes: 1, 10, 100, or more of them for few decades.

    Axes in bytes get KiB and MiB.
    """
    for axis in chain(figure.select_xaxes(), figure.select_yaxes()):
        if axis.type != "log":
            continue
        values = list(_values(figure, axis))
        if values and axis.tickvals is None:
            of_bytes = "(bytes)" in (axis.title.text or "")
            axis.tickvals = byte_ticks(values) if of_bytes else log_ticks(values)
        if axis.tickvals is not None and axis.ticktext is None:
            text = size_text if "(bytes)" in (axis.title.text or "") else number_text
            axis.ticktext = [text(v) for v in axis.tickvals]


def _values(figure: go.Figure, axis: Any) -> Iterator[float]:
    """Yield the positive numbers along an axis."""
    letter = axis.plotly_name[0]
    name = axis.plotly_name.replace("axis", "")
    for trace in figure.data:
        if (getattr(trace, f"{letter}axis", None) or letter) == name:
            coordinates = getattr(trace, letter, None)
            yield from (v for v in (() if coordinates is None else coordinates) if _is_positive(v))


def _is_positive(value: Any) -> bool:
    return isinstance(value, int | float) and 0 < value < inf


STEPS = ((1,), (1, 2, 5), tuple(range(1, 10)))  # ticks of a decade, the fewest first
FEWEST = 3  # ticks between the least and the largest value


def log_ticks(values: Sequence[float]) -> list[float]:
    """Return round ticks for a logarithmic axis; decades if the values span three of them."""
    low, high = min(values), max(values)
    decades = range(floor(log10(low)) - 1, ceil(log10(high)) + 2)
    for steps in STEPS:
        ticks = [m * 10.0**e for e in decades for m in steps]
        if sum(low <= v <= high for v in ticks) >= FEWEST:
            return ticks
    least = 10.0 ** floor(log10((high - low) or low)) / 2
    step = next(n * least for n in (1, 2, 4, 10) if (high - low) <= MOST_TICKS * n * least)
    first = floor(low / step)
    even = [n * step for n in range(max(1, first), first + ceil((high - low) / step) + 2)]
    return even if len(even) >= FEWEST and high > low else ticks


def byte_ticks(values: Sequence[float]) -> list[float]:
    """Return powers of two as ticks; powers of 1,024 if the values span many."""
    first, last = floor(log2(min(values))), ceil(log2(max(values)))
    step = next((s for s in (1, 2, 5) if (last - first) / s <= MOST_TICKS), 10)
    return [2.0**e for e in range(first - first % step, last + step + 1, step)]


MOST_TICKS = 8


UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1))


def byte_unit(count: int) -> tuple[str, int]:
    """Return the largest unit that a number of bytes fills, and its size in bytes."""
    return next((u for u in UNITS if count >= u[1]), UNITS[-1])


def number_text(value: float) -> str:
    """Return a number without an exponent."""
    if value >= 1 and abs(value - round(value)) < 1e-9 * value:
        return f"{value:,.0f}"
    return f"{value:.12f}".rstrip("0").rstrip(".")


def spread_axis(values: Sequence[float]) -> dict[str, str]:
    """Return the axis type for times: logarithmic if they differ much, else starting at zero.

    An axis from zero makes times that are nearly the same look so.
    """
    positive = [v for v in values if 0 < v < inf]
    far = bool(positive) and max(positive) >= FAR * min(positive)
    return {"type": "log"} if far else {"rangemode": "tozero"}


FAR = 4  # times the least


def _merge_layout(old: Any, new: Any) -> Any:
    """Merge `new` into a part of a layout, recursively.

    Plotly's own update looks up each step of each path and takes ten times as long.
    """
    if not isinstance(new, dict):
        return new
    old_values = old.to_plotly_json() if isinstance(old, BasePlotlyType) else old or {}
    return old_values | {
        name: _merge_layout(old_values.get(name), value) for name, value in new.items()
    }


def least_height(count: int, row: int = 22) -> dict[str, int]:
    """Return the least height of a chart with a row of text for each of `count` things, in pixels.

    The pane of a higher chart scrolls.
    """
    return {"least": 84 + row * max(5, count)}


def for_page(figure: go.Figure) -> dict[str, Any]:
    """Return the traces and axes of a figure of the theme "page".

    The page itself draws the size, title and legend.
    """
    figure_json: dict[str, Any] = figure.to_plotly_json()
    layout = figure_json["layout"]
    layout_keys = ("xaxis", "yaxis", "yaxis2", "barmode", "bargap", "annotations", "meta", *GROUND)
    return {
        "data": figure_json["data"],
        "layout": {k: layout[k] for k in layout_keys if k in layout},
    }


@cache
def library() -> bytes:
    """Return plotly's own script, compressed by gzip."""
    script = files("plotly") / "package_data" / "plotly.min.js"
    return gzip.compress(script.read_bytes(), 9, mtime=0)
