"""Locks that a fork leaves in order: a child in which another thread's lock stayed locked would
wait for ever.
"""

from __future__ import annotations

import os
import threading
from itertools import count
from weakref import WeakValueDictionary

PATIENCE_SECONDS = 1.0  # with one lock, before a fork; who holds it longer waits for something

_numbers = count()
_every: WeakValueDictionary[int, ForkLock] = WeakValueDictionary()
_forking = threading.local()  # what a thread that forks holds, and what it did not get


class ForkLock:
    """A lock of which no other thread holds the inside while a process forks: what it guards is
    whole in the child, where it is free. A thread may take it again while it holds it.

    A fork takes all locks in the order in which they were made: one that is held while another one
    is taken must be the older.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _every[next(_numbers)] = self

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def _before() -> None:
    _forking.held, _forking.missed = [], []
    for _, one in sorted(_every.items()):
        found = one._lock.acquire(timeout=PATIENCE_SECONDS)
        (_forking.held if found else _forking.missed).append(one)


def _after() -> None:
    for one in reversed(_forking.held):
        one._lock.release()
    _forking.held = []


def _after_in_child() -> None:
    _after()
    for one in _forking.missed:
        one._lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after_in_child)
