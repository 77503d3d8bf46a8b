"""The rOperators of a program: how many rTasks each has, how long one takes, by which clock, and
which of its implementations the policy took.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from explorer.ir.stage import Stage
from explorer.rammer import RKernel, ROperator
from widgets.draw.see import Mark, Sentence
from widgets.draw.table import Cell, Table, count_text, size_text, time_text
from widgets.model.brick_wall import PREDICTED
from widgets.model.picture import Picture
from widgets.rammer.view import WALLS, Rammed, of_walls

MOST = 12  # that the chart has room for


def caption(found: Rammed) -> str:
    """How many, and where their times are from."""
    operators = list(taken(found))
    measured = sum(row.kernel.source == "measured" for row in operators)
    tasks = sum(row.kernel.tasks for row in operators)
    rest = f"; the {MOST} with the most work" if len(operators) > MOST else ""
    return (
        f"{len(operators)} rOperators on {found.device}, {tasks:,} rTasks; task times of "
        f"{measured} are measured, of {len(operators) - measured} predicted{rest}"
    )


def see(found: Rammed) -> tuple[Sentence, ...]:
    """The sentences: the rOperator with the most work, the share of those that are drawn, and how
    many task times a clock told.
    """
    rows, every = most_work(found), list(taken(found))
    if not rows:
        return ()
    k = rows[0].kernel
    tasks = f": {count_text(k.tasks, 'rTask')} of {time_text(k.task_us)}, {time_text(rows[0].us)} "
    told: list[Sentence] = [(Mark(rows[0].label, "row:0"), f" has the most work{tasks}in all.")]
    count, all_us = count_text(len(every), "rOperator"), sum(row.us for row in every)
    if len(every) > len(rows):
        part = sum(row.us for row in rows) / (all_us or 1)
        shown = Mark(f"{len(rows)} of {count}", "predicted|measured")
        share_text = "nearly all" if part > 0.99 else f"{part:.0%}"
        told.append((shown, f" have {share_text} of the work."))
    else:
        all_ = Mark(count, "predicted|measured")
        told.append((all_, f" have {time_text(all_us)} of work on {found.units}."))
    timed = sum(row.kernel.source == "measured" for row in every)
    drawn = any(row.kernel.source == "measured" for row in rows)
    share = f"{timed} of {len(every)}"
    if not timed:
        told.append(("All task times are ", Mark("predicted", "predicted"), "."))
    else:
        told.append((Mark(share, "measured") if drawn else share, " task times are measured."))
    return tuple(told)


def table(found: Rammed) -> Table:
    """One row an rOperator."""
    columns = (
        "rOperator",
        "rKernel taken",
        "rTasks",
        "µs of one",
        "kept µs",
        "source",
        "constant",
        "other rKernels",
    )
    rows = tuple(map(_row, taken(found))) or (("nothing is scheduled", "", 0, 0.0, "", "", "", ""),)
    return Table(columns, rows, (), caption(found), see(found))


@dataclass(frozen=True, slots=True)
class Taken:
    """An rOperator, and the implementation that the policy took."""

    operator: ROperator
    label: str
    kernel: RKernel
    name: str

    @property
    def us(self) -> float:
        """All its tasks, one after another."""
        return self.kernel.tasks * self.kernel.task_us


def taken(found: Rammed) -> Iterator[Taken]:
    """The rOperators of the wall on show, in order."""
    labels = {call.name: call.label for call in found.calls}
    for s in found.chosen.schedules:
        chosen = {x.operator: x.kernel for p in s.placement.programs for x in p}
        for n, o in enumerate(s.facts.operators):
            if n in chosen:
                k = o.kernel(chosen[n])
                name = k.name if o.kernels else o.kind or "the only one"
                yield Taken(o, labels.get(o.name, o.name), k, name)


def most_work(found: Rammed) -> list[Taken]:
    """Those with the most work first, as many as a chart has room for."""
    return sorted(taken(found), key=lambda row: -row.us)[:MOST]


def _row(row: Taken) -> tuple[Cell, ...]:
    o, k = row.operator, row.kernel
    others = [f"{x.name}: {x.tasks} × {x.task_us:.2f} µs" for x in o.kernels if x.name != k.name]
    return (
        row.label,
        row.name,
        k.tasks,
        round(k.task_us, 3),
        round(k.kept_us, 3) if k.kept_us else "",
        "measured" if k.source == "measured" else PREDICTED,
        f"{o.constant} {size_text(o.constant_bytes)}" if o.constant else "",
        ", ".join(others),
    )


PICTURE = Picture(
    name="rtasks",
    title="rTasks",
    words="Every rOperator's rTasks: how many, how long one takes, and which rKernel was taken.",
    stage=Stage.RAMMED,
    family=WALLS,
    draw=of_walls(None, table),
)
