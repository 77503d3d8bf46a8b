"""Rammer's walls: the planned one beside the measured one, and the walls of every policy."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from typing import TYPE_CHECKING

from explorer.devices.catalogue import unit_word
from explorer.ir.calls import FunctionCall, Loop
from explorer.ir.decisions.wall import Wall
from explorer.measure.walls import compare_walls, off_by
from explorer.plain_text import correlation, counted, duration, percent, signed_percent, table
from explorer.rammer.wall_statistics import WallStatistics, idle_by_cause
from explorer.views.answer import Answer
from explorer.views.labels import PROGRAM, is_about, labels, shorten_rows, unknown_name

if TYPE_CHECKING:
    import numpy as np

    from explorer.compiler.compilation import Compilation

RUNS = 9  # timed runs; the median one is shown


@dataclass(frozen=True, slots=True)
class CallTime:
    """The time of one call on all units together; NaN if it was not measured."""

    call: str
    origins: tuple[str, ...]
    bricks: int
    planned_us: float
    measured_us: float
    measured_bricks: int = 0


def wall(
    c: Compilation,
    op: str | None,
    sizes: Mapping[str, int],
    inputs: Mapping[str, np.ndarray] | None,
) -> Answer:
    """Return the planned and the measured wall: in total, by cause of idling, and by call.

    Without inputs nothing is run or measured.
    """
    planned = c.planned_wall(sizes)
    measured = None if inputs is None else typical_wall(c, inputs)
    calls = [
        row for row in _calls(planned, measured) if is_about(op, row.call, frozenset(row.origins))
    ]
    if op is not None and not calls:
        raise unknown_name(c, op, (b.call for b in planned.everything))
    data = {
        "stage": "rammed",
        "policy": planned.policy,
        "sizes": sizes,
        "planned": _shape(planned),
        "measured": measured and _shape(measured),
        "error": measured and off_by(planned.total_us, measured.total_us),
        "calls": calls,
    }
    parts = [
        wall_table(planned, measured),
        _call_table(calls, op, labels(c)),
        *trip_count_note(c, sizes),
        *unprinted_note(c, sizes),
    ]
    return Answer(data, "\n\n".join(parts))


def trip_count_note(c: Compilation, sizes: Mapping[str, int] | None = None) -> list[str]:
    """Return a note on loops and recursions whose trip counts only a run knows."""
    if not any(isinstance(b.expr, Loop | FunctionCall) for _, b in c.program.bindings()):
        return []
    uncounted = c.uncounted(sizes)
    names = ", ".join(uncounted)
    note = f"  Predicted with one iteration or call, as only a run counts them: {names}."
    return [note] if uncounted else []


def unprinted_note(c: Compilation, sizes: Mapping[str, int]) -> list[str]:
    """Return a note on kernel calls of a data sheet that have a price but no thread blocks."""
    if not c.target.uses_thread_blocks:
        return []
    chosen = c.chosen_blocks(sizes)
    names = [b.name for b in c.program.kernel_calls if b.name not in chosen]
    note = f"  Priced as Roller's tiles, for no thread blocks are made of them: {', '.join(names)}."
    return [note] if names else []


def typical_wall(c: Compilation, inputs: Mapping[str, np.ndarray]) -> Wall:
    """Return the measured wall with the median total of several runs, after a warm-up."""
    return c.measured_wall(inputs, RUNS)


def _calls(planned: Wall, measured: Wall | None) -> list[CallTime]:
    """Return each call of the wall, the longest first."""
    plan, run = _time_by_call(planned), {} if measured is None else _time_by_call(measured)
    origins = {brick.call: tuple(sorted(brick.origin)) for brick in planned.bricks}
    bricks = Counter(brick.call for brick in planned.everything)
    laid = Counter(brick.call for brick in measured.everything) if measured else Counter[str]()
    rows = [
        CallTime(n, origins[n], bricks[n], us, run.get(n, nan), laid[n]) for n, us in plan.items()
    ]
    return sorted(rows, key=lambda row: -(row.measured_us if run else row.planned_us))


def _time_by_call(each: Wall) -> dict[str, float]:
    spent: dict[str, float] = defaultdict(float)
    for brick in each.everything:
        spent[brick.call] += brick.end_us - brick.start_us
    return spent


def _shape(each: Wall) -> dict[str, object]:
    return {
        "total_us": each.total_us,
        "units": each.units,
        "bricks": len(each.bricks),
        "busy": each.busy,
        "idle_us": idle_by_cause(each),
    }


def wall_table(planned: Wall, measured: Wall | None) -> str:
    """Return a table of both walls in total and by cause of idling."""
    plan = idle_by_cause(planned)
    run = {} if measured is None else idle_by_cause(measured)
    absent = nan if measured is None else 0.0
    busy = "–" if measured is None else percent(measured.busy)
    rows = [
        (
            "one run",
            *format_times(planned.total_us, nan if measured is None else measured.total_us),
        ),
        (f"{unit_word(planned.device)}s busy", percent(planned.busy), busy, ""),
        *(
            (f"idle: {cause}", *format_times(plan.get(cause, 0.0), run.get(cause, absent)))
            for cause in sorted({**plan, **run})
        ),
    ]
    if measured is not None:
        comparison = compare_walls(planned, measured)
        off = duration(comparison.total_error_us)
        rows.append(("tasks: sum of errors", "", "", off))
        rows.append(("tasks: order agrees", "", "", correlation(comparison.rank_correlation)))
    tasks = counted(len(planned.bricks), "task")
    units = counted(planned.units, unit_word(planned.device))
    origin = "nothing measured" if measured is None else f"measured here: the median of {RUNS} runs"
    head = f"{tasks} on {units} of {planned.device}, policy {planned.policy}; {origin}"
    return f"{head}\n\n{table(('', '>predicted', '>measured', '>off by'), rows)}"


def format_times(planned_us: float, measured_us: float) -> tuple[str, str, str]:
    """Format planned time, measured time and the plan's error; NaN is a missing measurement."""
    is_measured = planned_us and measured_us and not isnan(measured_us)
    off = signed_percent(off_by(planned_us, measured_us)) if is_measured else ""
    return duration(planned_us), duration(measured_us), off


def _call_table(calls: Sequence[CallTime], op: str | None, call_labels: Mapping[str, str]) -> str:
    """Return one row per call; a call of a loop's body, `loop/call`, has the body's label."""
    rows = [
        (
            call_labels.get(row.call.split("/")[-1], row.call),
            row.call,
            str(row.bricks),
            *format_times(row.planned_us, row.measured_us),
            ", ".join(row.origins),
        )
        for row in calls
    ]
    cut = [(*row[:-1], row[-1] if len(row[-1]) < 40 else f"{row[-1][:37]}…") for row in rows]
    head = ("call", PROGRAM, ">tasks", ">predicted", ">measured", ">off by", "from")
    return table(head, shorten_rows(cut, op, 7))


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """A policy's wall beside the baseline's; `speedup` is None for a wall without length."""

    policy: str
    total_us: float
    speedup: float | None
    core_busy: float
    busy: float
    units: int
    per_core: int
    bricks: int
    rprograms: int
    kernel_us: float
    overhead_us: float
    idle_us: Mapping[str, float]


def policy_rows(walls: Sequence[WallStatistics], baseline: WallStatistics) -> tuple[PolicyRow, ...]:
    """Return one row per wall, in the same order."""
    return tuple(
        PolicyRow(
            a.policy,
            a.total_us,
            baseline.total_us / a.total_us if a.total_us else None,
            a.core_busy,
            a.busy,
            a.units,
            a.per_core,
            a.bricks,
            a.launches,
            a.kernel_us,
            a.overhead_us,
            dict(a.idle),
        )
        for a in walls
    )


def policies(walls: Sequence[WallStatistics]) -> Answer:
    """Return the walls of all policies, the baseline first, with idle time by cause."""
    rows = policy_rows(walls, walls[0])
    cells = [
        (
            row.policy,
            duration(row.total_us),
            "–" if row.speedup is None else f"{row.speedup:.2f}x",
            percent(row.core_busy),
            percent(row.busy),
            f"{row.units:,}",
            f"{row.rprograms:,}",
            duration(row.kernel_us),
            duration(row.overhead_us),
        )
        for row in rows
    ]
    head = (
        "policy", ">time", ">speedup", ">cores busy", ">units busy", ">units", ">rPrograms",
        ">in them", ">between",
    )  # fmt: skip
    return Answer({"policies": rows}, f"{table(head, cells)}\n\n{_idle_table(rows)}")


def _idle_table(rows: Sequence[PolicyRow]) -> str:
    """Tabulate idle time of all units together, as a share of units times time."""
    causes = sorted({cause for row in rows for cause in row.idle_us})
    if not causes:
        return "  no unit is ever idle"
    cells = []
    for row in rows:
        area = row.units * row.total_us
        shares = (percent(row.idle_us.get(c, 0.0) / area) if area else "" for c in causes)
        cells.append((row.policy, *shares))
    return table(("idle by cause", *(f">{c}" for c in causes)), cells)
