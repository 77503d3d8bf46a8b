"""A line under a notebook cell that shows the progress of a long opening."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import copy_context
from html import escape
from threading import Event, Thread
from time import monotonic

from IPython.core.getipython import get_ipython
from IPython.display import DisplayHandle

SOON_SECONDS = 0.12  # a quicker opening shows no line
EVERY_SECONDS = 0.25


class ProgressLine:
    """The text of the line; `at` is a compilation's `progress`."""

    def __init__(self, what: str) -> None:
        """Start the clock with a first text."""
        self.what, self.begin = what, monotonic()

    def say(self, what: str) -> None:
        """Replace the text."""
        self.what = what

    def at(self, step: str, done: int, of: int) -> None:
        """Show the present step of a compilation."""
        self.say(f"Compiling: {step}, {min(done + 1, of)} of {of}")

    @property
    def html(self) -> str:
        """The text with the seconds since the start."""
        seconds = f"{monotonic() - self.begin:.0f} s"
        style = "font:13px/28px var(--jp-ui-font-family,sans-serif);color:inherit;opacity:.8"
        return f'<div style="{style}">{escape(self.what)} · {seconds}</div>'


SILENT = ProgressLine("")


@contextmanager
def progress_line(what: str) -> Iterator[ProgressLine]:
    """Show a line under the cell until the block ends; nothing outside a notebook.

    A thread draws it, because one step of a compilation may take seconds.
    """
    line, over = ProgressLine(what), Event()
    if getattr(get_ipython(), "kernel", None) is None:
        yield line
        return
    drawer = Thread(target=copy_context().run, args=(_draw, line, over), daemon=True)
    drawer.start()
    try:
        yield line
    finally:
        over.set()
        drawer.join()


def _draw(line: ProgressLine, over: Event) -> None:
    if over.wait(SOON_SECONDS):
        return
    handle = DisplayHandle()
    handle.display({"text/html": line.html}, raw=True)
    while not over.wait(EVERY_SECONDS):
        handle.update({"text/html": line.html}, raw=True)
    handle.update({"text/html": ""}, raw=True)
