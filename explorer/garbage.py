"""Less work for Python's garbage collector while something is loaded or compiled: it took half the
time of the translation.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

YOUNG = 50_000  # objects made before the youngest are looked through; Python's own 700 is for less

_rare = Event()  # while a block is open


@contextmanager
def rare_collections() -> Iterator[None]:
    """What lives already is not looked through until the block ends, and what is made in it less
    often. Blocks within one another, or of several threads, are one.
    """
    # Python counts what is frozen one by one: all objects there are, inside of another block.
    if _rare.is_set() or gc.get_freeze_count() or not gc.isenabled():
        yield
        return
    before = gc.get_threshold()
    _rare.set()
    gc.freeze()
    gc.set_threshold(max(YOUNG, before[0]), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
        _rare.clear()


def collect_young() -> None:
    """Let go of what was made since the last look and refers to itself in circles, as the IR of a
    kernel does: a millisecond a kernel, 5 MB of SqueezeNet's peak.
    """
    gc.collect(0)
