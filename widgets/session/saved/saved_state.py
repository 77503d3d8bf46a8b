"""Saved state of a session in a link or a file, and a time that was loaded with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from explorer.measure.machine import machine
from widgets.draw.table import time_text
from widgets.model.compiled import Measurement
from widgets.model.controls import settings
from widgets.model.knob import Knob
from widgets.model.knobs import Setting
from widgets.model.step_knobs import HIDDEN, is_default
from widgets.session import state
from widgets.session.saved import replayed_moves as by_hand
from widgets.session.state import State


@dataclass(frozen=True, slots=True)
class LoadedTime:
    """A time that was loaded with a saved state, and the setting that it belongs to."""

    setting: Setting
    time: tuple[Any, ...]

    def describe(self, now: Setting) -> str:
        """Describe the time with the machine that measured it; "" if another setting is on show."""
        if not self.time or not self._is_of(now):
            return ""
        where, us, low, high, n = self.time
        between = f"{time_text(low)} to {time_text(high)}, n = {n:,}"
        return f"saved: {time_text(us)} on {where}; 99% interval {between}"

    def time_to_save(self, now: Setting, time: Measurement | None) -> tuple[Any, ...]:
        """Return the time that is saved with a setting: the one measured here, else the loaded."""
        if time is not None:
            us = (float(time.median_us), float(time.low_us), float(time.high_us))
            return machine().line, *us, int(time.n)
        return self.time if self._is_of(now) else ()

    def _is_of(self, now: Setting) -> bool:
        """Return True if the setting is the same, with or without code."""
        mine, other = self.setting, now
        return (mine.sizes, mine.compiled.options) == (other.sizes, other.compiled.options)


def restored_text(left: Sequence[str]) -> str:
    """Describe a restored link; `left` lists the knob values that could not be restored."""
    but = f", but for {', '.join(left)}" if left else ""
    return f"The state of the link is restored{but}."


def state_of(now: Setting, knobs: Sequence[Knob], state: State) -> State:
    """Return a state with the knobs by their labels, options, hardware and manual moves."""
    turned = {
        k.name: k.labels[k.now]
        for k in knobs
        if len(k.labels) > 1
        and (not is_default(k) if k.kind == HIDDEN else k.now != k.pinned or k.name != "tile")
    }
    for name, text in settings.changes(now.compiled).items():
        turned[f"{settings.SET}{name}"] = text
    return by_hand.with_manual_moves(now, replace(state, knobs=turned))


def link(now: State) -> dict[str, str]:
    """Return the end of a link to a state; `left` says what is too long for a link."""
    text = state.fragment(now)
    has_all_edits = state.from_fragment(text).edits == now.edits
    return {
        "text": text,
        "left": "" if has_all_edits else "Edited kernels are too long for a link.",
    }


def read(text: str) -> State:
    """Read the state in the end of a link or in a file; raises SnapshotError if it is invalid."""
    return state.parse_state(text) if text.startswith("{") else state.from_fragment(text)
