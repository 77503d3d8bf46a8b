"""A chart of the losses that grows during a run."""

from __future__ import annotations

from time import monotonic
from typing import Any

import plotly.graph_objects as go

from explorer.training import Fitted
from widgets.training.losses import losses

PAUSE = 0.25  # minimum seconds between drawings


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
