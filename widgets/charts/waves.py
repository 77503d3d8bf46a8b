"""Waves of tasks as a plotly figure."""

from __future__ import annotations

import plotly.graph_objects as go

from widgets.draw.plots import colours, least_height, styled
from widgets.model.brick_wall import units_text
from widgets.roller.scale_out import WaveRows, words


def chart(rows: WaveRows, title: str, theme: str) -> go.Figure:
    """Draw a bar per tile: the busy share of all units' time, then the idle share at the end."""
    c, figure = colours(theme), go.Figure()
    names = [f"{n + 1}  {tile}" for n, tile in enumerate(rows.tiles)]
    inks = [c["accent" if n == rows.rank else "t2"] for n in range(len(names))]
    used = [100 * w.efficiency for w in rows.waves]
    for key, name, values, marker in (
        ("used", "in use", used, {"color": inks}),
        (
            "idle",
            "idle in the last wave",
            [100 - share for share in used],
            {
                "color": c["pane"],
                "pattern": {
                    "shape": ".",
                    "fillmode": "replace",
                    "fgcolor": c["ink3"],
                    "size": 6,
                },
            },
        ),
    ):
        figure.add_bar(
            x=values,
            y=names,
            name=name,
            orientation="h",
            marker={**marker, "line": {"color": c["line2"], "width": 1}},
            customdata=[words(rows, n) for n in range(len(names))],
            meta={
                "take": [{"rank": n} for n in range(len(names))],
                "k": [f"{key} tile:{n}" for n in range(len(names))],
            },
            hovertemplate="%{customdata}<extra></extra>",
        )
    figure.update_layout(barmode="stack", bargap=0.35, meta=least_height(len(names)))
    units = units_text(rows.waves[0].units, rows.device) if rows.waves else "all"
    figure.update_xaxes(title=f"time of {units} (%)", range=[0, 100])
    figure.update_yaxes(title="tile (by rank)", autorange="reversed")
    return styled(figure, theme, title, max(300, 150 + 26 * len(names)))
