"""Progress on one line of a terminal's stderr; other streams get nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from explorer.plain_text import shown

__all__ = ["Say", "progress_line", "step_progress"]

Say = Callable[[str], None]
CLEAR = "\r\x1b[2K"


@contextmanager
def progress_line(what: str = "") -> Iterator[Say]:
    """Yield a function that replaces the progress line.

    The line is cleared when the block ends, also by Ctrl-C.
    """
    if not sys.stderr.isatty():
        yield lambda text: None
        return

    def say(text: str) -> None:
        sys.stderr.write(f"{CLEAR}{shown(text)[:79]}")
        sys.stderr.flush()

    if what:
        say(what)
    try:
        yield say
    finally:
        sys.stderr.write(CLEAR)
        sys.stderr.flush()


def step_progress(say: Say) -> Callable[[str, int, int], None]:
    """Return the callback that a pipeline calls before each of its steps."""

    def progress(name: str, done: int, total: int) -> None:
        filled = round(20 * done / total) if total else 0
        say(f"[{'█' * filled}{'·' * (20 - filled)}] {done}/{total}  {name}")

    return progress
