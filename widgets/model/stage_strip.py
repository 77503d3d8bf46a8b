"""The stages in their order: how long each took, whether it ran again, what it changed, whether it
was checked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from explorer.ir.program import Program
from explorer.ir.stage import PROMISES, Stage
from widgets.draw.svg import Svg, label, rect
from widgets.draw.table import Table
from widgets.model.compiled import Compiled, Snapshot

OPTIONAL = frozenset({Stage.DIFFERENTIATED})  # shown only where it ran


@dataclass(frozen=True, slots=True)
class StageCell:
    """One stage and its steps (positions in `Compilation.snapshots`).

    `changes` counts the bindings of the program after it that were not there before; `checked` is
    None where nothing was checked.
    """

    stage: str
    promise: str
    steps: tuple[int, ...]
    seconds: float
    kept: bool
    changes: int
    checked: None | bool | str
    ran: bool = True


def data(c: Compiled) -> tuple[StageCell, ...]:
    """One cell a stage; a stage that was not reached has `ran` False."""
    return tuple(
        _cell(c, stage)
        for stage in Stage
        if stage not in OPTIONAL or any(s.stage == stage for s in c.snapshots)
    )


def _cell(c: Compiled, stage: Stage) -> StageCell:
    steps = tuple(i for i, s in enumerate(c.snapshots) if s.stage == stage)
    mine = [c.snapshots[i] for i in steps]
    return StageCell(
        stage.name,
        PROMISES[stage],
        steps,
        sum(s.seconds for s in mine),
        bool(mine) and all(s.kept for s in mine),
        sum(changes(s.before, s.after) for s in mine),
        _checked(mine),
        ran=bool(mine) or stage <= c.program.stage,
    )


def _checked(steps: Iterable[Snapshot]) -> None | bool | str:
    """The first failure, else whether all were checked."""
    answers = [s.checked for s in steps]
    bad = next((a for a in answers if a is False or isinstance(a, str)), None)
    return bad if bad is not None else (True if answers and all(answers) else None)


def changes(before: Program, after: Program) -> int:
    """How many bindings of `after` are new or different; 1 where only decisions were taken."""
    if before is after:
        return 0
    old = {b.vars: b for _, b in before.bindings()}
    count = sum(old.get(b.vars) != b for _, b in after.bindings())
    return count or int(before.decisions is not after.decisions)


def table(cells: tuple[StageCell, ...]) -> Table:
    """One row a stage."""
    return Table(
        ("stage", "seconds", "run", "changes", "checked"),
        tuple(
            (c.stage, round(c.seconds, 4), _state(c), c.changes, _mark(c.checked)) for c in cells
        ),
    )


def _state(cell: StageCell) -> str:
    return ("kept" if cell.kept else "new") if cell.ran else "not run"


def _mark(checked: None | bool | str) -> str:
    match checked:
        case None:
            return "not checked"
        case True:
            return "equal"
        case False:
            return "differs"
    return checked


def figure(cells: tuple[StageCell, ...]) -> Svg:
    """The cells side by side, with a bar for the share of the time."""
    wide, most = 110, max((c.seconds for c in cells), default=0) or 1
    marks = []
    for i, cell in enumerate(cells):
        x = i * wide
        style = "i w" if cell.changes else "q"
        marks += [
            rect(
                x + 0.5, 0.5, wide - 1, 51, "var(--app)", 'stroke="var(--line)"', title=cell.promise
            ),
            label(x + 10, 20, cell.stage, style),
            label(x + 10, 38, f"{cell.seconds:.3f} s, {_state(cell)}"),
            rect(x, 50, max(2, wide * cell.seconds / most), 2, "var(--ink3)"),
        ]
    return Svg(wide * len(cells), 52, "".join(marks), "Stages of the compilation")
