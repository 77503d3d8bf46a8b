"""Roller's construction as a plotly figure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import log10
from typing import Any

import plotly.graph_objects as go

from widgets.draw.plots import colours, number_text, styled
from widgets.roller.staircase import StaircaseRow, StaircaseRows, sentence
from widgets.roller.staircase_picture import MOST

HIGH = 4  # load times above this multiple of compute time are cut off
LETTERS = 96  # letters that fit side by side under the chart of the narrowest page
START = "–"  # a level's first tile has no enlarged axis
WORDS = "%{customdata}<extra></extra>"
MARKS = {  # the symbol of a state by its outcome
    "grows on": "circle-open",
    "compute bound: one level down": "triangle-down",
    "does not fit, or wastes too much": "x-thin-open",
    "a result, by rank": "square",
}


def chart(rows: StaircaseRows, title: str, theme: str) -> go.Figure:
    """Draw the states from left to right: the used share of the tightest limit, and the parent.

    Below, the load time of a unit over its compute time.
    """
    figure, c, steps = go.Figure(), colours(theme), shown_steps(rows.steps)
    at = {s.number: n for n, s in enumerate(steps)}
    _limit(figure, len(steps), c)
    for leads in (False, True):
        _add_growth(figure, [s for s in steps if s.leads == leads], at, rows, leads, c)
    for what in MARKS:
        mine = [s for s in steps if _became(s) == what]
        _states(figure, mine, at, rows, what, c)
    _times(figure, steps, at, rows, c)
    first = min((s.share for s in steps if s.share > 0), default=1.0)
    figure.update_layout(barmode="group", bargap=0.3, yaxis2={"anchor": "x"})
    figure.update_xaxes(
        title={"text": "state (in order; the axis that was enlarged, and the memory level)"},
        tickvals=list(at.values()),
        **_names(steps),
        anchor="y2",
    )
    figure.update_layout(
        yaxis={
            "title": {"text": "capacity used (%)"},
            "domain": [0.46, 1],
            "type": "log",
            "range": [log10(first / 2), log10(2.5)],
            "tickvals": (shares := [10.0**p for p in range(-6, 1)]),
            "ticktext": [number_text(100 * share) for share in shares],
        },
        yaxis2={
            "title": {"text": "time (×)"},
            "domain": [0, 0.38],
            "range": [0, min(HIGH, max([1.0, *(s.ratio for s in steps)])) * 1.08],
        },
    )
    return styled(figure, theme, title, 520)


def shown_steps(steps: Sequence[StaircaseRow]) -> list[StaircaseRow]:
    """Return as many steps as fit: those that lead to results first, then the others in order."""
    ranked = sorted(steps, key=lambda s: (not s.leads, s.number))[:MOST]
    return sorted(ranked, key=lambda s: s.number)


def _limit(figure: go.Figure, count: int, c: Mapping[str, str]) -> None:
    line_name = "all of the tightest limit"
    figure.add_scatter(
        x=[-0.5, count - 0.5],
        y=[1, 1],
        name=line_name,
        mode="lines",
        line={"color": c["bad"], "width": 1.2, "dash": "dash"},
        customdata=[line_name] * 2,
        hovertemplate=WORDS,
    )


def _add_growth(
    figure: go.Figure,
    steps: Sequence[StaircaseRow],
    at: Mapping[int, int],
    rows: StaircaseRows,
    leads: bool,
    c: Mapping[str, str],
) -> None:
    """Add the steps from each tile to those grown from it."""
    by = {s.number: s for s in rows.steps}
    x: list[float | None] = []
    y: list[float | None] = []
    for s in steps:
        parent = by.get(s.parent)
        if parent is not None and parent.number in at:
            x += [at[parent.number], at[s.number], at[s.number], None]
            y += [parent.share, parent.share, s.share, None]
    if x:
        figure.add_scatter(
            x=x,
            y=y,
            name="on the way to a result" if leads else "grown from",
            mode="lines",
            line={
                "color": c["ink2"] if leads else c["edge"],
                "width": 1.6 if leads else 1,
                "dash": "solid" if leads else "dot",
            },
            hoverinfo="skip",
        )


def _states(
    figure: go.Figure,
    steps: Sequence[StaircaseRow],
    at: Mapping[int, int],
    rows: StaircaseRows,
    what: str,
    c: Mapping[str, str],
) -> None:
    if not steps:
        return
    result = what == "a result, by rank"
    takes = {"take": [{"rank": s.rank} for s in steps]} if result and not rows.own else None
    figure.add_scatter(
        x=[at[s.number] for s in steps],
        y=[s.share for s in steps],
        name=what,
        mode="markers+text" if result else "markers",
        text=[str(s.rank + 1) for s in steps] if result else None,
        textposition="top center",
        textfont={"color": c["ink"], "size": 12},
        marker={"symbol": MARKS[what], "color": c["ink"], "size": 12 if result else 9},
        customdata=[sentence(s, rows.score) for s in steps],
        meta=takes,
        hovertemplate=WORDS,
    )


def _times(
    figure: go.Figure,
    steps: Sequence[StaircaseRow],
    at: Mapping[int, int],
    rows: StaircaseRows,
    c: Mapping[str, str],
) -> None:
    """Add the load time over the compute time; above 1 a state is memory bound."""
    for name, values, colour in (
        ("computing", [1.0 for _ in steps], c["t2"]),
        ("loading", [s.ratio for s in steps], c["pane"]),
    ):
        figure.add_bar(
            x=[at[s.number] for s in steps],
            y=values,
            name=name,
            yaxis="y2",
            marker={"color": colour, "line": {"color": c["ink2"], "width": 1}},
            customdata=[sentence(s, rows.score) for s in steps],
            hovertemplate=WORDS,
        )


def _became(s: StaircaseRow) -> str:
    if s.rank >= 0:
        return "a result, by rank"
    if s.verdict.startswith(("does not fit", "eps")):
        return "does not fit, or wastes too much"
    return "compute bound: one level down" if s.verdict.startswith("compute bound") else "grows on"


def _names(steps: Sequence[StaircaseRow]) -> dict[str, Any]:
    """Return the labels of the states: the axis, and for the first of a level its name.

    Names that would overlap in a narrow room are written upright in one line.
    """
    ticks = list(_ticks(steps))
    if any(
        _meet([(n, tick[line]) for n, tick in enumerate(ticks) if tick[line:]], len(ticks))
        for line in (0, 1)
    ):
        return {"ticktext": [", ".join(tick) for tick in ticks], "tickangle": -90}
    return {"ticktext": ["<br>".join(tick) for tick in ticks], "tickangle": 0}


def _meet(words: Sequence[tuple[int, str]], states: int) -> bool:
    """Return True if two words of a line, each under its state, would touch."""
    return any(
        (len(a) + len(b)) / 2 + 1 > (m - n) * LETTERS / states for (n, a), (m, b) in pairwise(words)
    )


def _ticks(steps: Sequence[StaircaseRow]) -> Iterator[tuple[str, ...]]:
    before = ""
    for s in steps:
        axis = START if s.change == "the first tile" else s.axis or START
        yield (axis,) if s.level_name == before else (axis, s.level_name)
        before = s.level_name
