"""Accuracy of the cost model per call: the planned time of a brick next to its measured time."""

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
        f"{count_text(len(rows.calls), 'call')} in one run, {off_text(rows.error)}; half of them "
        f"within ×{rows.half_within:.2f}, the farthest {worst.label} at ×{worst.ratio:.2f}"
    )


def see(rows: ErrorRows) -> tuple[Sentence, ...]:
    """Return the key sentences: the run's error, the call that contributes most, the worst call."""
    number = {r.call: n for n, r in enumerate(rows.calls)}

    def named(r: ErrorRow) -> Mark:
        return Mark(r.label, f"call:{number[r.call]}")

    near = Mark(count_text(len(rows.calls), "call"), "near")
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
    of_run=True,
)
