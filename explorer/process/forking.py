"""Locks that a fork leaves unlocked in the child.

A child whose lock another thread held at the fork would wait for ever. So would one that imports
what another thread was importing.
"""

from __future__ import annotations

import _frozen_importlib
import _imp
import os
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
PACKAGE = __name__.partition(".")[0]

_numbers = count()
_awaited: list[tuple[int, AbstractContextManager[Any]]] = []
_every: WeakValueDictionary[int, ForkLock] = WeakValueDictionary()
_forking = threading.local()  # what a thread that forks holds, and what it did not get


class ForkLock(RLock):  # type: ignore[misc]  # CPython's may be a base
    """Reentrant lock that no other thread holds while a process forks.

    The state that it guards is consistent in the child, where the lock is free. A fork takes all
    locks in the order of their creation, so a lock that is held while another one is taken must be
    the older of the two.

    It is acquired and released by C code alone: Ctrl-C in a Python method between the two left it
    locked, and the next thread waited for ever.
    """

    def __init__(self) -> None:
        """Create a lock and register it for forks."""
        super().__init__()
        _every[next(_numbers)] = self


def waits_for(rank: int, lock: AbstractContextManager[Any]) -> None:
    """Make every fork wait for a lock, however long it takes.

    Of two locks that a thread holds at once, the one that it takes first has the lower rank.
    """
    _awaited.append((rank, lock))


def _is_importing() -> bool:
    """Return True if another thread imports a module of this package.

    Python's lock of that module would stay locked in the child. It is held before the module is in
    `sys.modules`.
    """
    locks = vars(_frozen_importlib).get("_module_locks", {})
    own = (ref() for name, ref in list(locks.items()) if str(name).startswith(PACKAGE))
    me = threading.get_ident()
    return any(lock is not None and lock.owner not in (None, me) for lock in own)


def _before() -> None:
    """Acquire every lock before a fork, as far as patience allows.

    No import begins after that: while the locks were awaited, one may have.
    """
    end = time.monotonic() + IMPORT_SECONDS
    while True:
        while _is_importing() and time.monotonic() < end:
            time.sleep(LOOK_SECONDS)
        _acquire_locks()
        _imp.acquire_lock()
        if not _is_importing() or time.monotonic() >= end:
            return
        _after()


def _acquire_locks() -> None:
    _forking.awaited = [lock for _, lock in sorted(_awaited, key=lambda ranked: ranked[0])]
    for lock in _forking.awaited:
        lock.__enter__()
    _forking.acquired, _forking.missed = [], []
    for _, fork_lock in sorted(_every.items()):
        is_acquired = fork_lock.acquire(timeout=PATIENCE_SECONDS)
        (_forking.acquired if is_acquired else _forking.missed).append(fork_lock)


def _after() -> None:
    """Release the locks that the fork acquired, and let imports begin."""
    _imp.release_lock()
    for fork_lock in reversed(_forking.acquired):
        fork_lock.release()
    for lock in reversed(_forking.awaited):
        lock.__exit__(None, None, None)
    _forking.acquired, _forking.awaited = [], []


def _after_in_child() -> None:
    """Release the locks in the child, and reset those that could not be acquired."""
    _after()
    for lock in _forking.missed:
        lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after_in_child)
