"""Memory against time: the points that rematerialisation weighs, with a slider through them."""

from __future__ import annotations

from dataclasses import dataclass

import plotly.graph_objects as go

from explorer.autodiff.rematerialisation.facts import steps_of
from explorer.autodiff.rematerialisation.policy import front
from explorer.compilation import Compilation
from widgets.draw.plots import colours, styled
from widgets.draw.table import size_text, time_text


@dataclass(frozen=True, slots=True)
class Weighed:
    """A point of the front, predicted: what intermediates need at once, the time of all kernels,
    and how many values are computed again; `taken`: this compilation is it.
    """

    label: str
    peak_bytes: int
    us: float
    again: int
    taken: bool

    @property
    def words(self) -> str:
        """What it is, in a line."""
        return (
            f"{self.label}: {size_text(self.peak_bytes)} at once, {time_text(self.us)} predicted, "
            f"{self.again} value{'' if self.again == 1 else 's'} computed again"
        )


def points(c: Compilation) -> tuple[Weighed, ...]:
    """The front of a compilation's main function, the fastest point first: that which was weighed
    where something is computed again already, or what would be.
    """
    main = c.program.main
    known = {r.function: r for r in c.program.decisions.rematerialisation}
    if main.name in known:
        row = known[main.name]
        pairs = [(p.label, p.value, p.value == row.chosen) for p in row.candidates]
        found = [Weighed(n, v.peak_bytes, v.us, len(v.again), t) for n, v, t in pairs]
    else:
        found = [
            Weighed(p.label, p.run.peak_bytes, p.run.us, len(p.copies), not p.copies)
            for p in front(steps_of(c.program, main))
        ]
    return tuple(sorted(found, key=lambda p: (p.us, p.peak_bytes)))


def memory_time(c: Compilation, *, theme: str = "either") -> go.Figure:
    """The front as a curve: predicted bytes of intermediates against predicted time, the point that
    was taken filled. The slider, or the arrow keys on it, goes through the points.
    """
    colour, rows, figure = colours(theme), points(c), go.Figure()
    figure.add_scatter(
        x=[p.peak_bytes / 2**20 for p in rows],
        y=[p.us / 1e3 for p in rows],
        name="no other has less of both",
        mode="lines+markers",
        line={"color": colour["line2"], "width": 1.5, "shape": "hv"},
        marker={"color": colour["ink2"], "size": 7, "symbol": "circle-open"},
        customdata=[p.words for p in rows],
        hovertemplate="%{customdata}<extra></extra>",
    )
    taken = next((n for n, p in enumerate(rows) if p.taken), 0)
    for n, p in enumerate(rows):
        figure.add_scatter(
            x=[p.peak_bytes / 2**20],
            y=[p.us / 1e3],
            name="taken here" if p.taken else "looked at",
            mode="markers",
            marker={"color": colour["accent"], "size": 12, "symbol": "circle"},
            customdata=[p.words],
            hovertemplate="%{customdata}<extra></extra>",
            visible=n == taken,
        )
    figure.update_xaxes(title="MiB of intermediates at once, predicted", rangemode="tozero")
    figure.update_yaxes(title="ms of all kernels, predicted", rangemode="tozero")
    figure = styled(figure, theme, rows[taken].words, 420)
    figure.update_layout(margin_b=124, sliders=[_slider(rows, taken, colour)])
    return figure


def _slider(rows: tuple[Weighed, ...], taken: int, c: dict[str, str]) -> dict[str, object]:
    steps = [
        {
            "label": size_text(p.peak_bytes),
            "method": "update",
            "args": [
                {"visible": [True, *(n == m for m in range(len(rows)))]},
                {"title.text": p.words},
            ],
        }
        for n, p in enumerate(rows)
    ]
    paint = {"bgcolor": c["line"], "bordercolor": c["line2"], "activebgcolor": c["accent"]}
    now = {"prefix": "at once: ", "font": {"color": c["ink2"]}}
    return paint | {
        "active": taken,
        "steps": steps,
        "currentvalue": now,
        "tickcolor": c["line2"],
        "pad": {"t": 62},
    }
