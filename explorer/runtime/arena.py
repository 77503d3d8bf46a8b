"""Memory that starts on a cache line, and pools of it."""

from __future__ import annotations

import numpy as np

ALIGNMENT = 64


def aligned_bytes(count: int, alignment: int = ALIGNMENT) -> np.ndarray:
    """That many bytes, not set, whose first is at a multiple of `alignment`."""
    block = np.empty(count + alignment, np.uint8)
    start = -address_of(block) % alignment
    return block[start : start + count]


def address_of(array: np.ndarray) -> int:
    """The address of an array's first element."""
    return int(array.__array_interface__["data"][0])


def aligned_array(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> np.ndarray:
    """A fresh C-ordered array, not set, whose first element is on a cache line."""
    count = dtype.itemsize
    for extent in shape:
        count *= extent
    return aligned_bytes(count).view(dtype).reshape(shape)


def is_in_place(array: np.ndarray) -> bool:
    """Whether kernels can work on the array's own bytes: C order, on a cache line."""
    return bool(array.flags.c_contiguous) and address_of(array) % ALIGNMENT == 0


def in_place(array: np.ndarray) -> np.ndarray:
    """The array itself where kernels can work on it, else a copy."""
    if is_in_place(array):
        return array
    copy = aligned_array(array.shape, array.dtype)
    np.copyto(copy, array)
    return copy
