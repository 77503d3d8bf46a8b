"""Accuracy of the cost model per call: the planned time of a brick next to its measured time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from explorer.ir.stage import Stage
from explorer.plain_text import counted
from widgets.draw.plots import colours, styled
from widgets.draw.table import Mark, Sentence, Table, time_text
from widgets.draw.theme import family_token
from widgets.model.brick_wall import WallRows
from widgets.model.picture import Drawn, OnShow, Picture
from widgets.rammer.wall_table import off_text

WORDS = "%{customdata}<extra></extra>"
SYMBOLS = {  # a shape beside the colour
    "conv": "square",
    "matmul": "circle",
    "elementwise": "triangle-up",
    "reduction": "diamond",
    "layout": "cross",
    "control flow": "x",
    "library call": "star",
}
FACTORS = (0.5, 2.0)


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """A call that both walls contain.

    Times are means over its bricks, in microseconds: a plan has one trip of a loop that a run makes
    many of.
    """

    call: str
    label: str
    family: str
    ops: tuple[str, ...]
    bricks: int  # measured bricks
    planned_us: float
    us: float  # measured

    @property
    def ratio(self) -> float:
        """Measured over planned: above 1 it took longer than planned."""
        return self.us / self.planned_us

    @property
    def off(self) -> float:
        """The factor of the prediction error, in either direction."""
        return max(self.ratio, 1 / self.ratio)

    @property
    def missed_us(self) -> float:
        """The measured minus the planned time of all its bricks."""
        return self.bricks * (self.us - self.planned_us)

    @property
    def work_us(self) -> float:
        """The measured time of all its bricks together."""
        return self.bricks * self.us


@dataclass(frozen=True, slots=True)
class ErrorRows:
    """The calls, most work first; `kind` of the measured wall: "measured" or "recorded"."""

    device: str
    kind: str
    calls: tuple[ErrorRow, ...]
    error: float = 0.0  # error of the prediction for the entire run

    @property
    def half_within(self) -> float:
        """The median factor by which calls are off."""
        return float(np.median([r.off for r in self.calls]))

    @property
    def worst(self) -> ErrorRow:
        """The call whose prediction is farthest off."""
        return max(self.calls, key=lambda r: r.off)


def data(planned: WallRows, ran: WallRows, error: float) -> ErrorRows:
    """Return the calls with a time in both walls."""
    before, after = _means(planned), _means(ran)
    calls = {call.name: call for call in ran.calls}
    rows = [
        ErrorRow(
            name,
            calls[name].label,
            calls[name].family,
            calls[name].ops,
            bricks,
            before[name][0],
            us,
        )
        for name, (us, bricks) in after.items()
        if us > 0 and before.get(name, (0.0, 0))[0] > 0
    ]
    rows.sort(key=lambda r: -r.work_us)
    return ErrorRows(ran.device, ran.kind, tuple(rows), error)


def _means(wall: WallRows) -> dict[str, tuple[float, int]]:
    """Return the mean time of each call's bricks, and their number."""
    count = np.bincount(wall.call, minlength=len(wall.calls))
    spent = np.bincount(wall.call, wall.end - wall.start, minlength=len(wall.calls))
    return {
        call.name: (float(us / n), int(n)) for call, n, us in zip(wall.calls, count, spent) if n
    }


def caption(rows: ErrorRows) -> str:
    """Describe the plan's error in one line."""
    worst = rows.worst
    return (
        f"{counted(len(rows.calls), 'call')} in one run, {off_text(rows.error)}; half of them "
        f"within ×{rows.half_within:.2f}, the farthest {worst.label} at ×{worst.ratio:.2f}"
    )


def see(rows: ErrorRows) -> tuple[Sentence, ...]:
    """Return the key sentences: the run's error, the call that contributes most, the worst call."""
    number = {r.call: n for n, r in enumerate(rows.calls)}

    def named(r: ErrorRow) -> Mark:
        return Mark(r.label, f"call:{number[r.call]}")

    near = Mark(counted(len(rows.calls), "call"), "near")
    whose, are = ("half of the ", "are") if len(rows.calls) > 1 else ("its ", "is")
    run = f"The run was {off_text(rows.error)}; {whose}"
    sentences: list[Sentence] = [(run, near, f" {are} off by {rows.half_within:.2f}× or less.")]
    heaviest, worst = max(rows.calls, key=lambda r: abs(r.missed_us)), rows.worst
    off = heaviest.missed_us
    more = "more" if off > 0 else "less"
    took = f" weighs most: it took {time_text(abs(off))} {more} than predicted."
    sentences.append((named(heaviest), took))
    if worst is not heaviest:
        sentences.append(("Farthest off is ", named(worst), f": {_times(worst)}."))
    return tuple(sentences)


def _times(r: ErrorRow) -> str:
    """Describe how a task's time compares with its prediction."""
    return f"a task takes {r.ratio:.3g} times its prediction"


def table(rows: ErrorRows) -> Table:
    """Return one row per call."""
    kind = rows.kind
    columns = ("call", "family", "tasks", "predicted µs", f"{kind} µs", f"{kind} ÷ predicted")
    cells = tuple(
        (
            r.label,
            r.family,
            r.bricks,
            round(r.planned_us, 3),
            round(r.us, 3),
            round(r.ratio, 3),
        )
        for r in rows.calls
    )
    return Table(columns, cells, tuple(r.ops for r in rows.calls), caption(rows), see(rows))


def chart(rows: ErrorRows, title: str, theme: str) -> go.Figure:
    """Draw the measured time of a brick over the planned one, logarithmic, a point per call.

    On the diagonal both are equal. Below, their ratio.
    """
    c, figure = colours(theme), go.Figure()
    planned = [r.planned_us for r in rows.calls]
    ends = min(planned) / 1.5, max(planned) * 1.5
    _line(figure, ends, ends, "as predicted", "solid", c)
    for k in FACTORS:
        name = "twice as long, or half"
        _line(figure, ends, (k * ends[0], k * ends[1]), name, "dot", c, k == FACTORS[0])
    _line(figure, ends, (1.0, 1.0), "as predicted", "solid", c, False, "y2")
    for k in FACTORS:
        _line(figure, ends, (k, k), "twice as long, or half", "dot", c, False, "y2")
    for family in dict.fromkeys(r.family for r in rows.calls):
        mine = [(n, r) for n, r in enumerate(rows.calls) if r.family == family]
        _points(figure, rows, mine, False, c)
        _points(figure, rows, mine, True, c)
    figure.update_layout(yaxis2={"anchor": "x"})
    figure.update_xaxes(title_text="time per task (µs), predicted", type="log", anchor="y2")
    above = {"title": {"text": f"per task (µs), {rows.kind}"}, "type": "log"}
    below = {"title": {"text": f"{rows.kind} ÷ predicted (×)"}, "type": "log"}
    figure.update_layout(
        yaxis={**above, "domain": [0.4, 1]},
        yaxis2={**below, "domain": [0, 0.32], "tickvals": [0.1, 0.25, 0.5, 1, 2, 4, 10]},
    )
    return styled(figure, theme, title, 560, meta={"least": 400})  # for six ticks below


def _line(
    figure: go.Figure,
    x: tuple[float, float],
    y: tuple[float, float],
    name: str,
    dash: str,
    c: Mapping[str, str],
    named: bool = True,
    axis: str = "y",
) -> None:
    figure.add_scatter(
        x=x,
        y=y,
        name=name,
        legendgroup=name,
        showlegend=named,
        yaxis=axis,
        mode="lines",
        line={"color": c["ink3"], "dash": dash, "width": 1},
        hoverinfo="skip",
    )


def _points(
    figure: go.Figure,
    rows: ErrorRows,
    numbered: list[tuple[int, ErrorRow]],
    left: bool,
    c: Mapping[str, str],
) -> None:
    """Add a family's calls: their times, or below their ratios."""
    mine = [r for _, r in numbered]
    family, kind = mine[0].family, rows.kind
    token = family_token(family)
    figure.add_scatter(
        x=[r.planned_us for r in mine],
        y=[r.ratio if left else r.us for r in mine],
        name=family,
        legendgroup=family,
        showlegend=not left,
        yaxis="y2" if left else "y",
        mode="markers",
        marker={
            "symbol": SYMBOLS.get(family, "circle"),
            "color": c.get(token, c["ink2"]),
            "size": 10,
            "line": {"color": c["ink"], "width": 1},
        },
        selected={"marker": {"color": c["accent"], "opacity": 1}},
        unselected={"marker": {"opacity": 1}},
        customdata=[_words(r, kind) for r in mine],
        meta={
            "ops": [list(r.ops) for r in mine],
            "k": [f"call call:{n}{' near' * (r.off <= rows.half_within)}" for n, r in numbered],
        },
        hovertemplate=WORDS,
    )


def _words(r: ErrorRow, kind: str) -> str:
    return (
        f"{r.label}: predicted {time_text(r.planned_us)} per task, "
        f"{kind} {time_text(r.us)} (×{r.ratio:.2f})<br>"
        f"{r.bricks:,} tasks, {time_text(r.work_us)} in all<br>"
        f"{r.call} in the program"
    )


def _draw(s: OnShow, op: str) -> Drawn:
    planned, (ran, comparison) = s.walls.planned, s.walls.ran
    if planned is None or ran is None:
        words = "nothing has run here yet: predictions are compared with runs"
        return (), None, Table(("call",), (), (), words)
    if comparison is None:
        return (), None, Table(("call",), (), (), f"{ran.title}: nothing is compared with the plan")
    rows = data(planned, ran, comparison.error)
    if not rows.calls:
        return (), None, Table(("call",), (), (), "no call has a time in both walls")
    return rows, None, table(rows)


PICTURE = Picture(
    name="errors",
    title="Plan and clock",
    words="The predicted time of a task of each call, and its time in the current run.",
    stage=Stage.RAMMED,
    draw=_draw,
    chart=chart,
    of_run=True,
)
