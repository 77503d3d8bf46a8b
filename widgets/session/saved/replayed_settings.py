"""Options and hardware figures of a saved state, set again in one step."""

from __future__ import annotations

from collections.abc import Mapping

from widgets.draw.table import count_text
from widgets.model.controls import settings
from widgets.model.knobs import Setting, with_settings
from widgets.session.verdict import HistoryEntry


def settings_of(now: Setting, knobs: Mapping[str, str]) -> HistoryEntry | None:
    """Return the step to the settings in a state's knobs; None if they are already in place.

    Raises BadOption if one cannot have its value.
    """
    wanted = {
        name.removeprefix(settings.SET): text
        for name, text in knobs.items()
        if name.startswith(settings.SET)
    }
    have = settings.changes(now.compiled)
    new = {name: text for name, text in wanted.items() if have.get(name) != text}
    if not new:
        return None
    knobs_of = [settings.knob(now.compiled, name, text) for name, text in new.items()]
    words = ", ".join(f"{k.label} {k.labels[0]} → {k.labels[1]}" for k in knobs_of[:2])
    more = f" and {count_text(len(new) - 2, 'setting')} more" if len(new) > 2 else ""
    return HistoryEntry(with_settings(now, new), f"{words}{more}")
