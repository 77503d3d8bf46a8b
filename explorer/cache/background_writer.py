"""Background writing of cache entries: one piece of work at a time, on its own thread."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from threading import Event, Thread, main_thread

from explorer.process.forking import ForkLock

AFTER_S = 1.0  # a program is usually run right after it is compiled, and needs the cores; chosen
FORK_S = 10.0  # patience before a fork; work that takes longer waits for a lock, and goes on
LOOK_S = 0.02  # between two looks at whether the process ends

Work = Callable[[], object]


class _Waiting:
    """Work that begins after a delay, or at once when it is needed or the process ends.

    Python waits for the thread at exit, so a short process stores its results too.
    """

    def __init__(self, work: Work) -> None:
        """Start the thread that waits."""
        self._work, self._needed = work, Event()
        self._thread = Thread(target=self._do, name="ironworks keeping")
        self._thread.start()

    def _do(self) -> None:
        """Wait, then do the work."""
        end = time.monotonic() + AFTER_S
        while time.monotonic() < end and main_thread().is_alive():
            if self._needed.wait(LOOK_S):
                break
        self._work()

    def finish(self, most_s: float | None = None) -> None:
        """Wait until the work is done, at most `most_s` seconds."""
        self._needed.set()
        self._thread.join(most_s)


_last: _Waiting | None = None
_lock = ForkLock()


def later(work: Work) -> None:
    """Schedule work for soon, and finish the previous work first.

    The work is done at once if no thread can be started.
    """
    global _last
    with _lock:
        finish()
        try:
            _last = _Waiting(work)
        except RuntimeError:
            work()


def finish() -> None:
    """Finish waiting work, so that it takes no core from what is measured next."""
    global _last
    with _lock:
        if _last is not None:
            _last.finish()
        _last = None


def _before_fork() -> None:
    """Finish waiting work before a fork, as far as patience allows."""
    waiting = _last  # without the lock: who holds it may wait for this thread
    if waiting is not None:
        waiting.finish(FORK_S)


def _forget_in_child() -> None:
    """Drop the work in a child, which has none of it to do."""
    global _last
    _last = None


if hasattr(os, "register_at_fork"):
    # Called before the locks are taken, as the last that was registered is the first: the work
    # needs them. The child has none of it to do.
    os.register_at_fork(before=_before_fork, after_in_child=_forget_in_child)
