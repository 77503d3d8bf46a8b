"""Dropout with counter-based random numbers: a key and an element's position decide.

Recomputed values are therefore the same, on any number of threads.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

import explorer.np as enp
from explorer.errors import BadOption, ShapeError

GOLDEN = 0x9E3779B9  # 2**32 over the golden ratio: it spreads consecutive counters


def dropout(x: Any, share: float, key: Any, layer: int = 0) -> Any:
    """Set about `share` of the elements of `x` to 0 and scale the others by 1 / (1 - share).

    `key` is two integers, a seed and a step (`fit` passes them); `layer` distinguishes the dropouts
    of one step. The numbers are 32-bit hashes of counters, as in Salmon et al. 2011 (Parallel
    random numbers: as easy as 1, 2, 3), mixed by Wellons' lowbias32.

    Raises:
        BadOption: the share is not in [0, 1).
    """
    if not 0 <= share < 1:
        raise BadOption(f"the dropout share must be at least 0 and less than 1, not {share!r}")
    if share == 0:
        return x
    mask = random_bits(x.shape, key, layer) >= np.uint32(share * 2**32)
    return enp.where(mask, x * (1 / (1 - share)), 0)


def random_bits(shape: tuple[Any, ...], key: Any, layer: int = 0) -> Any:
    """Return uniform uint32 values of a shape whose extents are numbers."""
    if not all(isinstance(n, int) for n in shape):
        raise ShapeError(f"random numbers are drawn for a known shape, not {shape}")
    with np.errstate(over="ignore"):  # numbers of 32 bits wrap around
        seed, step = (key[n].astype("uint32") for n in range(2))
        stream = _mix(_mix(seed + np.uint32(layer * GOLDEN % 2**32)) ^ step)
        places = enp.arange(prod(shape)).astype("uint32").reshape(shape)
        return _mix(_mix(places * np.uint32(GOLDEN) + stream) + stream)


def _mix(x: Any) -> Any:
    """Mix 32 bits so that each output bit depends on each input bit."""
    x = (x ^ (x // np.uint32(2**16))) * np.uint32(0x7FEB352D)
    x = (x ^ (x // np.uint32(2**15))) * np.uint32(0x846CA68B)
    return x ^ (x // np.uint32(2**16))
