"""The words of how well the cost model foretold each call: what a brick of it was planned to take
beside what it took.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explorer.ir.stage import Stage
from widgets.draw.see import Mark, Sentence
from widgets.draw.table import Table, count_text, time_text
from widgets.model.brick_wall import WallRows
from widgets.model.on_show import OnShow
from widgets.model.picture import Drawn, Picture
from widgets.rammer.wall_table import off_text


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """A call that both walls have. Times are means over its bricks, in microseconds: a plan has
    one trip of a loop that a run makes many of.
    """

    call: str
    label: str
    family: str
    ops: tuple[str, ...]
    bricks: int  # that ran
    planned_us: float
    us: float  # as it ran

    @property
    def ratio(self) -> float:
        """As it ran over planned: above 1 it took longer than was planned."""
        return self.us / self.planned_us

    @property
    def off(self) -> float:
        """The factor by which the prediction is off, either way."""
        return max(self.ratio, 1 / self.ratio)

    @property
    def missed_us(self) -> float:
        """What all its bricks took over what was planned for them."""
        return self.bricks * (self.us - self.planned_us)

    @property
    def work_us(self) -> float:
        """All its bricks that ran, one after another."""
        return self.bricks * self.us


@dataclass(frozen=True, slots=True)
class ErrorRows:
    """The calls, most work first; `kind` of the wall that ran: "measured" or "recorded"."""

    device: str
    kind: str
    calls: tuple[ErrorRow, ...]
    error: float = 0.0  # of the prediction for the whole run

    @property
    def half_within(self) -> float:
        """The factor by which half of the calls are off at most."""
        return float(np.median([r.off for r in self.calls]))

    @property
    def worst(self) -> ErrorRow:
        """The one that is farthest off."""
        return max(self.calls, key=lambda r: r.off)


def data(planned: WallRows, ran: WallRows, error: float) -> ErrorRows:
    """The calls with a time in both walls."""
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
    """By call the mean time of its bricks, and how many there are."""
    count = np.bincount(wall.call, minlength=len(wall.calls))
    spent = np.bincount(wall.call, wall.end - wall.start, minlength=len(wall.calls))
    return {
        call.name: (float(us / n), int(n)) for call, n, us in zip(wall.calls, count, spent) if n
    }


def caption(rows: ErrorRows) -> str:
    """How far off the plan was, in one line."""
    worst = rows.worst
    return (
        f"{count_text(len(rows.calls), 'call')} in one run, {off_text(rows.error)}; half of them "
        f"within ×{rows.half_within:.2f}, the farthest {worst.label} at ×{worst.ratio:.2f}"
    )


def see(rows: ErrorRows) -> tuple[Sentence, ...]:
    """The sentences: how far off the run was, the call whose error weighs most in it, and the one
    whose task is farthest off.
    """
    number = {r.call: n for n, r in enumerate(rows.calls)}

    def named(r: ErrorRow) -> Mark:
        return Mark(r.label, f"call:{number[r.call]}")

    near = Mark(count_text(len(rows.calls), "call"), "near")
    whose, are = ("half of the ", "are") if len(rows.calls) > 1 else ("its ", "is")
    run = f"The run was {off_text(rows.error)}; {whose}"
    found: list[Sentence] = [(run, near, f" {are} off by {rows.half_within:.2f}× or less.")]
    heaviest, worst = max(rows.calls, key=lambda r: abs(r.missed_us)), rows.worst
    off = heaviest.missed_us
    more = "more" if off > 0 else "less"
    took = f" weighs most: it took {time_text(abs(off))} {more} than predicted."
    found.append((named(heaviest), took))
    if worst is not heaviest:
        found.append(("Farthest off is ", named(worst), f": {_times(worst)}."))
    return tuple(found)


def _times(r: ErrorRow) -> str:
    """How a task's time compares with its prediction."""
    return f"a task takes {r.ratio:.3g} times its prediction"


def table(rows: ErrorRows) -> Table:
    """One row a call."""
    kind = rows.kind
    columns = ("call", "family", "tasks", "predicted µs", f"{kind} µs", f"{kind} ÷ predicted")
    found = tuple(
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
    return Table(columns, found, tuple(r.ops for r in rows.calls), caption(rows), see(rows))


def _draw(s: OnShow, op: str) -> Drawn:
    planned, (ran, found) = s.walls.planned, s.walls.ran
    if planned is None or ran is None:
        words = "nothing has run here yet: predictions are compared with runs"
        return (), None, Table(("call",), (), (), words)
    if found is None:
        return (), None, Table(("call",), (), (), f"{ran.said}: nothing is compared with the plan")
    rows = data(planned, ran, found.error)
    if not rows.calls:
        return (), None, Table(("call",), (), (), "no call has a time in both walls")
    return rows, None, table(rows)


PICTURE = Picture(
    name="errors",
    title="Plan and clock",
    words="What a task of each call was predicted to take beside what it took in the current run.",
    stage=Stage.RAMMED,
    draw=_draw,
    of_run=True,
)
