"""The step that the pictures of a session begin with, and its comparison."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from explorer.errors import BadOption
from widgets.model.compiled import Compiled
from widgets.model.knobs import first_setting
from widgets.model.on_show import View
from widgets.program.steps import PINNED
from widgets.session.verdict import HistoryEntry

if TYPE_CHECKING:
    from widgets.session.session import Session


def look_at(session: Session, step: str = "", against: Compiled | None = None) -> None:
    """Set the step that pictures show, or compare the session with the compilation `against`.

    `against` becomes A. Raises BadOption for an unknown step.
    """
    if against is not None:
        pinned = HistoryEntry(first_setting(against, None), "as compiled")
        session.steps = replace(session.steps, pinned=pinned)
    session.view = View(step=_number(session, step), against=PINNED if against else "")


def _number(session: Session, step: str) -> int:
    names = [s.name for s in session.now.compiled.snapshots]
    if step and step not in names:
        raise BadOption(f"there is no step {step[:40]!r}", where=step, expected=", ".join(names))
    return names.index(step) if step else -1
