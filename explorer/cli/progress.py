"""What is being done now, on one line of a terminal's stderr; nothing anywhere else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from explorer.plain_text import shown

__all__ = ["Say", "doing", "steps"]

Say = Callable[[str], None]
CLEAR = "\r\x1b[2K"


@contextmanager
def doing(what: str = "") -> Iterator[Say]:
    """A function that replaces the line, which is gone when the block ends, also by Ctrl-C."""
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


def steps(say: Say) -> Callable[[str, int, int], None]:
    """What a pipeline calls before each of its steps."""

    def progress(name: str, done: int, total: int) -> None:
        filled = round(20 * done / total) if total else 0
        say(f"[{'█' * filled}{'·' * (20 - filled)}] {done}/{total}  {name}")

    return progress
