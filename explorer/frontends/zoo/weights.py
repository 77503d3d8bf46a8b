"""Weights drawn on demand, each from a stream of its own.

A weight is its name, its shape and its distribution; a seed determines the array. It does not
depend on other draws: the ONNX graph and the NumPy run of a model have the same weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from math import prod

import numpy as np

ALIGNMENT = 64  # bytes, for vector loads


@dataclass(frozen=True, slots=True)
class Weight:
    """A tensor of normal numbers with mean `centre` and standard deviation `spread`.

    `arranged` rearranges the drawn tensor.
    """

    name: str
    shape: tuple[int, ...]
    spread: float
    centre: float = 0.0
    arranged: Callable[[np.ndarray], np.ndarray] | None = None

    @property
    def count(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    def drawn(self, seed: int) -> np.ndarray:
        """Return the float32 array of a seed, aligned for vector loads."""
        entropy = int.from_bytes(blake2b(self.name.encode(), digest_size=16).digest())
        random = np.random.Generator(np.random.SFC64([seed, entropy]))
        values = aligned(self.count)
        random.standard_normal(dtype=np.float32, out=values)
        values *= np.float32(self.spread)
        if self.centre:
            values += np.float32(self.centre)
        drawn = values.reshape(self.shape)
        return self.arranged(drawn) if self.arranged else drawn


def aligned(count: int) -> np.ndarray:
    """Return an uninitialised float32 array, aligned for vector loads."""
    room = np.empty(4 * count + ALIGNMENT, np.uint8)
    skip = -room.ctypes.data % ALIGNMENT
    return room[skip : skip + 4 * count].view(np.float32)
