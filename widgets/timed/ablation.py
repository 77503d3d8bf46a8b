"""Ablation: the program without each step, by its plan and by measurement, beside all steps.

Only what runs here is measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from explorer.compiler.compilation import Compilation
from explorer.plain_text import counted
from explorer.tuning.sensitivity import Cost, LeftOut, changed_something, cost_of, leave_one_out
from widgets.draw.plots import colours, styled
from widgets.draw.table import Mark, Sentence, Table, size_text, time_text
from widgets.model.compiled import Arrays
from widgets.model.house import House
from widgets.model.knobs import Setting
from widgets.model.picture import Clock, Drawn, OnShow, Picture, placeholder
from widgets.program.switchboard import ALONE

NAME = "left_out"
LEAST = 0.001  # smaller changes of the time are ignored


@dataclass(frozen=True, slots=True)
class AblationRows:
    """The cost with all steps, and with each step left out alone."""

    all_steps: Cost
    rows: tuple[LeftOut, ...]

    @property
    def effects(self) -> tuple[LeftOut, ...]:
        """The steps without which the plan differs."""
        return tuple(r for r in self.rows if r.cost is not None and r.cost != self.all_steps)


def table(ablation: AblationRows) -> Table:
    """Return one row per step: the plan without it, and its measurement."""
    columns = (
        "step left out", "per run, predicted µs", "more µs", "memory bytes", "kernels",
        "measured: times as long", "99 % interval", "why not",
    )  # fmt: skip
    rows = [
        (
            "none",
            round(ablation.all_steps.us, 2),
            0.0,
            ablation.all_steps.bytes,
            ablation.all_steps.kernels,
            "",
            "",
            "",
        )
    ]
    rows += [_row(r, ablation.all_steps) for r in ablation.rows]
    return Table(columns, tuple(rows), ((),) * len(rows), caption(ablation), see(ablation))


def _row(r: LeftOut, full_cost: Cost) -> tuple[Any, ...]:
    if r.cost is None:
        return (r.step, "", "", "", "", "", "", r.refused)
    c, m = r.cost, r.measured
    clock = (round(1 / m.ratio, 3), f"{1 / m.high:.3f} to {1 / m.low:.3f}") if m else ("", "")
    return (r.step, round(c.us, 2), round(c.us - full_cost.us, 2), c.bytes, c.kernels, *clock, "")


def caption(ablation: AblationRows) -> str:
    """Return the step with the largest effect on the plan, and the number of measurements."""
    head = (
        f"with all steps: predicted {time_text(ablation.all_steps.us)}, "
        f"{size_text(ablation.all_steps.bytes)} of memory, {ablation.all_steps.kernels} kernels"
    )
    costs = [(r.cost.us, r) for r in ablation.effects if r.cost is not None]
    if not costs:
        return f"{head}; no step changes that alone"
    us, most = max(costs, key=lambda x: x[0])
    timed = sum(r.measured is not None for r in ablation.rows)
    clock = f"; {timed} timed in turns with it" if timed else ""
    return f"{head}; without {most.step}: {time_text(us)}{clock}"


def see(ablation: AblationRows) -> tuple[Sentence, ...]:
    """Return the sentences.

    The step with the largest effect by the plan, its measurement, and the step without which the
    program would be fastest.
    """
    costs = [(r.cost.us, n) for n, r in enumerate(ablation.rows) if r.cost is not None]
    full_us = ablation.all_steps.us
    if not costs:
        return ()
    (longest, most), (shortest, least) = max(costs), min(costs)
    if longest <= full_us:
        steps = Mark(counted(len(costs), "step"), "predicted")
        sentences: list[Sentence] = [(steps, " left out alone: a run takes no longer, predicted.")]
    else:
        first = Mark(ablation.rows[most].step, f"step:{most}")
        more = f", with all steps {time_text(full_us)}, predicted."
        us = Mark(time_text(longest), f"predicted step:{most}")
        sentences = [(first, " is worth most: without it a run takes ", us, more)]
    m = ablation.rows[most].measured
    if m is not None and longest > full_us:
        times = Mark(f"{1 / m.ratio:.2f} times", f"measured step:{most}")
        ends = f" as long without it ({1 / m.high:.2f} to {1 / m.low:.2f})."
        sentences.append(("The clock says ", times, ends))
    if shortest < full_us * (1 - LEAST):
        name, us = ablation.rows[least].step, Mark(time_text(shortest), f"predicted step:{least}")
        sentences.append((f"Without {name} it would be faster: ", us, ", predicted."))
    return tuple(sentences)


def chart(ablation: AblationRows, title: str, theme: str) -> go.Figure:
    """Draw a bar per step, from the time with all steps to the time without it.

    An outline for the plan, filled for the measurement. The effects do not add up.
    """
    c, figure = colours(theme), go.Figure()
    rows = [r for r in ablation.rows if r.cost is not None]
    names = [r.step for r in rows]
    ratios = [
        r.cost.us / ablation.all_steps.us if r.cost and ablation.all_steps.us else 1.0 for r in rows
    ]
    figure.add_bar(
        x=[r - 1 for r in ratios],
        base=1.0,
        y=names,
        name="predicted",
        orientation="h",
        marker={"color": c["pane"], "line": {"color": c["ink2"], "width": 1.2}},
        customdata=[_words(r, ablation) for r in rows],
        meta={"k": [f"predicted step:{ablation.rows.index(r)}" for r in rows]},
        hovertemplate="%{customdata}<extra></extra>",
    )
    timed = [r for r in rows if r.measured is not None]
    if timed:
        speeds = [r.measured for r in timed if r.measured is not None]
        figure.add_bar(
            x=[1 / m.ratio - 1 for m in speeds],
            base=1.0,
            y=[r.step for r in timed],
            name="measured",
            orientation="h",
            marker={"color": c["t2"], "line": {"color": c["line2"], "width": 1}},
            error_x={
                "type": "data",
                "symmetric": False,
                "array": [1 / m.low - 1 / m.ratio for m in speeds],
                "arrayminus": [1 / m.ratio - 1 / m.high for m in speeds],
                "color": c["ink"],
            },
            customdata=[_words(r, ablation) for r in timed],
            meta={"k": [f"measured step:{ablation.rows.index(r)}" for r in timed]},
            hovertemplate="%{customdata}<extra></extra>",
        )
    figure.update_xaxes(title="time per run without the step ÷ with all steps")
    figure.update_yaxes(title="step left out alone", autorange="reversed")
    figure.add_vline(x=1.0, line={"color": c["ink"], "width": 1})
    height = 160 + 34 * max(3, len(rows))
    return styled(figure, theme, title, height, bargap=0.3, showlegend=True)


def _words(r: LeftOut, ablation: AblationRows) -> str:
    assert r.cost is not None, "only steps that can be left out are drawn"
    more = r.cost.us - ablation.all_steps.us
    text = (
        f"without {r.step}: predicted {time_text(r.cost.us)} ({more:+.2f} µs), "
        f"{size_text(r.cost.bytes)} of memory, {r.cost.kernels} kernels"
    )
    if r.measured is None:
        return text
    m = r.measured
    interval = f"{1 / m.high:.3f} to {1 / m.low:.3f}"
    return f"{text}<br>measured: {1 / m.ratio:.3f} times as long ({interval})"


def _draw(s: OnShow, op: str) -> Drawn:
    ablation = s.clocked(NAME, "")
    if ablation is None:
        c = s.now.compiled
        step_seconds = [(x.name, round(x.seconds, 4)) for x in c.snapshots]
        words = "each step left out alone: not compiled yet"
        return (
            (),
            placeholder(words)[1],
            Table(("step", "seconds"), tuple(step_seconds), ((),) * len(step_seconds), words),
        )
    return ablation, None, table(ablation)


def _measured(
    now: Setting, house: House, about: str, inputs: Arrays
) -> Iterator[tuple[int, int, Any]]:
    """Leave out each step in turn: plan, and measure if the plan differs."""
    c: Any = now.compiled  # `about` said that it has a pipeline
    sizes = dict(now.sizes)
    count, rows = len(changed_something(c)), tuple[LeftOut, ...]()
    full_cost = cost_of(c, sizes)
    for row in leave_one_out(c, sizes, inputs or None):
        rows = (*rows, row)
        yield len(rows), count, AblationRows(full_cost, rows)


PICTURE = Picture(
    name=NAME,
    title="Ablation",
    words="Each step left out alone: predicted time per run, and measured time where the plan "
    "differs.",
    draw=_draw,
    chart=chart,
    family=ALONE,
    clock=Clock(
        "Leave each out",
        lambda s, op: "" if isinstance(s.now.compiled, Compilation) else None,
        _measured,
        caption,
        code="where it runs",
    ),
    every="Step",
)
