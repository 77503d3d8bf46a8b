"""A request of a warp to shared memory. It is served a bank at a time: it takes as many cycles as
one bank has different words to give, for as many threads at once as 128 bytes are for. That is a
whole warp for up to 32 bits each, half of one for 64, a quarter for 128 (NVIDIA, CUDA C++
programming guide, 16.5.3, and Nsight Compute's documentation of shared memory).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

WARP, BANKS, WORD_BYTES = 32, 32, 4  # of every GPU that CUDA knows
Whole: TypeAlias = NDArray[np.int64]


def lanes_at_once(lane_bytes: int) -> int:
    """How many threads of a warp are served together that ask for so many bytes each."""
    return max(1, min(WARP, BANKS * WORD_BYTES // max(WORD_BYTES, lane_bytes)))


def served(words: Whole, lane_bytes: int) -> Iterator[tuple[int, dict[int, dict[int, list[int]]]]]:
    """A request by its parts that are served together: the first thread of each, and for each bank
    its words with the threads that ask for them.
    """
    step = lanes_at_once(lane_bytes)
    for first in range(0, len(words), step):
        banks: dict[int, dict[int, list[int]]] = {}
        for lane, row in enumerate(words[first : first + step].tolist(), first):
            for word in row:
                if word >= 0:
                    banks.setdefault(word % BANKS, {}).setdefault(word, []).append(lane)
        if banks:
            yield first, banks


def cycles_of(words: Whole, lane_bytes: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What each warp of a block waits for a request, and what it would without conflicts."""
    cycles, least = [0] * -(-len(words) // WARP), [0] * -(-len(words) // WARP)
    for first, banks in served(words, lane_bytes):
        cycles[first // WARP] += max(len(found) for found in banks.values())
        least[first // WARP] += 1
    return tuple(cycles), tuple(least)
