"""Memory aligned to cache lines."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable

import numpy as np

from explorer.errors import TooLarge
from explorer.process.budget import size_text

ALIGNMENT = 64
_word_at = ctypes.c_ssize_t.from_address


def aligned_bytes(count: int, alignment: int = ALIGNMENT) -> np.ndarray:
    """Return uninitialised bytes whose first address is a multiple of `alignment`.

    Raises:
        TooLarge: The system has no memory for them.
    """
    try:
        block = np.empty(count + alignment, np.uint8)
    except MemoryError as error:
        raise _no_room(count) from error
    start = -address_of(block) % alignment
    return block[start : start + count]


def _no_room(count: int) -> TooLarge:
    """Return the error of an allocation that the system refuses.

    A limit of the process may be below the budget, which knows the machine and its groups.
    """
    return TooLarge(
        f"a run needs {size_text(count)} in one piece, and the system does not give them to this "
        "process",
        actual=f"{count} bytes",
        try_="smaller sizes, or a higher limit of the process (ulimit -v)",
    )


def _interface_address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def _read_address(array: np.ndarray) -> int:
    """Return the address in NumPy's array object, after Python's header: ten times faster."""
    return _word_at(id(array) + object.__basicsize__).value


def _fastest_correct() -> Callable[[np.ndarray], int]:
    block = np.arange(12)
    probes = (
        block,
        block[3:],
        block[::-2],
        np.array(1.5),
        np.zeros((0, 4)),
        block.view(np.recarray),
    )
    if sys.implementation.name != "cpython":
        return _interface_address
    right = all(_read_address(p) == _interface_address(p) for p in probes)
    return _read_address if right else _interface_address


address_of = _fastest_correct()  # of an array's first element


def aligned_array(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> np.ndarray:
    """Return an uninitialised C-ordered array whose first element is on a cache line.

    Raises:
        TooLarge: The system has no memory for it.
    """
    count = dtype.itemsize
    for extent in shape:
        count *= extent
    try:
        block = np.empty(count + ALIGNMENT, np.uint8)
    except MemoryError as error:
        raise _no_room(count) from error
    return np.ndarray(shape, dtype, block, -address_of(block) % ALIGNMENT)


def is_in_place(array: np.ndarray) -> bool:
    """Return True if kernels can work on the array's own bytes: C order, on a cache line."""
    return bool(array.flags.c_contiguous) and address_of(array) % ALIGNMENT == 0


def in_place(array: np.ndarray) -> np.ndarray:
    """Return the array itself if kernels can work on it, else a copy."""
    if is_in_place(array):
        return array
    copy = aligned_array(array.shape, array.dtype)
    np.copyto(copy, array)
    return copy
