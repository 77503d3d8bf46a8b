"""One parameter under gradients of which some are NaN, for each method of skipping a step."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from explorer.training import SGD, LossScale
from explorer.training.step import Optimizer
from widgets.draw.plots import colours, styled

SKIP_METHODS = {
    "where": "where(found, old, new)",
    "skip": "the host skips the step",
    "mask": "old + (new - old) * (1 - found)",
    "zeros": "a step with gradients of 0",
}


@dataclass(frozen=True, slots=True)
class SkipResult:
    """The parameter after each step, with the step counter and the loss scale."""

    values: tuple[float, ...]
    counted: tuple[int, ...]
    scales: tuple[float, ...]


def skipped_updates(
    nan_at: Collection[int] = (2, 5),
    optimizer: Optimizer | None = None,
    steps: int = 8,
    scale: LossScale | None = None,
) -> dict[str, SkipResult]:
    """Return the results of an optimizer for parameter 1 and gradients 1, NaN at some steps.

    There is one result per method of `SKIP_METHODS`, computed by the optimizer itself.
    """
    chosen = SGD(0.1, momentum=0.9) if optimizer is None else optimizer
    return {
        name: _simulate(name, set(nan_at), chosen, steps, scale or LossScale())
        for name in SKIP_METHODS
    }


def _simulate(
    name: str, nan_at: set[int], optimizer: Optimizer, steps: int, scale: LossScale
) -> SkipResult:
    p: Any = np.ones((), np.float32)
    state, scaling = optimizer.init(p), scale.init()
    values, counted, scales = [float(p)], [0], [float(scaling["scale"])]
    numbers = optimizer.numbers
    for n in range(steps):
        g, is_nan = np.float32(np.nan if n in nan_at else 1.0), np.bool_(n in nan_at)
        clean = np.bool_(False)
        with np.errstate(all="ignore"):
            if name == "where":
                p, state = optimizer.update(p, g, state, numbers, is_nan)
            elif name == "zeros":
                p, state = optimizer.update(
                    p, np.float32(0 if is_nan else g), state, numbers, clean
                )
            elif name == "mask":
                new, after = optimizer.update(p, g, state, numbers, clean)
                keep = np.float32(1 - is_nan)
                p = p + (new - p) * keep
                state = {k: v + (after[k] - v) * keep for k, v in state.items()}
            elif not is_nan:
                p, state = optimizer.update(p, g, state, numbers, clean)
            scaling = scale.update(scaling, is_nan)
        values.append(float(p))
        counted.append(int(np.nan_to_num(np.asarray(state["step"], np.float64))))
        scales.append(float(scaling["scale"]))
    return SkipResult(tuple(values), tuple(counted), tuple(scales))


def update(
    nan_at: Collection[int] = (2, 5),
    optimizer: Optimizer | None = None,
    steps: int = 8,
    scale: LossScale | None = None,
    *,
    theme: str = "either",
) -> go.Figure:
    """Plot the parameter by step for each method, with the NaN steps marked.

    Below are the counter of valid steps, and the loss scale.
    """
    c = colours(theme)
    results = skipped_updates(nan_at, optimizer, steps, scale)
    titles = ["a parameter", "valid steps", "scale of the loss"]
    figure = make_subplots(
        3, 1, shared_xaxes=True, row_heights=[0.56, 0.22, 0.22], subplot_titles=titles,
        vertical_spacing=0.09,
    )  # fmt: skip
    x = list(range(steps + 1))
    line_styles = {
        "where": {"color": c["f-conv"], "width": 6},
        "skip": {"color": c["ink"], "width": 1.5, "dash": "dot"},
        "mask": {"color": c["bad"], "width": 2},
        "zeros": {"color": c["f-elementwise"], "width": 2, "dash": "dash"},
    }
    for name, result in results.items():
        figure.add_scatter(
            x=x, y=result.values, name=SKIP_METHODS[name], line=line_styles[name], row=1, col=1,
            hovertemplate="after %{x} steps: %{y:.4f}<extra>" + SKIP_METHODS[name] + "</extra>",
        )  # fmt: skip
    for name, result in results.items():
        last = next((n for n, v in enumerate(result.values) if np.isnan(v)), 0) - 1
        if last >= 0:
            figure.add_scatter(
                x=[last], y=[result.values[last]], mode="markers+text", text=["NaN from here on"],
                textposition="bottom left", textfont={"color": c["bad"]}, showlegend=False,
                marker={"symbol": "x", "size": 11, "color": line_styles[name]["color"]},
                row=1, col=1, hoverinfo="skip",
            )  # fmt: skip
    own = results["where"]
    for row, values, unit in ((2, own.counted, "steps"), (3, own.scales, "")):
        figure.add_scatter(
            x=x, y=values, showlegend=False, line={"color": c["f-conv"], "shape": "hv"},
            hovertemplate=f"after %{{x}} steps: %{{y}} {unit}<extra></extra>", row=row, col=1,
        )  # fmt: skip
    for n in sorted(nan_at):
        figure.add_vrect(n, n + 1, fillcolor=c["soft"], line_width=0, layer="below")
    figure.update_xaxes(title="steps taken; shaded: the gradient is NaN", row=3, col=1)
    figure.update_yaxes(type="log", dtick=np.log10(2), tickformat=",d", row=3, col=1)
    return styled(figure, theme, "A step that data skip is no step", 560)
