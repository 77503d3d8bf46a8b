"""A kernel whose source is edited: read, kept, dropped, run in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from widgets.session.changing import Changing
from widgets.session.edits import Subject


def edit(s: Changing, call: int) -> Any:
    """The source of a kernel as it is edited; raises BadOption where none can be run."""
    return s.trials.told(_subject(s, call), s.edited)


def keep_edit(s: Changing, call: int, source: str) -> Any:
    """Another text for a kernel; it is kept with the state, and nothing runs."""
    mine = _subject(s, call)
    s.edited = s.trials.kept(mine, s.edited, source)
    return s.trials.told(mine, s.edited)


def drop_edit(s: Changing, call: int, again: bool = False) -> Any:
    """The kernel as it is compiled, or `again` the text that was dropped last."""
    mine = _subject(s, call)
    gone = s.edited.dropped.get(mine.name) if again else None
    kept = s.edited.without(mine.name) if gone is None else s.edited.with_edit(mine.name, gone)
    s.edited = kept
    return s.trials.told(mine, s.edited)


def try_edit(s: Changing, call: int) -> Any:
    """Begin to run an edited kernel in a process of its own, against ours."""
    return s.trials.start(_subject(s, call), s.edited, s.bench.jobs)


def _subject(s: Changing, call: int) -> Subject:
    s.with_code()
    return s.trials.subject(s.now, s.house, call)


ANSWERS: Mapping[str, Callable[..., Any]] = {
    "edit": edit,
    "keep_edit": keep_edit,
    "drop_edit": drop_edit,
    "try_edit": try_edit,
}
