"""Ctrl-C at any moment leaves no lock taken."""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType
from typing import Any

import pytest

from explorer.process.forking import ForkLock

INTERRUPTS = 300


def is_free(lock: ForkLock) -> bool:
    """Whether another thread may take it."""
    found = []

    def ask() -> None:
        if lock.acquire(timeout=1):
            found.append(True)
            lock.release()

    asking = threading.Thread(target=ask)
    asking.start()
    asking.join()
    return bool(found)


def test_no_line_of_python_runs_between_a_lock_taken_and_its_block() -> None:
    """An interrupt may come with any line, call or return of ours: none is in between."""
    lock, seen = ForkLock(), []

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        seen.append(frame.f_code.co_name)
        return trace

    def taken() -> None:
        with lock:
            pass

    sys.settrace(trace)
    try:
        taken()
    finally:
        sys.settrace(None)
    assert set(seen) <= {"taken"}
    assert is_free(lock)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers of a process here")
def test_a_lock_is_free_after_hundreds_of_interrupts() -> None:
    lock, left = ForkLock(), INTERRUPTS

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupted)
    try:
        while left:
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0005)
                while True:
                    with lock:
                        pass
            except KeyboardInterrupt:
                left -= 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert is_free(lock)
