"""Questions about Welder's connections moved by hand: join, separate, time, apply."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from widgets.rooms import fusion_actions
from widgets.session.mutable_session import MutableSession
from widgets.session.verdict import HistoryEntry


def hand(s: MutableSession, device: str = "") -> Any:
    """Return the moves and their effect."""
    return s.move_editor.moves_part(s.now, device)


def move(s: MutableSession, value: str, level: str, device: str = "") -> Any:
    """Move one value to another level; return the reason if that is refused."""
    return s.move_editor.move(s.now, value, level, device)


def join(s: MutableSession, value: str, device: str = "") -> Any:
    """Move one value to the nearest level with room for it; return the reason if none has."""
    return s.move_editor.join(s.now, value, device)


def unmove(s: MutableSession, device: str = "", everything: bool = False) -> Any:
    """Undo the last move, or all of them."""
    return s.move_editor.unmove(s.now, device, everything)


def time_hand(s: MutableSession, device: str = "") -> Any:
    """Begin to compile the manual moves and to time them against the setting on show."""
    s.with_code()
    us = s.shown.planned_us
    return s.move_editor.start(s.now, s.inputs, s.bench.jobs, s.comparing.compare, us)


def take_hand(s: MutableSession, device: str = "") -> Any:
    """Compile the manual moves and continue with them."""
    what = ", ".join(f"{value} → {level}" for value, level in s.manual_moves.moves)
    changed = s.move_editor.compiled(s.now)
    return s.show_next(HistoryEntry(replace(s.now, compiled=changed), what))


def force(s: MutableSession, value: str) -> Any:
    """Fuse a value that Welder's policy left apart; return the reason if that is not legal."""
    changed = replace(s.now, compiled=fusion_actions.force_fusion(s.now, value))
    return s.show_next(HistoryEntry(changed, f"{value} joined by hand"))


ANSWERS: Mapping[str, Callable[..., Any]] = {
    "hand": hand,
    "move": move,
    "join": join,
    "unmove": unmove,
    "time_hand": time_hand,
    "take_hand": take_hand,
    "force": force,
}
