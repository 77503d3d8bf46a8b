"""Memory over time as a plotly figure."""

from __future__ import annotations

import plotly.graph_objects as go

from widgets.draw.plots import colours, styled
from widgets.draw.table import size_text
from widgets.memory.memory_plan import MemoryRows
from widgets.memory.memory_policies import PolicyRows

MIB = 2**20


def chart(found: tuple[MemoryRows, PolicyRows], title: str, theme: str) -> go.Figure:
    """Bytes of intermediates that live at each call, and what the arena and unshared buffers
    take.
    """
    (rows, _), c, figure = found, colours(theme), go.Figure()
    calls = list(range(len(rows.live)))
    figure.add_scatter(
        x=calls,
        y=[count / MIB for count in rows.live],
        name="live",
        mode="lines",
        line={"color": c["ink2"], "shape": "hvh", "width": 1},
        fill="tozeroy",
        fillcolor=c["line"],
        customdata=[_words(rows, n) for n in calls],
        hovertemplate="%{customdata}<extra></extra>",
    )
    for name, count, dash in (
        ("arena", rows.planned_bytes, "solid"),
        ("unshared", rows.naive_bytes, "dash"),
    ):
        figure.add_scatter(
            x=calls[:1] + calls[-1:],
            y=[count / MIB] * len(calls[:1] + calls[-1:]),
            name=name,
            mode="lines",
            line={"color": c["ink"], "dash": dash, "width": 1.5},
            customdata=[f"{name}: {size_text(count)}"] * len(calls[:1] + calls[-1:]),
            hovertemplate="%{customdata}<extra></extra>",
        )
    figure.update_xaxes(title="call (position in the launch order)")
    figure.update_yaxes(title="intermediates (MiB)", rangemode="tozero")
    return styled(figure, theme, title, 420)


def _words(rows: MemoryRows, call: int) -> str:
    """What lives at a call: how much, and the largest buffers."""
    mine = [b for b in rows.buffers if b.first <= call <= b.last]
    most = sorted(mine, key=lambda b: -b.bytes)[:3]
    held = "".join(f"<br>{b.name}: {size_text(b.bytes)}" for b in most)
    return f"call {call}: {size_text(rows.live[call])} in {len(mine)} buffers{held}"
