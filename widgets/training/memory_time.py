"""Memory against time, with a slider through the candidates of rematerialisation."""

from __future__ import annotations

import plotly.graph_objects as go

from explorer.compilation import Compilation
from widgets.draw.plots import colours
from widgets.draw.table import size_text
from widgets.training.memory_front import FrontPoint, chart, mark, points, units


def memory_time(c: Compilation, *, theme: str = "either") -> go.Figure:
    """Plot the front, with a slider or arrow keys that go through its points."""
    colour, rows = colours(theme), points(c)
    taken = next((n for n, p in enumerate(rows) if p.taken), 0)
    figure = chart(rows, rows[taken].words, theme)
    figure.data = figure.data[:1]
    for n, p in enumerate(rows):
        mark(figure, [p], "taken here" if p.taken else "evaluated", colour, units(rows), n == taken)
    figure.update_layout(margin_b=124, sliders=[_slider(rows, taken, colour)])
    return figure


def _slider(rows: tuple[FrontPoint, ...], taken: int, c: dict[str, str]) -> dict[str, object]:
    steps = [
        {
            "label": size_text(p.peak_bytes),
            "method": "update",
            "args": [
                {"visible": [True, *(n == m for m in range(len(rows)))]},
                {"title.text": p.words},
            ],
        }
        for n, p in enumerate(rows)
    ]
    paint = {"bgcolor": c["line"], "bordercolor": c["line2"], "activebgcolor": c["accent"]}
    now = {"prefix": "at once: ", "font": {"color": c["ink2"]}}
    return paint | {
        "active": taken,
        "steps": steps,
        "currentvalue": now,
        "tickcolor": c["line2"],
        "pad": {"t": 62},
    }
