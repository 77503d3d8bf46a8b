"""Code of the user's own is ended when nobody wants its answer any more.

Ctrl-C reaches the main thread alone. Where work goes on beside, a watch asks whether it was
cancelled, and raises an exception in the thread that works: between two of its bytecodes, so a loop
that never ends does end. Only somebody else's code is ended so; our own asks by itself.
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
Asked = Callable[[], bool]

_cancelled: ContextVar[Asked | None] = ContextVar("cancelled", default=None)


class _Unwanted(BaseException):
    """Raised in the thread that works; no `except Exception` of the user's holds it up."""


@contextmanager
def cancellable(cancelled: Asked | None) -> Iterator[None]:
    """Inside, code of the user's own ends when `cancelled()` says so."""
    token = _cancelled.set(cancelled)
    try:
        yield
    finally:
        _cancelled.reset(token)


def wanted_by() -> Asked | None:
    """Who is asked now whether the answer is wanted: work that compiles inside hands it on."""
    return _cancelled.get()


def end_if_unwanted(what: str) -> None:
    """Raises Cancelled where nobody wants the answer any more: our own code asks by this."""
    cancelled = _cancelled.get()
    if cancelled is not None and cancelled():
        raise Cancelled(f"{what} was stopped", where=what)


@contextmanager
def while_wanted(what: str) -> Iterator[None]:
    """Somebody else's code runs inside; Cancelled where it was ended."""
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
    except _Unwanted:
        watch.end()
        raise Cancelled(f"{what} was stopped", where=what) from None


class _Watch:
    """A thread that asks; what it raises in the one that works, it raises before `end` is over."""

    def __init__(self, cancelled: Asked) -> None:
        self.cancelled, self.thread = cancelled, get_ident()
        self.lock, self.over = Lock(), Event()
        self.raised = False
        Thread(target=self.watch, name="ironworks watch", daemon=True).start()

    def watch(self) -> None:
        """Until the work is over: whoever caught the exception gets it again."""
        while not self.over.wait(SECONDS):
            if self.cancelled():
                with self.lock:
                    if not self.over.is_set():
                        self.raised = True
                        _raise_in(self.thread)

    def end(self) -> None:
        """Nothing is raised after this, and nothing waits to be.

        One that may be on its way is awaited: taken back, it would leave the interpreter looking
        for it at every call, and a profiler in a circle (CPython 3.11).
        """
        while not self.over.is_set():
            try:
                with self.lock:
                    self.over.set()
            except _Unwanted:  # it came while the watch was ended
                continue
        if self.raised:
            with suppress(_Unwanted):
                _raise_in(self.thread)  # instead of one that waits
                while True:
                    sleep(0)


def _raise_in(thread: int) -> None:
    """Raise the exception in a thread at its next bytecode."""
    error = ctypes.py_object(_Unwanted)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), error)
