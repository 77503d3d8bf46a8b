"""The brick wall: a part of it, and a brick put elsewhere by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from explorer.errors import BadOption
from widgets.draw.table import time_text
from widgets.rammer import wall_hand
from widgets.session.changing import Changing
from widgets.session.questions import check_question
from widgets.session.verdict import Step
from widgets.session.wall_views import Binary


def wall(s: Changing, wall: str, **view: Any) -> Binary:
    """A part of a wall."""
    return s.shown.views.slice(wall, **view)


def move_brick(s: Changing, **drop: Any) -> Any:
    """A brick to another place, planned at once; the dependency that this would break."""
    if s.walls.planned is None:
        raise BadOption("nothing is scheduled: compile through Rammer")
    check_question("move_brick", wall_hand.Drop, drop)
    found = wall_hand.dropped(s.now, s.walls.planned, wall_hand.Drop(**drop))
    if isinstance(found, dict):
        return found
    setting, move = found
    before = s.shown.planned_us
    told = s.show_next(Step(setting, move.words), measured=False)
    us = s.shown.planned_us
    change = f", {us / before - 1:+.1%}" if before else ""
    said = f"{move.words}: predicted {time_text(us)}{change}"
    return {**told, "said": said, "measure": False}


ANSWERS: Mapping[str, Callable[..., Any]] = {"wall": wall, "move_brick": move_brick}
