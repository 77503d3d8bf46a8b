"""Arrays of files that are mapped read-only: their pages are memory that the system can take."""

from __future__ import annotations

import mmap

import numpy as np


def is_mapped(array: np.ndarray) -> bool:
    """Return True if the elements lie in a file that is mapped read-only."""
    return not array.flags.writeable and _mapping(array) is not None


def drop_pages(array: np.ndarray) -> None:
    """Take the pages of a mapped array out of this process; reading it maps them again.

    Other arrays are left alone.
    """
    mapping = _mapping(array)
    if mapping is None or not hasattr(mapping[0], "madvise"):
        return
    memory, begin = mapping
    start = begin // mmap.PAGESIZE * mmap.PAGESIZE
    memory.madvise(mmap.MADV_DONTNEED, start, begin + array.nbytes - start)


def _mapping(array: np.ndarray) -> tuple[mmap.mmap, int] | None:
    """Return the mapping that a contiguous array lies in, and its first byte there."""
    base: object = array
    while isinstance(base, np.ndarray):
        outermost, base = base, base.base
    if not isinstance(base, mmap.mmap) or not array.flags.c_contiguous:
        return None
    return base, array.ctypes.data - outermost.ctypes.data
