"""The time of a run without each step, as a plotly figure."""

from __future__ import annotations

import plotly.graph_objects as go

from explorer.stepping.leave_out import LeftOut
from widgets.draw.plots import colours, styled
from widgets.draw.table import size_text, time_text
from widgets.timed.ablation import AblationRows


def chart(ablation: AblationRows, title: str, theme: str) -> go.Figure:
    """Draw a bar per step, from the time with all steps to the time without it.

    An outline for the plan, filled for the measurement. The effects do not add up.
    """
    c, figure = colours(theme), go.Figure()
    rows = [r for r in ablation.rows if r.cost is not None]
    names = [r.step for r in rows]
    ratios = [
        r.cost.us / ablation.all_steps.us if r.cost and ablation.all_steps.us else 1.0 for r in rows
    ]
    figure.add_bar(
        x=[r - 1 for r in ratios],
        base=1.0,
        y=names,
        name="predicted",
        orientation="h",
        marker={"color": c["pane"], "line": {"color": c["ink2"], "width": 1.2}},
        customdata=[_words(r, ablation) for r in rows],
        meta={"k": [f"predicted step:{ablation.rows.index(r)}" for r in rows]},
        hovertemplate="%{customdata}<extra></extra>",
    )
    timed = [r for r in rows if r.measured is not None]
    if timed:
        speeds = [r.measured for r in timed if r.measured is not None]
        figure.add_bar(
            x=[1 / m.ratio - 1 for m in speeds],
            base=1.0,
            y=[r.step for r in timed],
            name="measured",
            orientation="h",
            marker={"color": c["t2"], "line": {"color": c["line2"], "width": 1}},
            error_x={
                "type": "data",
                "symmetric": False,
                "array": [1 / m.low - 1 / m.ratio for m in speeds],
                "arrayminus": [1 / m.ratio - 1 / m.high for m in speeds],
                "color": c["ink"],
            },
            customdata=[_words(r, ablation) for r in timed],
            meta={"k": [f"measured step:{ablation.rows.index(r)}" for r in timed]},
            hovertemplate="%{customdata}<extra></extra>",
        )
    figure.update_xaxes(title="time per run without the step ÷ with all steps")
    figure.update_yaxes(title="step left out alone", autorange="reversed")
    figure.add_vline(x=1.0, line={"color": c["ink"], "width": 1})
    height = 160 + 34 * max(3, len(rows))
    return styled(figure, theme, title, height, bargap=0.3, showlegend=True)


def _words(r: LeftOut, ablation: AblationRows) -> str:
    assert r.cost is not None, "only steps that can be left out are drawn"
    more = r.cost.us - ablation.all_steps.us
    text = (
        f"without {r.step}: predicted {time_text(r.cost.us)} ({more:+.2f} µs), "
        f"{size_text(r.cost.bytes)} of memory, {r.cost.kernels} kernels"
    )
    if r.measured is None:
        return text
    m = r.measured
    interval = f"{1 / m.high:.3f} to {1 / m.low:.3f}"
    return f"{text}<br>measured: {1 / m.ratio:.3f} times as long ({interval})"
