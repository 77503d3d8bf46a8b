"""What of a session can be kept, in a link or a file, and a time that came with one."""

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
from widgets.session.kept import replayed_moves as by_hand
from widgets.session.state import State


@dataclass(frozen=True, slots=True)
class Brought:
    """A time that came with a saved state, as the state has it, and the setting that it is of."""

    setting: Setting
    time: tuple[Any, ...]

    def told(self, now: Setting) -> str:
        """It in words, with the machine that it was measured on, beside whatever is measured here;
        "" where another setting is on show.
        """
        if not self.time or not self._is_of(now):
            return ""
        where, us, low, high, n = self.time
        between = f"{time_text(low)} to {time_text(high)}, n = {n:,}"
        return f"saved: {time_text(us)} on {where}; 99% interval {between}"

    def kept(self, now: Setting, time: Measurement | None) -> tuple[Any, ...]:
        """The time that is saved with a setting: the one measured here, else the one that came."""
        if time is not None:
            us = (float(time.median_us), float(time.low_us), float(time.high_us))
            return machine().line, *us, int(time.n)
        return self.time if self._is_of(now) else ()

    def _is_of(self, now: Setting) -> bool:
        """Code or none, it is the same setting."""
        mine, other = self.setting, now
        return (mine.sizes, mine.compiled.options) == (other.sizes, other.compiled.options)


def restored(left: Sequence[str]) -> str:
    """Say that the state of a link is on show, but for these values of knobs and why."""
    but = f", but for {', '.join(left)}" if left else ""
    return f"The state of the link is restored{but}."


def state_of(now: Setting, knobs: Sequence[Knob], kept: State) -> State:
    """A state with the knobs by their labels, with options, hardware and what was moved by hand."""
    turned = {
        k.name: k.labels[k.now]
        for k in knobs
        if len(k.labels) > 1
        and (not is_default(k) if k.kind == HIDDEN else k.now != k.pinned or k.name != "tile")
    }
    for name, text in settings.changes(now.compiled).items():
        turned[f"{settings.SET}{name}"] = text
    return by_hand.told(now, replace(kept, knobs=turned))


def link(now: State) -> dict[str, str]:
    """The end of a link to a state; `left` says what is too long for one."""
    text = state.fragment(now)
    held = state.from_fragment(text).edits == now.edits
    return {"text": text, "left": "" if held else "Edited kernels are too long for a link."}


def read(text: str) -> State:
    """The state in the end of a link, or in a file; raises SnapshotError where it is none."""
    return state.parsed(text) if text.startswith("{") else state.from_fragment(text)
