"""Rammer: the planned wall beside the measured one."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from typing import TYPE_CHECKING

from explorer.cli.answer import Answer
from explorer.cli.explained.called import PROGRAM, labels
from explorer.cli.explained.find import about, no_such, shortened
from explorer.devices.catalogue import unit_word
from explorer.ir.calls import FunctionCall, Loop
from explorer.ir.decisions.wall import Wall
from explorer.measure.walls import compare_walls, off_by
from explorer.plain_text import correlation, counted, duration, percent, signed_percent, table
from explorer.rammer.walls.wall_statistics import idle_by_cause

if TYPE_CHECKING:
    import numpy as np

    from explorer.compilation import Compilation

RUNS = 9  # stamped runs, of which the one in the middle is shown


@dataclass(frozen=True, slots=True)
class CallTime:
    """One call on the wall: its time on all units together; NaN where nothing was measured."""

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
    """The planned wall beside the measured one: in all, by cause of idling, and by call.

    Without inputs nothing is run or measured.
    """
    planned = c.planned_wall(sizes)
    measured = None if inputs is None else typical(c, inputs)
    calls = [
        row for row in _calls(planned, measured) if about(op, row.call, frozenset(row.origins))
    ]
    if op is not None and not calls:
        raise no_such(c, op, (b.call for b in planned.everything))
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
        walls(planned, measured),
        _call_table(calls, op, labels(c)),
        *trips(c, sizes),
        *unprinted(c, sizes),
    ]
    return Answer(data, "\n\n".join(parts))


def trips(c: Compilation, sizes: Mapping[str, int] | None = None) -> list[str]:
    """What to know of the plan of a program with loops or recursions that only a run counts."""
    if not any(isinstance(b.expr, Loop | FunctionCall) for _, b in c.program.bindings()):
        return []
    found = c.uncounted(sizes)
    told = f"  Predicted with one iteration or call, as only a run counts them: {', '.join(found)}."
    return [told] if found else []


def unprinted(c: Compilation, sizes: Mapping[str, int]) -> list[str]:
    """What a data sheet's wall has bricks of that are priced alone."""
    if c.device.kind != "gpu":
        return []
    chosen = c.chosen_blocks(sizes)
    names = [b.name for b in c.program.kernel_calls if b.name not in chosen]
    told = f"  Priced as Roller's tiles, for no thread blocks are made of them: {', '.join(names)}."
    return [told] if names else []


def typical(c: Compilation, inputs: Mapping[str, np.ndarray]) -> Wall:
    """The measured wall whose total is the median of several, after a run that warms up."""
    return c.measured_wall(inputs, RUNS)


def _calls(planned: Wall, measured: Wall | None) -> list[CallTime]:
    """Each call of the wall, the longest first."""
    plan, run = _spent(planned), {} if measured is None else _spent(measured)
    origins = {brick.call: tuple(sorted(brick.origin)) for brick in planned.bricks}
    bricks = Counter(brick.call for brick in planned.everything)
    laid = Counter(brick.call for brick in measured.everything) if measured else Counter[str]()
    rows = [
        CallTime(n, origins[n], bricks[n], us, run.get(n, nan), laid[n]) for n, us in plan.items()
    ]
    return sorted(rows, key=lambda row: -(row.measured_us if run else row.planned_us))


def _spent(each: Wall) -> dict[str, float]:
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


def walls(planned: Wall, measured: Wall | None) -> str:
    """The two walls in all, and what each unit waited for."""
    plan = idle_by_cause(planned)
    run = {} if measured is None else idle_by_cause(measured)
    absent = nan if measured is None else 0.0
    busy = "–" if measured is None else percent(measured.busy)
    rows = [
        ("one run", *pair(planned.total_us, nan if measured is None else measured.total_us)),
        (f"{unit_word(planned.device)}s busy", percent(planned.busy), busy, ""),
        *(
            (f"idle: {cause}", *pair(plan.get(cause, 0.0), run.get(cause, absent)))
            for cause in sorted({**plan, **run})
        ),
    ]
    if measured is not None:
        found = compare_walls(planned, measured)
        off = duration(found.total_error_us)
        rows.append(("tasks: sum of errors", "", "", off))
        rows.append(("tasks: order agrees", "", "", correlation(found.rank_correlation)))
    tasks = counted(len(planned.bricks), "task")
    units = counted(planned.units, unit_word(planned.device))
    said = "nothing measured" if measured is None else f"measured here: the median of {RUNS} runs"
    head = f"{tasks} on {units} of {planned.device}, policy {planned.policy}; {said}"
    return f"{head}\n\n{table(('', '>predicted', '>measured', '>off by'), rows)}"


def pair(planned_us: float, measured_us: float) -> tuple[str, str, str]:
    """Planned, measured, and how far the plan is off; NaN is what was not measured."""
    known = planned_us and measured_us and not isnan(measured_us)
    off = signed_percent(off_by(planned_us, measured_us)) if known else ""
    return duration(planned_us), duration(measured_us), off


def _call_table(calls: Sequence[CallTime], op: str | None, called: Mapping[str, str]) -> str:
    """One row a call; one of a loop's body, `loop/call`, is called as it is there."""
    rows = [
        (
            called.get(row.call.split("/")[-1], row.call),
            row.call,
            str(row.bricks),
            *pair(row.planned_us, row.measured_us),
            ", ".join(row.origins),
        )
        for row in calls
    ]
    cut = [(*row[:-1], row[-1] if len(row[-1]) < 40 else f"{row[-1][:37]}…") for row in rows]
    head = ("call", PROGRAM, ">tasks", ">predicted", ">measured", ">off by", "from")
    return table(head, shortened(cut, op, 7))
