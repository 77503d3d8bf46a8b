"""What each step is worth: the program without it, by its plan and, where it runs here, by the
clock, beside the program with all steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from explorer.compilation import Compilation
from explorer.stepping.leave_out import Cost, LeftOut, changed_something, cost_of, leave_one_out
from widgets.draw.see import Mark, Sentence
from widgets.draw.table import Table, count_text, size_text, time_text
from widgets.model.compiled import Arrays
from widgets.model.house import House
from widgets.model.knobs import Setting
from widgets.model.on_show import OnShow
from widgets.model.picture import Clock, Drawn, Picture, nothing
from widgets.program.switchboard import ALONE

NAME = "left_out"
LEAST = 0.001  # a smaller change of the time is none


@dataclass(frozen=True, slots=True)
class LeftOutRows:
    """The cost with all steps, and each step left out alone."""

    whole: Cost
    rows: tuple[LeftOut, ...]

    @property
    def effects(self) -> tuple[LeftOut, ...]:
        """Those without which the plan is another one."""
        return tuple(r for r in self.rows if r.cost is not None and r.cost != self.whole)


def table(found: LeftOutRows) -> Table:
    """One row a step: what is planned without it, and what the clock said."""
    columns = (
        "step left out", "per run, predicted µs", "more µs", "memory bytes", "kernels",
        "measured: times as long", "99 % interval", "why not",
    )  # fmt: skip
    rows = [
        ("none", round(found.whole.us, 2), 0.0, found.whole.bytes, found.whole.kernels, "", "", "")
    ]
    rows += [_row(r, found.whole) for r in found.rows]
    return Table(columns, tuple(rows), ((),) * len(rows), caption(found), see(found))


def _row(r: LeftOut, whole: Cost) -> tuple[Any, ...]:
    if r.cost is None:
        return (r.step, "", "", "", "", "", "", r.refused)
    c, m = r.cost, r.measured
    clock = (round(1 / m.ratio, 3), f"{1 / m.high:.3f} to {1 / m.low:.3f}") if m else ("", "")
    return (r.step, round(c.us, 2), round(c.us - whole.us, 2), c.bytes, c.kernels, *clock, "")


def caption(found: LeftOutRows) -> str:
    """The step that is worth most, by its plan, and by the clock where that was asked."""
    said = (
        f"with all steps: predicted {time_text(found.whole.us)}, "
        f"{size_text(found.whole.bytes)} of memory, {found.whole.kernels} kernels"
    )
    costs = [(r.cost.us, r) for r in found.effects if r.cost is not None]
    if not costs:
        return f"{said}; no step changes that alone"
    us, most = max(costs, key=lambda x: x[0])
    timed = sum(r.measured is not None for r in found.rows)
    clock = f"; {timed} timed in turns with it" if timed else ""
    return f"{said}; without {most.step}: {time_text(us)}{clock}"


def see(found: LeftOutRows) -> tuple[Sentence, ...]:
    """The sentences: the step that is worth most by the plan, what the clock says of it, and the
    step without which the program would be fastest.
    """
    costs = [(r.cost.us, n) for n, r in enumerate(found.rows) if r.cost is not None]
    whole = found.whole.us
    if not costs:
        return ()
    (longest, most), (shortest, least) = max(costs), min(costs)
    if longest <= whole:
        steps = Mark(count_text(len(costs), "step"), "predicted")
        told: list[Sentence] = [(steps, " left out alone: a run takes no longer, predicted.")]
    else:
        first = Mark(found.rows[most].step, f"step:{most}")
        more = f", with all steps {time_text(whole)}, predicted."
        us = Mark(time_text(longest), f"predicted step:{most}")
        told = [(first, " is worth most: without it a run takes ", us, more)]
    m = found.rows[most].measured
    if m is not None and longest > whole:
        times = Mark(f"{1 / m.ratio:.2f} times", f"measured step:{most}")
        ends = f" as long without it ({1 / m.high:.2f} to {1 / m.low:.2f})."
        told.append(("The clock says ", times, ends))
    if shortest < whole * (1 - LEAST):
        name, us = found.rows[least].step, Mark(time_text(shortest), f"predicted step:{least}")
        told.append((f"Without {name} it would be faster: ", us, ", predicted."))
    return tuple(told)


def _draw(s: OnShow, op: str) -> Drawn:
    found = s.clocked(NAME, "")
    if found is None:
        c = s.now.compiled
        asked = [(x.name, round(x.seconds, 4)) for x in c.snapshots]
        words = "each step left out alone: not compiled yet"
        return (
            (),
            nothing(words)[1],
            Table(("step", "seconds"), tuple(asked), ((),) * len(asked), words),
        )
    return found, None, table(found)


def _measured(
    now: Setting, house: House, about: str, inputs: Arrays
) -> Iterator[tuple[int, int, Any]]:
    """Each step in turn: its plan, and the clock where that is another one."""
    c: Any = now.compiled  # `about` said that it has a pipeline
    sizes = dict(now.sizes)
    count, rows = len(changed_something(c)), tuple[LeftOut, ...]()
    whole = cost_of(c, sizes)
    for row in leave_one_out(c, sizes, inputs or None):
        rows = (*rows, row)
        yield len(rows), count, LeftOutRows(whole, rows)


PICTURE = Picture(
    name=NAME,
    title="Ablation",
    words="Each step left out alone: what a run then takes, predicted, and by the clock where the "
    "plan is another one.",
    draw=_draw,
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
