"""One parameter under gradients of which some are NaN: what each way to skip a step comes to."""

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

WAYS = {
    "where": "where(found, old, new)",
    "skip": "the host skips the step",
    "mask": "old + (new - old) * (1 - found)",
    "zeros": "a step with gradients of 0",
}


@dataclass(frozen=True, slots=True)
class Way:
    """The parameter after each step, the counter of steps and the scale of the loss beside it."""

    values: tuple[float, ...]
    counted: tuple[int, ...]
    scales: tuple[float, ...]


def skipped_updates(
    nan_at: Collection[int] = (2, 5),
    optimizer: Optimizer | None = None,
    steps: int = 8,
    scale: LossScale | None = None,
) -> dict[str, Way]:
    """What the optimizer makes of a parameter 1 and gradients 1, NaN at some steps: in the ways of
    `WAYS`, computed by the optimizer itself.
    """
    chosen = SGD(0.1, momentum=0.9) if optimizer is None else optimizer
    return {name: _way(name, set(nan_at), chosen, steps, scale or LossScale()) for name in WAYS}


def _way(name: str, nan_at: set[int], optimizer: Optimizer, steps: int, scale: LossScale) -> Way:
    p: Any = np.ones((), np.float32)
    state, scaling = optimizer.init(p), scale.init()
    values, counted, scales = [float(p)], [0], [float(scaling["scale"])]
    numbers = optimizer.numbers
    for n in range(steps):
        g, found = np.float32(np.nan if n in nan_at else 1.0), np.bool_(n in nan_at)
        clean = np.bool_(False)
        with np.errstate(all="ignore"):
            if name == "where":
                p, state = optimizer.update(p, g, state, numbers, found)
            elif name == "zeros":
                p, state = optimizer.update(p, np.float32(0 if found else g), state, numbers, clean)
            elif name == "mask":
                new, after = optimizer.update(p, g, state, numbers, clean)
                keep = np.float32(1 - found)
                p = p + (new - p) * keep
                state = {k: v + (after[k] - v) * keep for k, v in state.items()}
            elif not found:
                p, state = optimizer.update(p, g, state, numbers, clean)
            scaling = scale.update(scaling, found)
        values.append(float(p))
        counted.append(int(np.nan_to_num(np.asarray(state["step"], np.float64))))
        scales.append(float(scaling["scale"]))
    return Way(tuple(values), tuple(counted), tuple(scales))


def update(
    nan_at: Collection[int] = (2, 5),
    optimizer: Optimizer | None = None,
    steps: int = 8,
    scale: LossScale | None = None,
    *,
    theme: str = "either",
) -> go.Figure:
    """The parameter by step for each way, with the steps whose gradient is NaN marked; below the
    counter of valid steps, and the scale of the loss.
    """
    c = colours(theme)
    found = skipped_updates(nan_at, optimizer, steps, scale)
    titles = ["a parameter", "valid steps", "scale of the loss"]
    figure = make_subplots(
        3, 1, shared_xaxes=True, row_heights=[0.56, 0.22, 0.22], subplot_titles=titles,
        vertical_spacing=0.09,
    )  # fmt: skip
    x = list(range(steps + 1))
    looks = {
        "where": {"color": c["f-conv"], "width": 6},
        "skip": {"color": c["ink"], "width": 1.5, "dash": "dot"},
        "mask": {"color": c["bad"], "width": 2},
        "zeros": {"color": c["f-elementwise"], "width": 2, "dash": "dash"},
    }
    for name, way in found.items():
        figure.add_scatter(
            x=x, y=way.values, name=WAYS[name], line=looks[name], row=1, col=1,
            hovertemplate="after %{x} steps: %{y:.4f}<extra>" + WAYS[name] + "</extra>",
        )  # fmt: skip
    for name, way in found.items():
        last = next((n for n, v in enumerate(way.values) if np.isnan(v)), 0) - 1
        if last >= 0:
            figure.add_scatter(
                x=[last], y=[way.values[last]], mode="markers+text", text=["NaN from here on"],
                textposition="bottom left", textfont={"color": c["bad"]}, showlegend=False,
                marker={"symbol": "x", "size": 11, "color": looks[name]["color"]}, row=1, col=1,
                hoverinfo="skip",
            )  # fmt: skip
    own = found["where"]
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
