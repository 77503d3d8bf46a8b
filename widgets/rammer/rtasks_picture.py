"""The rOperators of a program: their rTasks, task times, sources, and selected rKernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import plotly.graph_objects as go

from explorer.ir.stage import Stage
from explorer.plain_text import counted
from explorer.rammer import RKernel, ROperator
from widgets.draw.plots import colours, least_height, styled
from widgets.draw.table import Cell, Mark, Sentence, Table, size_text, time_text
from widgets.model.brick_wall import PREDICTED
from widgets.model.picture import Picture
from widgets.rammer.view import WALLS, PolicyWalls, of_walls

MOST = 12  # as many as the chart shows


def caption(walls: PolicyWalls) -> str:
    """Describe how many rOperators there are, and the sources of their times."""
    operators = list(selected_kernels(walls))
    measured = sum(row.kernel.source == "measured" for row in operators)
    tasks = sum(row.kernel.tasks for row in operators)
    limit_note = f"; the {MOST} with the most work" if len(operators) > MOST else ""
    return (
        f"{len(operators)} rOperators on {walls.device}, {tasks:,} rTasks; task times of "
        f"{measured} are measured, of {len(operators) - measured} predicted{limit_note}"
    )


def see(walls: PolicyWalls) -> tuple[Sentence, ...]:
    """Return the key sentences: the most work, the share shown, and the sources of times."""
    rows, every = most_work(walls), list(selected_kernels(walls))
    if not rows:
        return ()
    k = rows[0].kernel
    tasks = f": {counted(k.tasks, 'rTask')} of {time_text(k.task_us)}, {time_text(rows[0].us)} "
    sentences: list[Sentence] = [
        (Mark(rows[0].label, "row:0"), f" has the most work{tasks}in all.")
    ]
    count, all_us = counted(len(every), "rOperator"), sum(row.us for row in every)
    if len(every) > len(rows):
        part = sum(row.us for row in rows) / (all_us or 1)
        shown = Mark(f"{len(rows)} of {count}", "predicted|measured")
        share_text = "nearly all" if part > 0.99 else f"{part:.0%}"
        sentences.append((shown, f" have {share_text} of the work."))
    else:
        all_ = Mark(count, "predicted|measured")
        sentences.append((all_, f" have {time_text(all_us)} of work on {walls.units}."))
    timed = sum(row.kernel.source == "measured" for row in every)
    drawn = any(row.kernel.source == "measured" for row in rows)
    share = f"{timed} of {len(every)}"
    if not timed:
        sentences.append(("All task times are ", Mark("predicted", "predicted"), "."))
    else:
        sentences.append((Mark(share, "measured") if drawn else share, " task times are measured."))
    return tuple(sentences)


def table(walls: PolicyWalls) -> Table:
    """Return one row per rOperator."""
    columns = (
        "rOperator",
        "selected rKernel",
        "rTasks",
        "µs per rTask",
        "µs if cached",
        "source",
        "constant",
        "other rKernels",
    )
    rows = tuple(map(_row, selected_kernels(walls))) or (
        ("nothing is scheduled", "", 0, 0.0, "", "", "", ""),
    )
    return Table(columns, rows, (), caption(walls), see(walls))


@dataclass(frozen=True, slots=True)
class SelectedKernel:
    """An rOperator and the rKernel that the policy selected."""

    operator: ROperator
    label: str
    kernel: RKernel
    name: str

    @property
    def us(self) -> float:
        """The time of all its tasks, one after another."""
        return self.kernel.tasks * self.kernel.task_us


def selected_kernels(walls: PolicyWalls) -> Iterator[SelectedKernel]:
    """Yield the rOperators of the current wall, in order."""
    labels = {call.name: call.label for call in walls.calls}
    for s in walls.chosen.schedules:
        chosen = {x.operator: x.kernel for p in s.placement.programs for x in p}
        for n, o in enumerate(s.facts.operators):
            if n in chosen:
                k = o.kernel(chosen[n])
                name = k.name if o.kernels else o.kind or "the only one"
                yield SelectedKernel(o, labels.get(o.name, o.name), k, name)


def most_work(walls: PolicyWalls) -> list[SelectedKernel]:
    """Return the rOperators with the most work first, as many as the chart can show."""
    return sorted(selected_kernels(walls), key=lambda row: -row.us)[:MOST]


def _row(row: SelectedKernel) -> tuple[Cell, ...]:
    o, k = row.operator, row.kernel
    others = [f"{x.name}: {x.tasks} × {x.task_us:.2f} µs" for x in o.kernels if x.name != k.name]
    return (
        row.label,
        row.name,
        k.tasks,
        round(k.task_us, 3),
        round(k.cached_us, 3) if k.cached_us else "",
        "measured" if k.source == "measured" else PREDICTED,
        f"{o.constant} {size_text(o.constant_bytes)}" if o.constant else "",
        ", ".join(others),
    )


def chart(rammed: PolicyWalls, title: str, theme: str) -> go.Figure:
    """Draw a bar per rOperator: its rTasks times the time of one.

    Outlined if the time is modelled, filled if it is measured.
    """
    c, figure, rows = colours(theme), go.Figure(), most_work(rammed)
    names = [f"{n + 1}  {row.label}" for n, row in enumerate(rows)]
    for source, fill in (("predicted", c["pane"]), ("measured", c["t2"])):
        mine = [
            n
            for n, row in enumerate(rows)
            if (row.kernel.source == "measured") == (fill != c["pane"])
        ]
        figure.add_bar(
            x=[rows[n].us for n in mine],
            y=[names[n] for n in mine],
            name=f"{source} time of a task",
            orientation="h",
            marker={"color": fill, "line": {"color": c["ink2"], "width": 1}},
            customdata=[_words(rows[n]) for n in mine],
            selected={"marker": {"color": c["accent"], "opacity": 1}},
            unselected={"marker": {"opacity": 1}},
            meta={
                "ops": [sorted(rows[n].operator.origin) for n in mine],
                "k": [f"{source} row:{n}" for n in mine],
            },
            hovertemplate="%{customdata}<extra></extra>",
        )
    figure.update_layout(barmode="stack", bargap=0.3, meta=least_height(len(names)))
    figure.update_xaxes(title="rTasks × time of one (µs), most work first")
    figure.update_yaxes(
        title="rOperator",
        categoryorder="array",
        categoryarray=names,
        autorange="reversed",
    )
    return styled(figure, theme, title, max(300, 150 + 22 * len(names)))


def _words(row: SelectedKernel) -> str:
    k = row.kernel
    return (
        f"{row.label}: {k.tasks:,} × {time_text(k.task_us)} = {time_text(row.us)}, "
        f"{row.name}, {k.source}<br>{row.operator.name} in the program"
    )


PICTURE = Picture(
    name="rtasks",
    title="rTasks",
    words="Every rOperator's rTasks: their number, the time of one, and the selected rKernel.",
    stage=Stage.RAMMED,
    family=WALLS,
    draw=of_walls(None, table),
    chart=chart,
)
