"""Progress reports and cancellation points of long steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from explorer.ops.reference.cancellation import raise_if_cancelled

Progress = Callable[[str, int, int], None]

_progress: ContextVar[Progress | None] = ContextVar("progress", default=None)


@contextmanager
def reporting_to(progress: Progress | None) -> Iterator[None]:
    """Send progress reports made inside the context to `progress`."""
    token = _progress.set(progress)
    try:
        yield
    finally:
        _progress.reset(token)


def current_listener() -> Progress | None:
    """Return the current receiver of progress, for nested compilations."""
    return _progress.get()


def report_progress(name: str, done: int, total: int) -> None:
    """Report that `done` of `total` parts are done; raise Cancelled if the user cancelled."""
    raise_if_cancelled(name)
    progress = _progress.get()
    if progress is not None:
        progress(name, done, total)
