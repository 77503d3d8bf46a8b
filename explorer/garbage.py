"""Less work for Python's garbage collector while something is loaded or compiled: it took half the
time of the translation.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG = 50_000  # objects made before the youngest are looked through; Python's own 700 is for less


@contextmanager
def rare_collections() -> Iterator[None]:
    """What lives already is not looked through until the block ends, and what is made in it less
    often. Blocks within one another, or of several threads, are one.
    """
    if gc.get_freeze_count() or not gc.isenabled():
        yield
        return
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(max(YOUNG, before[0]), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
