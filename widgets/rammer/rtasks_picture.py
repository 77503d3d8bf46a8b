"""The rOperators of a program: how many rTasks each has, how long one takes, by which clock, and
which of its implementations the policy took.
"""

from __future__ import annotations

from collections.abc import Iterator

from explorer.ir.stage import Stage
from explorer.rammer import ROperator
from widgets.draw.svg import Svg, fit, label, path, rect
from widgets.draw.table import Cell, Table, size_text, time_text
from widgets.model.picture import Picture
from widgets.rammer.view import WALLS, Rammed, of_walls

WIDTH, LEFT, BAR, ROW, MOST = 780.0, 210.0, 290.0, 20.0, 24


def caption(found: Rammed) -> str:
    """How many, and where their times are from."""
    operators = list(_operators(found))
    measured = sum(k[5] == "measured" for k in operators)
    tasks = sum(int(k[2]) for k in operators)
    return (
        f"{len(operators)} rOperators on {found.device}, {tasks:,} rTasks; task times of "
        f"{measured} are measured, of {len(operators) - measured} modelled"
    )


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
    rows = tuple(_operators(found)) or (("nothing is scheduled", "", 0, 0.0, "", "", "", ""),)
    return Table(columns, rows, (), caption(found))


def _operators(found: Rammed) -> Iterator[tuple[Cell, ...]]:
    for s in found.chosen.schedules:
        taken = {x.operator: x.kernel for p in s.placement.programs for x in p}
        for n, o in enumerate(s.facts.operators):
            if n in taken:
                yield _row(o, taken[n])


def _row(o: ROperator, kernel: int) -> tuple[Cell, ...]:
    k = o.kernel(kernel)
    others = [
        f"{x.name}: {x.tasks} × {x.task_us:.2f} µs" for n, x in enumerate(o.kernels) if n != kernel
    ]
    return (
        o.name,
        k.name if o.kernels else o.kind or "the only one",
        k.tasks,
        round(k.task_us, 3),
        round(k.kept_us, 3) if k.kept_us else "",
        k.source,
        f"{o.constant} {size_text(o.constant_bytes)}" if o.constant else "",
        ", ".join(others),
    )


def figure(found: Rammed, selected: str = "") -> Svg:
    """The operators with the most work, as tasks times their time."""
    said = caption(found)
    rows = sorted(_operators(found), key=lambda r: -float(r[2]) * float(r[3]))
    longest = max((float(r[2]) * float(r[3]) for r in rows), default=0.0) or 1.0
    marks = [
        label(12, 20, fit(said, WIDTH - 24), "i w", title=said),
        label(LEFT, 40, "tasks × time of one", "q"),
    ]
    y = 50.0
    for row in rows[:MOST]:
        marks += _drawn(row, y, BAR / longest)
        y += ROW
    if len(rows) > MOST:
        marks.append(label(12, y + 14, f"and {len(rows) - MOST} more, in the table", "q"))
        y += 18
    return Svg(WIDTH, y + 14, "".join(marks), f"rTasks: {said}", selected)


def _drawn(row: tuple[Cell, ...], y: float, scale: float) -> Iterator[str]:
    name, kernel, tasks, us = str(row[0]), str(row[1]), float(row[2]), float(row[3])
    wide = max(1.0, tasks * us * scale)
    measured = row[5] == "measured"
    yield label(12, y + 13, fit(name, LEFT - 20), "i", title=name)
    fill = "var(--t2)" if measured else "none"
    yield rect(LEFT, y + 3, wide, 12, fill, 'stroke="var(--ink2)"')
    step = us * scale
    if step > 4:
        bars = "".join(f"M{LEFT + n * step:.1f} {y + 3:g}v12" for n in range(1, int(tasks)))
        yield path(bars or "M0 0", "var(--pane)" if measured else "var(--ink3)")
    words = f"{int(tasks):,} × {time_text(us)}, {kernel}, {row[5]}"
    yield label(LEFT + wide + 6, y + 13, fit(words, WIDTH - LEFT - wide - 14), title=words)


PICTURE = Picture(
    name="rtasks",
    title="rTasks",
    words="Every rOperator's rTasks: how many, how long one takes, and which rKernel was taken.",
    stage=Stage.RAMMED,
    family=WALLS,
    draw=of_walls(figure, table),
)
