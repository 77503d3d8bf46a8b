"""A sweep as plotly figures: its points, the least time of each pair of values, a live chart.

The points are lines through their varied values, and time over memory; those that no other
point beats form the front.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from explorer.errors import BadOption
from explorer.tuning.sweep import Sweep
from explorer.tuning.sweep_rows import FAILED, MEASURED, SweepRow
from widgets.draw.plots import colours, styled
from widgets.draw.table import time_text

HEIGHT, KIB = 800, 1024
MARKS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "pentagon", "star")
SURFACE_HEIGHT = 420
PAUSE = 0.5  # seconds between two drawings of a live chart; chosen
ABOVE, LEGEND = 130, 0.47  # pixels over the lines; where the legend stands, over the points


def chart(sweep: Sweep, theme: str = "either") -> go.Figure:
    """Draw a line per point through its varied values to its time; below, time over memory.

    A menu selects one group of comparable points. Below, memory between kernels is shown, with each
    group's front in colour and joined. Raises BadOption if every point failed.
    """
    groups = tuple(sweep.comparable.items())
    if not groups:
        raise BadOption(f"every point of the sweep of {sweep.model} failed", where=sweep.model)
    figure = make_subplots(
        rows=2, cols=1, specs=[[{"type": "domain"}], [{"type": "xy"}]], vertical_spacing=0.2
    )
    for number, (_, rows) in enumerate(groups):
        figure.add_trace(_lines(sweep, rows, theme, visible=number == 0), row=1, col=1)
    for number, (name, rows) in enumerate(groups):
        for trace in _points(name, rows, sweep.front[name], number, theme):
            figure.add_trace(trace, row=2, col=1)
    figure.update_xaxes(title="time per run (µs), measured where a clock ran", rangemode="tozero")
    figure.update_yaxes(title="memory between kernels (KiB)", rangemode="tozero")
    failed = f", {len(sweep.failures)} failed" if sweep.failures else ""
    title = f"Sweep of {sweep.model}: {len(sweep.rows)} points{failed}"
    menu = {"updatemenus": [_menu(groups, len(figure.data))]} if len(groups) > 1 else {}
    styled(figure, theme, title, HEIGHT, **menu)
    return figure.update_layout(
        margin={"t": ABOVE, "r": 60}, legend={"yref": "paper", "y": LEGEND, "yanchor": "bottom"}
    )


def _lines(sweep: Sweep, rows: Sequence[SweepRow], theme: str, visible: bool) -> go.Parcoords:
    c = colours(theme)
    times = [row.us for row in rows]
    dimensions: list[dict[str, Any]] = []
    for name, texts in sweep.vary:
        if len({dict(row.varied)[name] for row in rows}) < 2:
            continue  # the same for all of them, as the sizes are
        places = {text: n for n, text in enumerate(texts)}
        dimensions.append(
            {
                "label": name,
                "values": [places[dict(row.varied)[name]] for row in rows],
                "tickvals": list(places.values()),
                "ticktext": list(places),
                "range": [0, max(1, len(texts) - 1)],
            }
        )
    source = "measured" if rows[0].kind == MEASURED else "predicted"
    dimensions.append({"label": f"µs, {source}", "values": times})
    return go.Parcoords(
        dimensions=dimensions,
        line={"color": times, "colorscale": [[0, c["accent"]], [1, c["ink3"]]]},
        labelfont={"color": c["ink"]},
        tickfont={"color": c["ink2"]},
        rangefont={"color": c["ink2"]},
        visible=visible,
    )


def _points(
    name: str, rows: Sequence[SweepRow], front: Sequence[SweepRow], number: int, theme: str
) -> tuple[go.Scatter, go.Scatter]:
    c = colours(theme)
    same = {"legendgroup": name, "marker": {"symbol": MARKS[number % len(MARKS)], "size": 8}}
    words = [" ".join(f"{n}={t}" for n, t in row.varied) + f"<br>{row.words}" for row in rows]
    every = go.Scatter(
        x=[row.us for row in rows],
        y=[row.arena_bytes / KIB for row in rows],
        mode="markers",
        name=short_group_name(name),
        customdata=words,
        hovertemplate="%{customdata}<extra></extra>",
        marker_color=c["ink3"],
        **same,
    )
    best = go.Scatter(
        x=[row.us for row in front],
        y=[row.arena_bytes / KIB for row in front],
        mode="lines+markers",
        showlegend=False,
        line={"color": c["accent"], "shape": "hv"},
        marker_color=c["accent"],
        hoverinfo="skip",
        **same,
    )
    return every, best


def _menu(groups: Sequence[tuple[str, Sequence[SweepRow]]], traces: int) -> dict[str, Any]:
    """Return the menu of the group whose lines are shown; the points below stay."""
    count = len(groups)
    return {
        "x": 0.0,
        "xanchor": "left",
        "y": 1.09,
        "yanchor": "bottom",
        "buttons": [
            {
                "label": short_group_name(name),
                "method": "restyle",
                "args": [
                    {"visible": [n == number for n in range(count)] + [True] * (traces - count)}
                ],
            }
            for number, (name, _) in enumerate(groups)
        ],
    }


def short_group_name(name: str) -> str:
    """Return the sizes and the processor of a group, without the other parts of the card."""
    return ", ".join(name.partition(";")[0].split(", L1")[0].split(", ")[:3])


def surface(sweep: Sweep, over: tuple[str, str], theme: str = "either") -> go.Figure:
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
            customdata=[[_point_words(row) if row else "" for row in line] for line in cells],
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
    return styled(figure, theme, title, SURFACE_HEIGHT).update_layout(margin={"t": 56})


def _on(row: SweepRow, over: tuple[str, str]) -> str:
    """Return what the points of one surface share: the machine, and sizes that are on no axis."""
    sizes = [f"{n}={t} " for n, t in row.varied if n.startswith("bind.") and n not in over]
    card = (
        f"measured on {short_group_name(row.card)}"
        if row.kind == MEASURED
        else "predicted on data sheets"
    )
    return "".join(sizes) + card


def _point_words(row: SweepRow) -> str:
    return " ".join(f"{n}={t}" for n, t in row.varied) + f"<br>{row.words}"


class LiveSweep:
    """A live chart: pass it to `explorer.sweep` as `arrived`, and show `figure`, a widget."""

    def __init__(self, theme: str = "either") -> None:
        """Create an empty chart."""
        self.theme = theme
        empty = styled(go.Figure(), theme, "Sweep: no point has arrived", HEIGHT)
        self.figure: Any = go.FigureWidget(empty)
        self._drawn = 0.0

    def __call__(self, sweep: Sweep) -> None:
        """Draw the present points, unless that was done just now."""
        now = monotonic()
        if now - self._drawn >= PAUSE and sweep.comparable:
            self.draw(sweep)
            self._drawn = now

    def draw(self, sweep: Sweep) -> None:
        """Draw the present points; raises BadOption if every point failed."""
        new = chart(sweep, self.theme)
        with self.figure.batch_update():
            self.figure.data = ()
            self.figure.layout = new.layout
        self.figure.add_traces(new.data)
