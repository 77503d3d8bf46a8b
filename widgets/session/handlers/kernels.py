"""Questions about a kernel whose source is edited: read, store, discard, run it in a sandbox."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from widgets.session.edits import Subject
from widgets.session.mutable_session import MutableSession


def edit(s: MutableSession, call: int) -> Any:
    """Return the edited source of a kernel; raises BadOption if none can be run."""
    return s.trials.edit_part(_subject(s, call), s.edited)


def keep_edit(s: MutableSession, call: int, source: str) -> Any:
    """Store another text for a kernel in the state; nothing runs."""
    mine = _subject(s, call)
    s.edited = s.trials.with_source(mine, s.edited, source)
    return s.trials.edit_part(mine, s.edited)


def drop_edit(s: MutableSession, call: int, restore: bool = False) -> Any:
    """Discard a kernel's edit, or with `restore` restore the one that was discarded last."""
    mine = _subject(s, call)
    gone = s.edited.dropped.get(mine.name) if restore else None
    edits = s.edited.without(mine.name) if gone is None else s.edited.with_edit(mine.name, gone)
    s.edited = edits
    return s.trials.edit_part(mine, s.edited)


def try_edit(s: MutableSession, call: int) -> Any:
    """Begin to run an edited kernel in its own process, against the compiled one."""
    return s.trials.start(_subject(s, call), s.edited, s.bench.jobs)


def _subject(s: MutableSession, call: int) -> Subject:
    s.with_code()
    return s.trials.subject(s.now, s.house, call)


ANSWERS: Mapping[str, Callable[..., Any]] = {
    "edit": edit,
    "keep_edit": keep_edit,
    "drop_edit": drop_edit,
    "try_edit": try_edit,
}
