"""Replicas over time as a chart: all-reduces of late layers under early layers' backward pass.

The ordinary form, with sums after the passes and host reads, can be shown next to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

import plotly.graph_objects as go

from explorer.training.runs.timeline import What
from widgets.draw.plots import colours, least_height, styled
from widgets.training.replica_rows import WORDS, Bar, ReplicaRun, Run, caption, data

TOKENS: dict[What, str] = {
    "gradients": "f-conv",
    "forward": "f-library-call",
    "backward": "f-conv",
    "reduce": "f-control-flow",
    "read": "bad",
    "update": "f-matmul",
}
HATCHES: dict[What, str] = {"reduce": "/", "update": "."}
LETTER, WIDE = 6.5, 560  # pixels of a letter, and of a narrow page's axis


def replicas(
    runs: Run | Mapping[str, Run], *, steps: tuple[int, int] | None = None, theme: str = "either"
) -> go.Figure:
    """Plot two rows per replica, its passes and its sums, in milliseconds since the step began.

    They cover `steps`, the first and the last, else the step with the median time. `runs`: the
    results of `explorer.fit(..., ranks=...)` of each replica, or several such by name; their
    `timeline`s work too, as processes send them. Raises BadOption if there is nothing to show.
    """
    rows = data(runs, steps)
    head, *subtitles = escape(caption(rows), quote=False).split("; ")
    title = f'{head}<br><span style="font-size:12px">{"<br>".join(subtitles)}</span>'
    figure = chart(rows, title, theme)
    down = 18 * len(subtitles)  # pixels of the title's lines
    legend_y = 1 - (32 + down) / figure.layout.height
    return figure.update_layout(margin_t=104 + down, legend_y=legend_y)


def chart(rows: Sequence[ReplicaRun], title: str, theme: str) -> go.Figure:
    """Plot the bars of each run under its name, on one clock."""
    c, figure = colours(theme), go.Figure()
    places = dict(_places(rows))
    total = max((b.begin_ms + b.ms for r in rows for b in r.bars), default=1.0)
    for what, word in WORDS.items():
        mine = [(r, b) for r in rows for b in r.bars if b.what == what]
        if mine:
            figure.add_trace(_bars(what, word, mine, places, total, c))
    labels = {at: _label(replica, beside) for (_, replica, beside), at in places.items()}
    figure.update_xaxes(title="time since the step began (ms), measured", rangemode="tozero")
    count = sum(2 * r.replicas + 1 for r in rows)
    figure.update_yaxes(
        title="thread", tickmode="array", tickvals=list(labels), ticktext=list(labels.values()),
        range=[count - 0.3, -0.7], showgrid=False,
        zeroline=False,
    )  # fmt: skip
    for r in rows:
        figure.add_annotation(
            text=f"<b>{escape(r.name, quote=False)}</b>", x=0, y=places[r.name, 0, False] - 0.8,
            xref="paper", yref="y", xanchor="left", yanchor="middle", showarrow=False,
        )  # fmt: skip
    least = least_height(count, 26)
    return styled(figure, theme, title, 234 + 26 * count, barmode="overlay", meta=least)


def _places(rows: Sequence[ReplicaRun]) -> Iterator[tuple[tuple[str, int, bool], float]]:
    """Yield the y of each row, by run, replica, and True for the row of sums."""
    at = 1.0
    for r in rows:
        for replica in range(r.replicas):
            for beside in (False, True):
                yield (r.name, replica, beside), at - (0.14 if beside else 0)
                at += 1
        at += 1


def _label(replica: int, beside: bool) -> str:
    return "sums" if beside else f"replica {replica}"


def _bars(
    what: What,
    word: str,
    mine: Sequence[tuple[ReplicaRun, Bar]],
    places: Mapping[tuple[str, int, bool], float],
    total: float,
    c: dict[str, str],
) -> go.Bar:
    edge = c["bad"] if what == "read" else c["pane"]  # reads are short, so they are outlined
    return go.Bar(
        orientation="h",
        name=word,
        y=[places[r.name, b.replica, b.beside] for r, b in mine],
        base=[b.begin_ms for _, b in mine],
        x=[b.ms for _, b in mine],
        width=0.92 if what == "read" else 0.72,
        marker={
            "color": c[TOKENS[what]],
            "line": {"color": edge, "width": 2 if what == "read" else 1},
            "pattern": {
                "shape": HATCHES.get(what, ""),
                "fillmode": "overlay",
                "fgcolor": c["hatch"],
                "fgopacity": 0.35,
                "size": 6,
                "solidity": 0.15,
            },
        },
        text=[_fits(b, total) for _, b in mine],
        textposition="inside",
        insidetextanchor="middle",
        textangle=0,
        textfont={"color": c["hatch" if what == "reduce" else "hatch2"], "size": 11},
        customdata=[f"{r.name}, {b.words}" if r.name else b.words for r, b in mine],
        hovertemplate="%{customdata}<extra></extra>",
    )


def _fits(bar: Bar, total: float) -> str:
    """Return the parameters of a bar, shortened to fit, or ""."""
    first, *others = bar.about.split(", ")
    room = bar.ms / total * WIDE / LETTER
    for text in (bar.about, f"{first} and {len(others)} more", f"{first} …"):
        if len(text) + 1 <= room:
            return text
    return ""
