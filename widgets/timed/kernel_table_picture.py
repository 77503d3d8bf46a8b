"""Words of the kernel table, and its clock."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter
from typing import Any

from explorer.ir.stage import Stage
from widgets.draw.see import Mark, Sentence
from widgets.draw.table import Cell, Table, count_text, time_text
from widgets.model import brick_wall
from widgets.model.brick_wall import units_text
from widgets.model.compiled import Arrays
from widgets.model.house import House
from widgets.model.knobs import Setting
from widgets.model.on_show import OnShow
from widgets.model.picture import Clock, Drawn, Picture
from widgets.timed.kernel_table import (
    KernelRow,
    KernelRows,
    busiest_us,
    data,
    measurements,
    tasks_of,
)
from widgets.timed.measured_text import COLUMNS, cells

NAME = "kernels"
RUNS, SECONDS = 40, 3.0  # of the program, at most: then 8 are enough
LEAST = 8
MOST = 16  # that the chart has room for


def caption(rows: KernelRows) -> str:
    """Return the sums of floors and times, and the kernel farthest above its floor."""
    with_floor = [k for k in rows.kernels if k.floor]
    limit_text = f"; the {MOST} longest" if len(rows.kernels) > MOST else ""
    figures = f"{rows.figures} figures" if rows.figures else "data sheet"
    least = sum(k.floor.us for k in with_floor if k.floor)
    text = (
        f"{count_text(len(rows.kernels), 'kernel')} on {units_text(rows.units, rows.device)} of "
        f"{rows.device}: floor {time_text(least)} ({figures}), predicted "
        f"{time_text(sum(k.planned_us for k in rows.kernels))}"
    )
    if rows.measured:
        took = sum(k.measured.median_us for k in rows.kernels if k.measured)
        text += f", measured {time_text(took)}"
    elif rows.own:
        text += ", none measured yet"
    if not with_floor:
        return text + limit_text
    most = max(with_floor, key=lambda k: k.us - (k.floor.us if k.floor else 0.0))
    return (
        f"{text}; most above its floor: {most.label}, {1 / max(most.share, 1e-9):.1f} times as long"
    )


def see(rows: KernelRows) -> tuple[Sentence, ...]:
    """Return the sentences.

    The longest kernel, the one farthest above its floor, and the number measured below theirs.
    """
    if not rows.kernels:
        return ()
    shown, k = rows.kernels[:MOST], rows.kernels[0]
    times: Sentence = (Mark(time_text(k.planned_us), "predicted kernel:0"), " predicted")
    if k.measured:
        measured = Mark(time_text(k.measured.median_us), "measured kernel:0")
        times = (*times, ", ", measured, " measured")
    share = k.us / (sum(x.us for x in rows.kernels) or 1)
    sentences: list[Sentence] = [
        (Mark(k.label, "kernel:0"), " takes longest: ", *times, f", {share:.0%} of all kernels.")
    ]
    above = [(x.us - x.floor.us, n) for n, x in enumerate(rows.kernels) if x.floor and x.share < 1]
    if above:
        n = max(above)[1]
        label, ratio = rows.kernels[n].label, 1 / max(rows.kernels[n].share, 1e-9)
        over = f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.1f}"
        name = Mark(label, f"kernel:{n}") if n < MOST else label
        sentences.append((name, f" is farthest above its floor, the least possible time: {over}×."))
    below = [n for n, x in enumerate(shown) if x.measured and x.share > 1]
    if below:
        count = Mark(count_text(len(below), "kernel"), "|".join(f"kernel:{n}" for n in below))
        sentences.append((count, " ran below the floor: the device is faster than its figures."))
    return tuple(sentences)


def table(rows: KernelRows) -> Table:
    """Return one row per kernel."""
    columns = (
        "kernel", "in the program", "family", "operations", "bytes", "floor µs", "bound by",
        "predicted µs", *COLUMNS, "floor ÷ time", "measured ÷ predicted",
    )  # fmt: skip
    cells_of_rows = tuple(map(_row, rows.kernels))
    return Table(
        columns, cells_of_rows, tuple(k.ops for k in rows.kernels), caption(rows), see(rows)
    )


def _row(k: KernelRow) -> tuple[Cell, ...]:
    f, m = k.floor, k.measured
    least: tuple[Cell, ...] = ("", "", "", "")
    if f is not None:
        least = (f.operations, f.bytes, round(f.us, 3), f.bound)
    ratio = round(m.median_us / k.planned_us, 3) if m and k.planned_us else ""
    share = f"{k.share:.1%}" if f else ""
    planned = round(k.planned_us, 3)
    return (k.label, k.call, k.family, *least, planned, *cells(m), share, ratio)


def _draw(s: OnShow, op: str) -> Drawn:
    planned = s.walls.planned
    if planned is None:
        words = "no kernel is placed yet: compile through RAMMED"
        return (), None, Table(("kernel",), (), (), words)
    rows = data(s.now, s.house, planned, s.clocked(NAME, "") or {})
    if not rows.kernels:
        return (), None, Table(("kernel",), (), (), "no kernel is on the wall")
    return rows, None, table(rows)


def _measured(
    now: Setting, house: House, about: str, inputs: Arrays
) -> Iterator[tuple[int, int, Any]]:
    """Run the program with time stamps, and yield the measurements so far."""
    plan = brick_wall.data(now.compiled.planned_wall(dict(now.sizes)), house.calls)
    tasks, runs = tasks_of(plan), list[dict[str, float]]()
    now.compiled.measured_wall(inputs)  # warm-up
    end = perf_counter() + SECONDS
    while len(runs) < LEAST or (len(runs) < RUNS and perf_counter() < end):
        wall = brick_wall.data(now.compiled.measured_wall(inputs), house.calls)
        runs.append(busiest_us(wall, tasks))
        yield len(runs), RUNS, measurements(runs) or None


PICTURE = Picture(
    name=NAME,
    title="Kernel table",
    words="Each kernel of the program: least possible time on this device, predicted, measured.",
    stage=Stage.EMITTED,
    draw=_draw,
    clock=Clock(
        "Measure the kernels",
        lambda s, op: "" if s.walls.planned is not None else None,
        _measured,
        lambda times: f"{count_text(len(times), 'kernel')} measured" if times else "",
    ),
)
