"""Output on a terminal: the answer of a command, and progress on one line of stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from explorer.plain_text import shown
from explorer.views.answer import Answer, to_json_types

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


def print_answer(answer: Answer, as_json: bool) -> int:
    """Print the answer in one of its forms and return the exit code."""
    if as_json:
        print(json.dumps(to_json_types(answer.data), indent=2, allow_nan=False))
    else:
        print(shown(answer.text))
    return 0 if answer.yes else 1
