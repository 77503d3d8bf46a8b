"""Questions about the brick wall: a part of it, and a brick moved by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from explorer.errors import BadOption
from widgets.draw.table import time_text
from widgets.rammer import drop_tasks
from widgets.session.mutable_session import MutableSession
from widgets.session.questions import check_question
from widgets.session.verdict import HistoryEntry
from widgets.session.wall_views import Binary


def wall(s: MutableSession, wall: str, **view: Any) -> Binary:
    """Return a part of a wall."""
    return s.shown.views.slice(wall, **view)


def move_brick(s: MutableSession, **drop: Any) -> Any:
    """Move a brick and plan at once, or return the dependency that this would break."""
    if s.walls.planned is None:
        raise BadOption("nothing is scheduled: compile through Rammer")
    check_question("move_brick", drop_tasks.Drop, drop)
    dropped = drop_tasks.drop_tasks(s.now, s.walls.planned, drop_tasks.Drop(**drop))
    if isinstance(dropped, dict):
        return dropped
    setting, move = dropped
    before = s.shown.planned_us
    reply = s.show_next(HistoryEntry(setting, move.text), measured=False)
    us = s.shown.planned_us
    change = f", {us / before - 1:+.1%}" if before else ""
    description = f"{move.text}: predicted {time_text(us)}{change}"
    return {**reply, "said": description, "measure": False}


ANSWERS: Mapping[str, Callable[..., Any]] = {"wall": wall, "move_brick": move_brick}
