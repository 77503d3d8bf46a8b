"""Timeline of the threads of a training run; several runs one above the other, on one clock."""

from __future__ import annotations

from collections.abc import Mapping

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from explorer.training import Fitted, Span
from widgets.draw.plots import colours, styled

LANES = {
    "batches": "makes batches",
    "compiler": "compiles",
    "main": "runs steps",
    "sums": "sums gradients",
}
WORDS = {
    "load": "makes a batch",
    "wait": "waits for a batch",
    "compile": "compiles a step",
    "run": "runs a step",
    "read": "the host reads a value",
    "reduce": "all-reduce",
    "save": "writes a checkpoint",
    "validate": "validates",
}
TOKENS = {
    "load": "f-matmul",
    "wait": "line2",
    "compile": "f-control-flow",
    "run": "f-conv",
    "read": "bad",
    "reduce": "f-layout",
    "save": "f-elementwise",
    "validate": "f-reduction",
}
SHOWN = 12  # default number of steps, the last ones


def threads(
    runs: Fitted | Mapping[str, Fitted],
    *,
    steps: tuple[int, int] | None = None,
    theme: str = "either",
) -> go.Figure:
    """Plot a bar for each activity of a thread, in milliseconds since the first shown step.

    `steps` are the first and the last shown step, else the last dozen. The legend switches kinds
    off. A mapping gives several runs their names: the red bars of ordinary optimizers are inside
    steps, where the host waits for a value before it goes on.
    """
    named_runs = dict(runs) if isinstance(runs, Mapping) else {"": runs}
    figure = make_subplots(
        len(named_runs),
        1,
        shared_xaxes=True,
        subplot_titles=list(named_runs),
        vertical_spacing=0.12,
    )
    named: set[str] = set()
    for row, fitted in enumerate(named_runs.values(), 1):
        spans = _shown(fitted, steps)
        start = min((s.begin for s in spans), default=0.0)
        for what, word in WORDS.items():
            mine = [s for s in spans if s.what == what]
            if mine:
                figure.add_trace(_bars(what, word, mine, start, theme, what not in named), row, 1)
                named.add(what)
    figure.update_xaxes(title="milliseconds", row=len(named_runs), col=1)
    seen = {y for trace in figure.data for y in trace.y}
    order = [lane for lane in reversed(LANES.values()) if lane in seen]
    figure.update_yaxes(categoryorder="array", categoryarray=order)
    tall = 150 + 140 * len(named_runs)
    return styled(figure, theme, "Threads of a training run", tall, barmode="overlay")


def _shown(fitted: Fitted, steps: tuple[int, int] | None) -> list[Span]:
    """Return the spans of the shown steps, and all spans that overlap their time."""
    first, last = steps or (max(0, fitted.step - SHOWN), fitted.step)
    spans = tuple(fitted.timeline.spans)
    runs = [s for s in spans if s.what == "run" and first <= s.step <= last]
    if not runs:
        return list(spans)
    low, high = min(s.begin for s in runs), max(s.end for s in runs)
    return [s for s in spans if s.end >= low and s.begin <= high]


def _bars(
    what: str, word: str, spans: list[Span], start: float, theme: str, legend: bool
) -> go.Bar:
    c = colours(theme)
    thin = {"read": 0.9, "wait": 0.3}.get(what, 0.6)
    edge = c["bad"] if what == "read" else c["pane"]  # reads are short, so they are outlined
    return go.Bar(
        orientation="h",
        name=word,
        legendgroup=what,
        showlegend=legend,
        y=[LANES[s.lane] for s in spans],
        base=[1e3 * (s.begin - start) for s in spans],
        x=[1e3 * s.seconds for s in spans],
        width=thin,
        marker={"color": c[TOKENS[what]], "line": {"color": edge, "width": 1}},
        customdata=[(s.step, 1e3 * s.seconds) for s in spans],
        hovertemplate=f"{word}, %{{customdata[0]}}: %{{customdata[1]:.3f}} ms<extra></extra>",
    )
