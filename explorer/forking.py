"""Locks that a fork leaves in order: a child in which another thread's lock stayed locked would
wait for ever. So would one that imports what another thread was importing.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from _thread import RLock
from contextlib import AbstractContextManager
from itertools import count
from typing import Any
from weakref import WeakValueDictionary

PATIENCE_SECONDS = 1.0  # with one lock, before a fork; who holds it longer waits for something
IMPORT_SECONDS = 10.0  # with what another thread imports
LOOK_SECONDS = 0.001

_numbers = count()
_awaited: list[tuple[int, AbstractContextManager[Any]]] = []
_every: WeakValueDictionary[int, ForkLock] = WeakValueDictionary()
_forking = threading.local()  # what a thread that forks holds, and what it did not get


class ForkLock(RLock):  # type: ignore[misc]  # CPython's may be a base
    """A lock of which no other thread holds the inside while a process forks: what it guards is
    whole in the child, where it is free. A thread may take it again while it holds it.

    A fork takes all locks in the order in which they were made: one that is held while another one
    is taken must be the older. It is taken and given back by C code alone: Ctrl-C in a method of
    ours, between the two, left it taken, and the next thread that wanted it waited for ever.
    """

    def __init__(self) -> None:
        super().__init__()
        _every[next(_numbers)] = self


def waits_for(rank: int, lock: AbstractContextManager[Any]) -> None:
    """A fork waits for a lock however long it takes. Of two that a thread holds at once, the one
    that it takes first has the lower rank.
    """
    _awaited.append((rank, lock))


def _imports_end() -> None:
    """No other thread is importing a module of ours, or patience is over: Python's lock of a module
    stays locked in the child.
    """
    end = time.monotonic() + IMPORT_SECONDS
    while time.monotonic() < end and any(
        name.startswith(__package__) and getattr(module.__spec__, "_initializing", False)
        for name, module in list(sys.modules.items())
    ):
        time.sleep(LOOK_SECONDS)


def _before() -> None:
    _imports_end()
    _forking.awaited = [lock for _, lock in sorted(_awaited, key=lambda ranked: ranked[0])]
    for lock in _forking.awaited:
        lock.__enter__()
    _forking.held, _forking.missed = [], []
    for _, one in sorted(_every.items()):
        found = one.acquire(timeout=PATIENCE_SECONDS)
        (_forking.held if found else _forking.missed).append(one)


def _after() -> None:
    for one in reversed(_forking.held):
        one.release()
    for lock in reversed(_forking.awaited):
        lock.__exit__(None, None, None)
    _forking.held, _forking.awaited = [], []


def _after_in_child() -> None:
    _after()
    for one in _forking.missed:
        one._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after_in_child)
