"""A sweep over two varied options as a surface: the least time for each pair of values."""

from __future__ import annotations

import plotly.graph_objects as go

from explorer.errors import BadOption
from explorer.tuning.sweep import Sweep
from explorer.tuning.sweep.rows import FAILED, MEASURED, SweepRow
from widgets.charts.sweeps.lines import short_group_name
from widgets.draw.plots import colours, styled
from widgets.draw.table import time_text

HEIGHT = 420


def chart(sweep: Sweep, over: tuple[str, str], theme: str = "either") -> go.Figure:
    """Draw a cell for each pair of values of `over`: the fastest point with both.

    All points are of one machine, the one with the most points. Hovering shows a point's other
    values. A pair that failed or was not tried yet is empty. Raises BadOption if either was not
    varied, or if every point failed.
    """
    vary = dict(sweep.vary)
    for name in over:
        if name not in vary or over[0] == over[1]:
            varied_names = ", ".join(vary)
            raise BadOption(
                f"a surface is over two of what was varied, not {name!r} of {' and '.join(over)}",
                where="over",
                expected=varied_names,
            )
    groups: dict[str, list[SweepRow]] = {}
    for row in sweep.rows:
        if row.kind != FAILED:
            groups.setdefault(_on(row, over), []).append(row)
    if not groups:
        raise BadOption(f"every point of the sweep of {sweep.model} failed", where=sweep.model)
    group, rows = max(groups.items(), key=lambda pair: len(pair[1]))
    least: dict[tuple[str, str], SweepRow] = {}
    for row in sorted(rows, key=lambda row: row.us or 0.0):
        varied = dict(row.varied)
        least.setdefault((varied[over[0]], varied[over[1]]), row)
    across, up = vary[over[0]], vary[over[1]]
    cells = [[least.get((x, y)) for x in across] for y in up]
    c = colours(theme)
    figure = go.Figure(
        go.Heatmap(
            x=across,
            y=up,
            z=[[row.us if row else None for row in line] for line in cells],
            text=[[time_text(row.us or 0) if row else "" for row in line] for line in cells],
            customdata=[[_words(row) if row else "" for row in line] for line in cells],
            texttemplate="%{text}",
            hovertemplate="%{customdata}<extra></extra>",
            colorscale=[[0, c["accent"]], [1, c["line"]]],
            colorbar={"title": "time per run (µs)"},
            xgap=2,
            ygap=2,
        )
    )
    figure.update_xaxes(title=over[0], type="category")
    figure.update_yaxes(title=over[1], type="category")
    more = f"; {len(groups) - 1} more groups are not shown" if len(groups) > 1 else ""
    title = f"Sweep of {sweep.model}: the least µs, {group}{more}"
    return styled(figure, theme, title, HEIGHT).update_layout(margin={"t": 56})


def _on(row: SweepRow, over: tuple[str, str]) -> str:
    """Return what the points of one surface share: the machine, and sizes that are on no axis."""
    sizes = [f"{n}={t} " for n, t in row.varied if n.startswith("bind.") and n not in over]
    card = (
        f"measured on {short_group_name(row.card)}"
        if row.kind == MEASURED
        else "predicted on data sheets"
    )
    return "".join(sizes) + card


def _words(row: SweepRow) -> str:
    return " ".join(f"{n}={t}" for n, t in row.varied) + f"<br>{row.words}"
