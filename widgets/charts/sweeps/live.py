"""The chart of a sweep that grows while its points arrive."""

from __future__ import annotations

from time import monotonic
from typing import Any

import plotly.graph_objects as go

from explorer.tuning.sweep import Sweep
from widgets.charts.sweeps import lines
from widgets.draw.plots import styled

PAUSE = 0.5  # seconds between two drawings; chosen


class LiveSweep:
    """A live chart: pass it to `explorer.sweep` as `arrived`, and show `figure`, a widget."""

    def __init__(self, theme: str = "either") -> None:
        """Create an empty chart."""
        self.theme = theme
        empty = styled(go.Figure(), theme, "Sweep: no point has arrived", lines.HEIGHT)
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
        new = lines.chart(sweep, self.theme)
        with self.figure.batch_update():
            self.figure.data = ()
            self.figure.layout = new.layout
        self.figure.add_traces(new.data)
