"""A warp's request to shared memory, and the cycles that bank conflicts cost.

It takes as many cycles as one bank has different words to supply, for as many threads at once as
128 bytes serve. That is a whole warp for up to 32 bits each, half of one for 64, a quarter for 128
(NVIDIA, CUDA C++ programming guide, 16.5.3, and Nsight Compute's documentation of shared memory).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

WARP, BANKS, WORD_BYTES = 32, 32, 4  # of every GPU that CUDA knows
Words: TypeAlias = NDArray[np.int64]


def lanes_at_once(lane_bytes: int) -> int:
    """Return how many threads of a warp are served together that request so many bytes each."""
    return max(1, min(WARP, BANKS * WORD_BYTES // max(WORD_BYTES, lane_bytes)))


def request_parts(
    words: Words, lane_bytes: int
) -> Iterator[tuple[int, dict[int, dict[int, list[int]]]]]:
    """Yield the parts of a request that are served together.

    Each has its first thread, and for each bank its words with the threads that request them.
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


def cycles_of(words: Words, lane_bytes: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the cycles of each warp of a block for a request, with and without conflicts.

    `words` has a row a thread, negative where it requests nothing.
    """
    step = lanes_at_once(lane_bytes)
    parts = -(-len(words) // step)
    active = words >= 0
    part = np.broadcast_to(np.arange(len(words))[:, None] // step, words.shape)[active]
    base = int(words.max(initial=0)) + 1
    which, word = np.divmod(np.unique(part * base + words[active]), base)
    counts = np.bincount(which * BANKS + word % BANKS, minlength=parts * BANKS)
    most = counts.reshape(parts, BANKS).max(axis=1, initial=0)
    ends = range(0, parts, WARP // step)
    cycles = tuple(int(most[n : n + WARP // step].sum()) for n in ends)
    return cycles, tuple(int((most[n : n + WARP // step] > 0).sum()) for n in ends)
