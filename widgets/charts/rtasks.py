"""The rOperators with the most work as a plotly figure."""

from __future__ import annotations

import plotly.graph_objects as go

from widgets.draw.plots import colours, least_height, styled
from widgets.draw.table import time_text
from widgets.rammer.rtasks_picture import SelectedKernel, most_work
from widgets.rammer.view import PolicyWalls


def chart(rammed: PolicyWalls, title: str, theme: str) -> go.Figure:
    """Draw a bar per rOperator: its rTasks times the time of one.

    Outlined if the time is modelled, filled if it is measured.
    """
    c, figure, rows = colours(theme), go.Figure(), most_work(rammed)
    names = [f"{n + 1}  {row.label}" for n, row in enumerate(rows)]
    for source, fill in (("predicted", c["pane"]), ("measured", c["t2"])):
        mine = [
            n
            for n, row in enumerate(rows)
            if (row.kernel.source == "measured") == (fill != c["pane"])
        ]
        figure.add_bar(
            x=[rows[n].us for n in mine],
            y=[names[n] for n in mine],
            name=f"{source} time of a task",
            orientation="h",
            marker={"color": fill, "line": {"color": c["ink2"], "width": 1}},
            customdata=[_words(rows[n]) for n in mine],
            selected={"marker": {"color": c["accent"], "opacity": 1}},
            unselected={"marker": {"opacity": 1}},
            meta={
                "ops": [sorted(rows[n].operator.origin) for n in mine],
                "k": [f"{source} row:{n}" for n in mine],
            },
            hovertemplate="%{customdata}<extra></extra>",
        )
    figure.update_layout(barmode="stack", bargap=0.3, meta=least_height(len(names)))
    figure.update_xaxes(title="rTasks × time of one (µs), most work first")
    figure.update_yaxes(
        title="rOperator",
        categoryorder="array",
        categoryarray=names,
        autorange="reversed",
    )
    return styled(figure, theme, title, max(300, 150 + 22 * len(names)))


def _words(row: SelectedKernel) -> str:
    k = row.kernel
    return (
        f"{row.label}: {k.tasks:,} × {time_text(k.task_us)} = {time_text(row.us)}, "
        f"{row.name}, {k.source}<br>{row.operator.name} in the program"
    )
