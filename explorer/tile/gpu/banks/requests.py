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
    """What each warp of a block waits for a request, and what it would without conflicts: `words`
    has a row a thread, negative where it asks for nothing.
    """
    step = lanes_at_once(lane_bytes)
    parts = -(-len(words) // step)
    asks = words >= 0
    part = np.broadcast_to(np.arange(len(words))[:, None] // step, words.shape)[asks]
    base = int(words.max(initial=0)) + 1
    which, word = np.divmod(np.unique(part * base + words[asks]), base)
    found = np.bincount(which * BANKS + word % BANKS, minlength=parts * BANKS)
    most = found.reshape(parts, BANKS).max(axis=1, initial=0)
    ends = range(0, parts, WARP // step)
    cycles = tuple(int(most[n : n + WARP // step].sum()) for n in ends)
    return cycles, tuple(int((most[n : n + WARP // step] > 0).sum()) for n in ends)
