"""Rammer's policies as a plotly figure."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from explorer.tuning.compare_policies import PolicyWall
from widgets.draw.plots import colours, styled
from widgets.draw.table import time_text
from widgets.model.brick_wall import NAMES
from widgets.rammer.view import PolicyWalls

HATCHES = {
    "tail": ".",
    "imbalance": "+",
    "dependency": "\\",
    "barrier": "/",
    "launch": "x",
    "preempted": "|",
    "library": "-",
}  # by cause of idle time; busy time has no hatch


def chart(rammed: PolicyWalls, title: str, theme: str) -> go.Figure:
    """Draw a bar per policy as long as its wall: the busy part, then idle time by cause.

    Each part is a share of units times time.
    """
    c, figure, walls = colours(theme), go.Figure(), rammed.by_policy
    parts = [dict(parts_us(s)) for s in walls]
    for cause in dict.fromkeys(name for part in parts for name in part):
        figure.add_bar(
            x=[part.get(cause, 0.0) for part in parts],
            y=[s.policy for s in walls],
            name=NAMES.get(cause, cause),
            orientation="h",
            marker={
                "color": c["t2"],
                "line": {"color": c["line2"], "width": 1},
                "pattern": {
                    "shape": HATCHES.get(cause, ""),
                    "fillmode": "replace",
                    "fgcolor": c["ink3"],
                    "size": 6,
                },
            },
            meta={"take": [{"more": {"policy": s.policy}} for s in walls]},
            customdata=_words(walls, [part.get(cause, 0.0) for part in parts], cause),
            hovertemplate="%{customdata}<extra></extra>",
        )
    ends = [s.statistics.total_us for s in walls]
    figure.add_scatter(
        x=ends,
        y=[s.policy for s in walls],
        mode="text",
        text=[
            f" {time_text(us)}{', chosen' if s is rammed.chosen else ''}"
            for s, us in zip(walls, ends)
        ],
        textposition="middle right",
        textfont={"color": [c["accent"] if s is rammed.chosen else c["ink"] for s in walls]},
        cliponaxis=False,
        hoverinfo="skip",
        showlegend=False,
    )
    figure.update_xaxes(
        title=f"length of the wall (µs), {rammed.kind}", range=[0, 1.25 * max(ends, default=1.0)]
    )
    figure.update_yaxes(title="policy", autorange="reversed")
    return styled(figure, theme, title, 180 + 40 * max(3, len(walls)), barmode="stack")


def parts_us(s: PolicyWall) -> tuple[tuple[str, float], ...]:
    """Return the parts of a wall, in microseconds of its length."""
    a = s.statistics
    return (("busy", a.total_us * a.busy), *((cause, us / a.units) for cause, us in a.idle))


def _words(walls: Sequence[PolicyWall], lengths: Sequence[float], cause: str) -> list[str]:
    cause_text, totals = NAMES.get(cause, cause), [s.statistics.total_us for s in walls]
    return [
        f"{s.policy}: {cause_text} {us / (total or 1):.1%} of {time_text(total)}"
        for s, us, total in zip(walls, lengths, totals)
    ]
