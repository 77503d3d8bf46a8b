"""The kernels of a program as a plotly figure: floor, planned and measured time of each."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from explorer.devices.catalogue import unit_word
from widgets.draw.plots import colours, least_height, styled
from widgets.draw.table import size_text, time_text
from widgets.timed.kernel_table import KernelRow, KernelRows
from widgets.timed.kernel_table_picture import MOST
from widgets.timed.measured_text import measured_text, whiskers

ROOM = 1.26  # times the longest: for the words behind its bar
CUT = 2.0  # times the longest: no interval is drawn further


def chart(rows: KernelRows, title: str, theme: str) -> go.Figure:
    """Draw two bars per kernel, one inside the other, and a mark at the floor.

    The planned time is an outline; the measured time is filled, with its interval.
    """
    c, figure, shown = colours(theme), go.Figure(), rows.kernels[:MOST]
    names = [f"{n + 1}  {k.label}" for n, k in enumerate(shown)]
    lit = {"marker": {"color": c["accent"], "opacity": 1}}
    common = {"orientation": "h", "hovertemplate": "%{customdata}<extra></extra>"}
    figure.add_bar(
        x=[k.planned_us for k in shown],
        y=names,
        name="predicted",
        width=0.72,
        marker={"color": c["pane"], "line": {"color": c["ink2"], "width": 1}},
        customdata=list(map(words, shown)),
        selected={"marker": {"color": c["soft"], "opacity": 1}},  # the clock's bar stands on it
        unselected={"marker": {"opacity": 1}},
        meta={
            "ops": [list(k.ops) for k in shown],
            "k": [f"predicted kernel:{n}" for n in range(len(shown))],
        },
        **common,
    )
    timed = [(n, k, k.measured) for n, k in enumerate(shown) if k.measured]
    if timed:
        figure.add_bar(
            x=[m.median_us for _, _, m in timed],
            y=[names[n] for n, _, _ in timed],
            name="measured, 99 % interval",
            width=0.36,
            marker={"color": c["t2"], "line": {"color": c["line2"], "width": 1}},
            error_x=whiskers([m for _, _, m in timed], c["ink"], thickness=1.4, width=3),
            customdata=[words(k) for _, k, _ in timed],
            selected=lit,
            unselected={"marker": {"opacity": 1}},
            meta={
                "ops": [list(k.ops) for _, k, _ in timed],
                "k": [f"measured kernel:{n}" for n, _, _ in timed],
            },
            **common,
        )
    floors = [(n, k) for n, k in enumerate(shown) if k.floor]
    figure.add_scatter(
        x=[k.floor.us for _, k in floors if k.floor],
        y=[names[n] for n, _ in floors],
        name="floor, predicted",
        mode="markers",
        marker={
            "symbol": "line-ns-open",
            "size": 13,
            "color": c["bad"],
            "line": {"width": 2, "color": c["bad"]},
        },
        customdata=[words(k) for _, k in floors],
        meta={"k": [f"floor kernel:{n}" for n, _ in floors]},
        hovertemplate="%{customdata}<extra></extra>",
    )
    ends, cut = list(map(_end, shown)), _cut(shown)
    _shares(figure, shown, names, cut, c["ink"])
    most = min(cut, max(ends, default=1.0))
    figure.update_layout(barmode="overlay", meta=least_height(len(shown)))
    figure.update_xaxes(
        title=f"time of a kernel on its busiest {unit_word(rows.device)} (µs), longest first",
        range=[0, ROOM * most],
        side="top",
    )
    figure.update_yaxes(
        title="kernel",
        categoryorder="array",
        categoryarray=names,
        autorange="reversed",
    )
    return styled(figure, theme, title, max(300, 150 + 24 * len(names)), showlegend=True)


def _shares(
    figure: go.Figure, shown: Sequence[KernelRow], names: list[str], cut: float, ink: str
) -> None:
    """Write behind each bar its distance from the floor, and the end of an interval that is cut."""
    texts, cut_off = [], [_end(k) > cut for k in shown]
    for k, off in zip(shown, cut_off, strict=True):
        text = f"floor is {k.share:.0%}" if k.floor else "no floor"
        texts.append(f"to {time_text(_end(k))}; {text}" if off else f"  {text}")
    figure.add_scatter(
        x=[min(_end(k), cut) for k in shown],
        y=names,
        mode="text",
        text=texts,
        textposition=["top left" if off else "middle right" for off in cut_off],
        textfont={"color": ink, "size": 12},
        cliponaxis=False,
        meta={"k": [f"kernel:{n}" for n in range(len(shown))]},
        hoverinfo="skip",
        showlegend=False,
    )


def _cut(shown: Sequence[KernelRow]) -> float:
    """Return the end of the axis.

    A longer interval shows a disturbed machine and would leave no room for the others.
    """
    return CUT * max((max(k.planned_us, k.us) for k in shown), default=1.0)


def _end(k: KernelRow) -> float:
    high = k.measured.high_us if k.measured else 0.0
    return max(k.planned_us, high, k.floor.us if k.floor else 0.0)


def words(k: KernelRow) -> str:
    """Describe a kernel in a sentence."""
    text = f"{k.label} ({k.call}): predicted {time_text(k.planned_us)}"
    if k.measured:
        text += f"<br>{measured_text(k.measured)}"
    f = k.floor
    if f is None:
        return f"{text}<br>no floor: a run alone tells its sizes"
    how = "at peak" if f.bound == "compute" else f"through {f.bound}"
    return (
        f"{text}<br>floor {time_text(f.us)} {how}: {f.operations:,} operations"
        f"<br>{size_text(f.bytes)}; {k.share:.0%} of what the device can do"
    )
