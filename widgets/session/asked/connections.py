"""Welder's connections moved by hand: joined, left apart, timed, taken."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from widgets.rooms import why_nots
from widgets.session.changing import Changing
from widgets.session.verdict import Step


def hand(s: Changing, device: str = "") -> Any:
    """The moves, and what they change."""
    return s.hands.told(s.now, device)


def move(s: Changing, value: str, level: str, device: str = "") -> Any:
    """One value to another level; the reason where that is refused."""
    return s.hands.move(s.now, value, level, device)


def join(s: Changing, value: str, device: str = "") -> Any:
    """One value to the nearest level that has room for it; the reason where there is none."""
    return s.hands.join(s.now, value, device)


def unmove(s: Changing, device: str = "", everything: bool = False) -> Any:
    """The last move undone, or all of them."""
    return s.hands.unmove(s.now, device, everything)


def time_hand(s: Changing, device: str = "") -> Any:
    """Begin to compile what was moved by hand, and to time it against what is on show."""
    s.with_code()
    us = s.shown.planned_us
    return s.hands.start(s.now, s.inputs, s.bench.jobs, s.comparing.compare, us)


def take_hand(s: Changing, device: str = "") -> Any:
    """Compile what was moved by hand, and go on with it."""
    what = ", ".join(f"{value} → {level}" for value, level in s.hand.moves)
    changed = s.hands.compiled(s.now)
    return s.show_next(Step(replace(s.now, compiled=changed), what))


def force(s: Changing, value: str) -> Any:
    """Join a value by hand that Welder's policy left apart; the reason where that is not legal."""
    changed = replace(s.now, compiled=why_nots.forced(s.now, value))
    return s.show_next(Step(changed, f"{value} joined by hand"))


ANSWERS: Mapping[str, Callable[..., Any]] = {
    "hand": hand,
    "move": move,
    "join": join,
    "unmove": unmove,
    "time_hand": time_hand,
    "take_hand": take_hand,
    "force": force,
}
