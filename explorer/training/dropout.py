"""Dropout by numbers that are counted, not drawn: a key and the place of an element say whether it
stays, so that a value that is computed again is the same, on any number of threads.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

import explorer.np as enp
from explorer.errors import BadOption, ShapeError

GOLDEN = 0x9E3779B9  # 2**32 over the golden ratio: it spreads what is counted


def dropout(x: Any, share: float, key: Any, layer: int = 0) -> Any:
    """`x` with about that share of its elements 0, and the others larger by 1 / (1 - share).

    `key` is two integers, a seed and a step (`fit` gives them); `layer` tells apart what is dropped
    in one step. The numbers are hashes of 32 bits, as Salmon et al. 2011 (Parallel random numbers:
    as easy as 1, 2, 3) count them, mixed by Wellons' lowbias32. BadOption for a share that is not
    from 0 to less than 1.
    """
    if not 0 <= share < 1:
        raise BadOption(f"a share that is dropped is from 0 to less than 1, not {share!r}")
    if share == 0:
        return x
    kept = random_bits(x.shape, key, layer) >= np.uint32(share * 2**32)
    return enp.where(kept, x * (1 / (1 - share)), 0)


def random_bits(shape: tuple[Any, ...], key: Any, layer: int = 0) -> Any:
    """An array of uint32 of that shape, each equally likely. Its extents are numbers."""
    if not all(isinstance(n, int) for n in shape):
        raise ShapeError(f"random numbers are drawn for a known shape, not {shape}")
    with np.errstate(over="ignore"):  # numbers of 32 bits wrap around
        seed, step = (key[n].astype("uint32") for n in range(2))
        stream = _mixed(_mixed(seed + np.uint32(layer * GOLDEN % 2**32)) ^ step)
        places = enp.arange(prod(shape)).astype("uint32").reshape(shape)
        return _mixed(_mixed(places * np.uint32(GOLDEN) + stream) + stream)


def _mixed(x: Any) -> Any:
    """Every bit of 32 as a function of every other."""
    x = (x ^ (x // np.uint32(2**16))) * np.uint32(0x7FEB352D)
    x = (x ^ (x // np.uint32(2**15))) * np.uint32(0x846CA68B)
    return x ^ (x // np.uint32(2**16))
