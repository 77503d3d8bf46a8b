"""Peak memory of each policy as a plotly figure."""

from __future__ import annotations

import plotly.graph_objects as go

from widgets.draw.plots import byte_unit, colours, styled
from widgets.draw.table import size_text
from widgets.memory.memory_policies import PolicyRow, PolicyRows


def chart(policies: PolicyRows, title: str, theme: str) -> go.Figure:
    """Draw a bar per policy, and a line at the live bytes, the lower bound of every plan."""
    c, figure, rows = colours(theme), go.Figure(), policies.policies
    keys = [f"policy:{n}{' used' * p.used}" for n, p in enumerate(rows)]
    unit, size = byte_unit(max((p.bytes or 0 for p in rows), default=0))
    figure.add_bar(
        x=[(p.bytes or 0) / size for p in rows],
        y=[p.name for p in rows],
        name="bytes taken, predicted",
        orientation="h",
        marker={
            "color": [c["ink2" if p.used else "t2"] for p in rows],
            "line": {"color": c["line2"], "width": 1},
        },
        customdata=[_words(p) for p in rows],
        meta={"k": keys},
        hovertemplate="%{customdata}<extra></extra>",
    )
    figure.add_scatter(
        x=[(p.bytes or 0) / size for p in rows],
        y=[p.name for p in rows],
        mode="text",
        text=[f" {_end(p)}" for p in rows],
        textposition="middle right",
        textfont={"color": c["ink"]},
        cliponaxis=False,
        meta={"k": keys},
        hoverinfo="skip",
        showlegend=False,
    )
    line_name = f"lives at once: {size_text(policies.least)}"
    figure.add_scatter(
        x=[policies.least / size] * 2,
        y=[rows[0].name, rows[-1].name],
        name=line_name,
        mode="lines",
        line={"color": c["bad"], "width": 1.4, "dash": "dash"},
        customdata=[f"{line_name} at most; no plan of this order takes less"] * 2,
        meta={"k": "least"},
        hovertemplate="%{customdata}<extra></extra>",
    )
    most = max((p.bytes or 0 for p in rows), default=0) / size
    figure.update_xaxes(title=f"intermediates ({unit})", range=[0, 1.3 * (most or 1)])
    figure.update_yaxes(title="policy", autorange="reversed")
    return styled(figure, theme, title, 180 + 40 * max(3, len(rows)), bargap=0.4, showlegend=True)


def _end(p: PolicyRow) -> str:
    if p.bytes is None:
        return "not possible"
    return f"{size_text(p.bytes)}{', in use' if p.used else ''}"


def _words(p: PolicyRow) -> str:
    if p.bytes is None:
        return f"{p.name}: not possible, {p.note}"
    formula = f"<br>= {p.formula} B" if p.formula and not p.formula.isdigit() else ""
    return f"{p.name}: {p.bytes:,} B; {p.note}{formula}"
