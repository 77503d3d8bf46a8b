"""Progress reports of long steps, their cancellation, and that of user code that is still running.

Ctrl-C reaches the main thread only. For work in another thread, a watch polls whether it was
cancelled, and raises an exception in the working thread between two bytecodes. So an endless loop
ends too. Only user code is ended in this way; the compiler's own code polls by itself.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from threading import Event, Lock, Thread, get_ident
from time import sleep

from explorer.errors import Cancelled

SECONDS = 0.05  # between two questions
IsCancelled = Callable[[], bool]

_cancelled: ContextVar[IsCancelled | None] = ContextVar("cancelled", default=None)


class _CancelledWork(BaseException):
    """The exception raised in the working thread; `except Exception` does not catch it."""


@contextmanager
def cancellable(cancelled: IsCancelled | None) -> Iterator[None]:
    """Let user code in the block end when `cancelled()` is true."""
    token = _cancelled.set(cancelled)
    try:
        yield
    finally:
        _cancelled.reset(token)


def current_cancellation() -> IsCancelled | None:
    """Return the current cancellation callback, to hand on to work in other threads."""
    return _cancelled.get()


def raise_if_cancelled(what: str) -> None:
    """Raise Cancelled if the work was cancelled; the compiler's own code calls this."""
    cancelled = _cancelled.get()
    if cancelled is not None and cancelled():
        raise Cancelled(f"{what} was stopped", where=what)


@contextmanager
def cancelling_user_code(what: str) -> Iterator[None]:
    """Run user code in the block; raise Cancelled if it was ended."""
    cancelled = _cancelled.get()
    if cancelled is None:
        yield
        return
    watch = _Watch(cancelled)
    try:
        try:
            yield
        finally:
            watch.end()
    except _CancelledWork:
        watch.end()
        raise Cancelled(f"{what} was stopped", where=what) from None


class _Watch:
    """A thread that polls; any exception it raises arrives before `end` returns."""

    def __init__(self, cancelled: IsCancelled) -> None:
        """Start the thread, for the calling one."""
        self.cancelled, self.thread = cancelled, get_ident()
        self.lock, self.over = Lock(), Event()
        self.raised = False
        Thread(target=self.watch, name="ironworks watch", daemon=True).start()

    def watch(self) -> None:
        """Poll until the work is over; raise again if the exception was caught."""
        while not self.over.wait(SECONDS):
            if self.cancelled():
                with self.lock:
                    if not self.over.is_set():
                        self.raised = True
                        _raise_in(self.thread)

    def end(self) -> None:
        """Stop the watch; no exception is raised or pending afterwards.

        One that may be pending is awaited. If it were withdrawn, the interpreter would check for it
        at every call, and a profiler would loop (CPython 3.11).
        """
        while not self.over.is_set():
            try:
                with self.lock:
                    self.over.set()
            except _CancelledWork:  # it came while the watch was ended
                continue
        if self.raised:
            with suppress(_CancelledWork):
                _raise_in(self.thread)  # instead of a pending one
                while True:
                    sleep(0)


def _raise_in(thread: int) -> None:
    """Raise the exception in a thread at its next bytecode."""
    error = ctypes.py_object(_CancelledWork)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), error)


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
