"""A long step tells how far it is, and ends between two of its parts when nobody wants it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from explorer.ops.reference.cancellation import end_if_unwanted

Progress = Callable[[str, int, int], None]

_progress: ContextVar[Progress | None] = ContextVar("progress", default=None)


@contextmanager
def telling(progress: Progress | None) -> Iterator[None]:
    """Inside, `told` calls `progress`."""
    token = _progress.set(progress)
    try:
        yield
    finally:
        _progress.reset(token)


def listener() -> Progress | None:
    """Who is told now: work that compiles inside hands it on."""
    return _progress.get()


def told(name: str, done: int, total: int) -> None:
    """Tell that `done` of `total` parts are done. Raises Cancelled where nobody wants the rest."""
    end_if_unwanted(name)
    progress = _progress.get()
    if progress is not None:
        progress(name, done, total)
