"""Losses of a training run as a chart: each step, means of epochs, validation; also live."""

from __future__ import annotations

from time import monotonic
from typing import Any

import plotly.graph_objects as go

from explorer.training import Fitted
from widgets.draw.plots import colours, styled

MOST = 4_000  # points per line; more are averaged in groups
PAUSE = 0.25  # minimum seconds between drawings


def losses(fitted: Fitted, *, log: bool = False, theme: str = "either") -> go.Figure:
    """Plot losses by step: a line of all, a stair of the epochs' means, and validation points.

    Validation points are at the ends of their epochs. `log`: the loss on a logarithmic axis.
    """
    c, figure = colours(theme), go.Figure()
    steps, values = _downsample(fitted.losses)
    figure.add_scatter(
        x=steps,
        y=values,
        name="each step",
        line={"color": c["f-conv"], "width": 1},
        hovertemplate="step %{x}: %{y:.4g}<extra></extra>",
    )
    each = len(fitted.losses) / max(1, len(fitted.epochs))
    if fitted.epochs:
        ends = [round((e.number + 1) * each) for e in fitted.epochs]
        means = [e.loss for e in fitted.epochs]
        figure.add_scatter(
            x=[0, *ends],
            y=[*means, means[-1]],
            name="mean of the epoch",
            mode="lines",
            line={"color": c["ink"], "width": 1.5, "shape": "hv"},
            hovertemplate="epoch %{customdata}: %{y:.4g}<extra></extra>",
            customdata=[e.number for e in (*fitted.epochs, fitted.epochs[-1])],
        )
        if any("loss" in e.validated for e in fitted.epochs):
            figure.add_scatter(
                x=ends,
                y=[e.validated.get("loss") for e in fitted.epochs],
                name="validation",
                mode="markers",
                marker={"color": c["accent"], "size": 8, "symbol": "diamond"},
                customdata=[_metrics_text(e.validated) for e in fitted.epochs],
                hovertemplate="%{customdata}<extra>validation</extra>",
            )
    figure.update_xaxes(title="step")
    figure.update_yaxes(title="loss", type="log" if log else "linear")
    return styled(figure, theme, str(fitted), 360)


def _metrics_text(metrics: dict[str, float]) -> str:
    return "<br>".join(f"{name} {value:.4g}" for name, value in metrics.items())


def _downsample(values: list[float]) -> tuple[list[int], list[float]]:
    step = -(-len(values) // MOST)
    if step <= 1:
        return list(range(1, len(values) + 1)), list(values)
    parts = [values[n : n + step] for n in range(0, len(values), step)]
    return [n * step + len(p) for n, p in enumerate(parts)], [sum(p) / len(p) for p in parts]


class Live:
    """A live chart: pass it to `explorer.fit` as `progress`, and show its widget `figure`."""

    def __init__(self, *, log: bool = False, theme: str = "either") -> None:
        """Create an empty chart."""
        self.log, self.theme = log, theme
        self.figure: Any = go.FigureWidget(losses(_empty(), log=log, theme=theme))
        self._drawn = 0.0

    def __call__(self, fitted: Fitted) -> None:
        """Draw the current losses, at most once per `PAUSE` seconds."""
        now = monotonic()
        if now - self._drawn >= PAUSE:
            self.draw(fitted)
            self._drawn = now

    def draw(self, fitted: Fitted) -> None:
        """Draw the current losses."""
        new = losses(fitted, log=self.log, theme=self.theme)
        with self.figure.batch_update():
            traces = list(self.figure.data)
            for old, trace in zip(traces, new.data, strict=False):
                old.update(trace, overwrite=False)
            if len(new.data) > len(traces):
                self.figure.add_traces(new.data[len(traces) :])
            self.figure.layout.title.text = new.layout.title.text


def _empty() -> Fitted:
    return Fitted((), {"optimizer": {"step": 0}})
