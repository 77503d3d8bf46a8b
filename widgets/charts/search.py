"""A search over tiles as a plotly figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from widgets.draw.plots import colours, spread_axis, styled
from widgets.draw.table import time_text
from widgets.timed.measured_text import whiskers
from widgets.timed.search import MODEL, SEARCH, SearchRows, TrialRow
from widgets.timed.search_picture import words

SYMBOLS = {MODEL: "circle", SEARCH: "diamond"}
KEYS = {MODEL: "measured", SEARCH: "measured evolved"}
NAMES = {MODEL: "as the model ranks", SEARCH: "by evolution"}


def chart(rows: SearchRows, title: str, theme: str) -> go.Figure:
    """Draw the trials in order: predicted times outlined, measured times filled with intervals.

    Also the best so far, and the model's guess.
    """
    c, figure = colours(theme), go.Figure()
    _modelled(figure, rows, c)
    for by in SYMBOLS:
        _measured(figure, rows, by, c)
    best, first = rows.best_us, rows.first
    if best:
        figure.add_scatter(
            x=[n + 1 for n in range(len(best))],
            y=best,
            name="best so far",
            mode="lines",
            line={"color": c["ink"], "width": 1.6, "shape": "hv"},
            meta={"k": "least"},
            hoverinfo="skip",
        )
    if first is not None and first.measured:
        us = first.measured.median_us
        guess_text = f"the model's guess: {time_text(us)}"
        figure.add_scatter(
            x=[1, max(2, len(best))],
            y=[us] * 2,
            name=guess_text,
            mode="lines",
            line={"color": c["bad"], "width": 1.4, "dash": "dash"},
            customdata=[f"{guess_text}, measured: {first.tile}"] * 2,
            meta={"k": "guess"},
            hovertemplate="%{customdata}<extra></extra>",
        )
    how, order = "99 % interval", "trial (count, in the order tried)"
    if not rows.tried:
        how, order = "predicted", "tile (count, as the model ranks them)"
    times = [t.modelled_us for t in rows.trials]
    times += [
        us for t in rows.tried if t.measured for us in (t.measured.low_us, t.measured.high_us)
    ]
    figure.update_xaxes(title=order, rangemode="tozero")
    figure.update_yaxes(title=f"kernel alone (µs), {how}", **spread_axis(times))
    return styled(figure, theme, title, 460, showlegend=True)


def _modelled(figure: go.Figure, rows: SearchRows, c: Mapping[str, str]) -> None:
    """Add the predictions, and a ring around the tile on show."""
    figure.add_scatter(
        x=[n + 1 for n in range(len(rows.trials))],
        y=[t.modelled_us for t in rows.trials],
        name="predicted",
        mode="markers",
        marker={"symbol": "circle-open", "color": c["ink3"], "size": 7},
        customdata=[words(n, t) for n, t in enumerate(rows.trials)],
        meta=_meta(list(enumerate(rows.trials)), "predicted"),
        hovertemplate="%{customdata}<extra></extra>",
    )
    shown = [n for n, t in enumerate(rows.trials) if t.used]
    figure.add_scatter(
        x=[n + 1 for n in shown],
        y=[_us(rows, n) for n in shown],
        name="current",
        mode="markers",
        marker={"symbol": "circle-open", "color": c["accent"], "size": 15, "line_width": 2},
        customdata=[words(n, rows.trials[n]) for n in shown],
        meta={"k": [f"current trial:{n}" for n in shown]},
        hovertemplate="%{customdata}<extra></extra>",
    )


def _meta(trials: Sequence[tuple[int, TrialRow]], key: str) -> dict[str, Any]:
    """Return each trial's highlight keys, and the tile it selects if all trials select one."""
    keys = {"k": [f"{key} trial:{n}" for n, _ in trials]}
    if any(t.rank < 0 for _, t in trials):
        return keys
    return {**keys, "take": [{"rank": t.rank} for _, t in trials]}


def _us(rows: SearchRows, n: int) -> float:
    measured = rows.trials[n].measured
    return measured.median_us if measured else rows.trials[n].modelled_us


def _measured(figure: go.Figure, rows: SearchRows, by: str, c: Mapping[str, str]) -> None:
    """Add the trials of one search method."""
    mine = [(n, t, t.measured) for n, t in enumerate(rows.trials) if t.by == by and t.measured]
    if not mine:
        return
    figure.add_scatter(
        x=[n + 1 for n, _, _ in mine],
        y=[m.median_us for _, _, m in mine],
        name=f"measured, {NAMES[by]}",
        mode="markers",
        marker={"symbol": SYMBOLS[by], "color": c["ink2"], "size": 8},
        error_y=whiskers([m for _, _, m in mine], c["ink3"], thickness=1.2, width=2),
        customdata=[words(n, t) for n, t, _ in mine],
        meta=_meta([(n, t) for n, t, _ in mine], KEYS[by]),
        hovertemplate="%{customdata}<extra></extra>",
    )
