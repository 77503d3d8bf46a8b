"""The roofline as a plotly figure."""

from __future__ import annotations

from collections.abc import Sequence
from math import log10

import plotly.graph_objects as go

from widgets.draw.plots import colours, styled
from widgets.draw.table import rate_text, speed_text
from widgets.model.brick_wall import units_text
from widgets.roller.roofline import COMPUTE, Roof, RooflinePoint, RooflineRows, point_words

SYMBOLS = ("circle", "square", "triangle-up", "diamond", "cross")  # compute, then by level
DECADE, MOST = 55, 600  # pixels: of a decade of speed, of a chart
LINE = 0.35  # decades that a line of a label takes: 17 of 55 pixels, and a little more
WORDS = "%{customdata}<extra></extra>"


def chart(rows: RooflineRows, title: str, theme: str) -> go.Figure:
    """Draw speed over operations per byte, both logarithmic, with a roof per memory level.

    A tile's mark is an outline at its predicted speed, and filled at its measured speed.
    """
    figure = go.Figure()
    _roofs(figure, rows, colours(theme))
    order = (COMPUTE, *rows.levels)
    for bound in dict.fromkeys(map(rows.binds, rows.points)):
        mine = [n for n, p in enumerate(rows.points) if rows.binds(p) == bound]
        symbol = SYMBOLS[order.index(bound) % len(SYMBOLS)] if bound in order else SYMBOLS[0]
        _tiles(figure, rows, mine, symbol, colours(theme))
    _on_show(figure, rows, colours(theme))
    figure.update_xaxes(
        title="operations for each byte from the level that bounds the tile (operations/B)",
        type="log",
    )
    timed = "" if rows.errors else ", predicted"
    figure.update_yaxes(title=f"speed (GFLOP/s){timed}", type="log")
    return styled(figure, theme, title, 460, meta={"least": _least(rows)})


def _least(rows: RooflineRows) -> int:
    """Return the least height at which the names of roofs do not overlap."""
    speeds = [s for p in rows.points for s in (p.modelled, p.measured) if s > 0]
    speeds += [peak for _, peak in rows.peaks if peak > 0]
    low = _ends(rows, max(dict(rows.peaks), default=1))[0]
    speeds += [r.gb_per_s * low for r in rows.roofs if r.gb_per_s > 0]
    decades = log10(max(speeds, default=1.0)) - log10(min(speeds, default=1.0))
    return min(MOST, 120 + round(DECADE * decades))


def _ends(rows: RooflineRows, most: int) -> tuple[float, float]:
    """Return the range of the axis around every point and knee, in operations per byte."""
    peak = dict(rows.peaks).get(most, 0.0)
    knees = [peak / r.gb_per_s for r in rows.roofs if r.units == most and r.gb_per_s > 0]
    intensities = [x for x in (*(p.intensity for p in rows.points), *knees) if x > 0] or [1.0]
    return min(intensities) / 2, max(intensities) * 2


def _roofs(figure: go.Figure, rows: RooflineRows, c: dict[str, str]) -> None:
    """Add each roof as a line up to its peak: solid for all units, dashed for one alone."""
    peaks = dict(rows.peaks)
    most = max(peaks, default=1)
    low, high = _ends(rows, most)
    named: set[int] = set()
    ends: list[tuple[Roof, float]] = []
    for r in rows.roofs:
        peak = peaks[r.units]
        if r.gb_per_s <= 0 or peak <= 0:
            continue
        at = sorted({low, max(low, min(peak / r.gb_per_s, high)), high})
        of_all_units, units = r.units == most, units_text(r.units, rows.device)
        figure.add_scatter(
            x=at,
            y=[min(peak, r.gb_per_s * x) for x in at],
            name=f"roofs of {units}{', as all load together' if of_all_units and most > 1 else ''}",
            legendgroup=units,
            showlegend=r.units not in named,
            mode="lines",
            line={
                "color": c["ink"] if of_all_units else c["ink3"],
                "width": 1.5 if of_all_units else 1,
                "dash": "solid" if of_all_units else "dash",
            },
            customdata=[f"{r.level} of {units}: {rate_text(r.gb_per_s)}, peak {speed_text(peak)}"]
            * len(at),
            meta={"k": f"roof roof:{rows.levels.index(r.level)}{' all' * of_all_units}"},
            hovertemplate=WORDS,
        )
        named.add(r.units)
        if of_all_units:
            ends.append((r, log10(min(peak, r.gb_per_s * low))))
    for roofs, y in label_groups(ends):
        _name(figure, rows, roofs, log10(low), y, c)


def label_groups(ends: Sequence[tuple[Roof, float]]) -> list[tuple[list[Roof], float]]:
    """Group roofs whose labels would overlap, from the top, each with the decade of its first roof.

    A label of n roofs takes n lines downwards from the left end of its first roof. `ends` are roofs
    with the decade of speed at their left ends.
    """
    groups: list[tuple[list[Roof], float]] = []
    for roof, y in sorted(ends, key=lambda end: -end[1]):
        if groups and groups[-1][1] - y < LINE * len(groups[-1][0]):
            groups[-1][0].append(roof)
        else:
            groups.append(([roof], y))
    return groups


def _name(
    figure: go.Figure,
    rows: RooflineRows,
    roofs: Sequence[Roof],
    x: float,
    y: float,
    c: dict[str, str],
) -> None:
    """Add the label of roofs below the left end of the first; its ground covers other roofs."""
    figure.add_annotation(
        text="<br>".join(f"{r.level} {rate_text(r.gb_per_s)}" for r in roofs),
        x=x,
        y=y,
        align="left",
        xanchor="left",
        yanchor="top",
        showarrow=False,
        bgcolor=c["pane"],
        borderpad=1,
        font={"color": c["ink"], "size": 12},
        name=" ".join(f"roof roof:{rows.levels.index(r.level)} all" for r in roofs),
    )


def _tiles(
    figure: go.Figure, rows: RooflineRows, mine: Sequence[int], symbol: str, c: dict[str, str]
) -> None:
    """Add the tiles with the same bound: predicted and measured."""
    bound = rows.binds(rows.points[mine[0]])
    timed = [n for n in mine if rows.points[n].measured > 0]
    for numbers, measured in ((mine, False), (timed, True)):
        points: list[RooflinePoint] = [rows.points[n] for n in numbers]
        if points:
            figure.add_scatter(
                x=[p.intensity for p in points],
                y=[p.measured if measured else p.modelled for p in points],
                name=f"{'measured' if measured else 'predicted'}, bound by {bound}",
                mode="markers",
                marker={
                    "symbol": symbol if measured else f"{symbol}-open",
                    "color": c["ink"],
                    "size": 9,
                },
                customdata=[point_words(p, n) for p, n in zip(points, numbers)],
                meta={
                    "take": [{"rank": n} for n in numbers],
                    "k": [
                        f"tile {'measured' if measured else 'predicted'} tile:{n}" for n in numbers
                    ],
                },
                hovertemplate=WORDS,
            )


def _on_show(figure: go.Figure, rows: RooflineRows, c: dict[str, str]) -> None:
    """Add a ring around the tile on show."""
    for p in rows.points[rows.rank : rows.rank + 1]:
        figure.add_scatter(
            x=[p.intensity],
            y=[p.modelled],
            name="current",
            mode="markers",
            marker={"symbol": "circle-open", "color": c["accent"], "size": 15, "line_width": 2},
            customdata=[point_words(p, rows.rank)],
            meta={"k": f"current tile:{rows.rank}"},
            hovertemplate=WORDS,
        )
