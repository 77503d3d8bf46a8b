"""The drawing and the words of the stages."""

from __future__ import annotations

from widgets.draw.svg import Svg, label, rect
from widgets.draw.table import Table
from widgets.model import stage_strip
from widgets.model.on_show import OnShow
from widgets.model.picture import Drawn, Picture
from widgets.model.stage_strip import StageCell


def table(cells: tuple[StageCell, ...]) -> Table:
    """One row a stage."""
    return Table(
        ("stage", "seconds", "run", "changes", "checked"),
        tuple(
            (
                c.stage,
                round(c.seconds, 4),
                _state(c),
                c.changes or ("decided" if c.decided else 0),
                _mark(c.checked),
            )
            for c in cells
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
        style = "i w" if cell.changes or cell.decided else "q"
        marks += [
            rect(
                x + 0.5, 0.5, wide - 1, 51, "var(--app)", 'stroke="var(--line)"', title=cell.promise
            ),
            label(x + 10, 20, cell.stage, style),
            label(x + 10, 38, f"{cell.seconds:.3f} s, {_state(cell)}"),
            rect(x, 50, max(2, wide * cell.seconds / most), 2, "var(--ink3)"),
        ]
    return Svg(wide * len(cells), 52, "".join(marks), "Stages of the compilation")


def _draw(s: OnShow, op: str) -> Drawn:
    rows = stage_strip.data(s.now.compiled)
    return rows, figure(rows), table(rows)


PICTURE = Picture(
    name="stages",
    title="Stages",
    words="Every stage of the compilation with its time and what it changed.",
    draw=_draw,
)
