"""Weights that are drawn when they are needed, each from a stream of its own.

A weight is its name, its shape and its distribution; a seed makes it an array. Which array does not
depend on what else was drawn: the ONNX graph and the NumPy run of a model have the same weights.
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
    """A tensor of normal numbers around `centre`, `spread` wide.

    `arranged` makes of the tensor of this shape another one of the same numbers.
    """

    name: str
    shape: tuple[int, ...]
    spread: float
    centre: float = 0.0
    arranged: Callable[[np.ndarray], np.ndarray] | None = None

    @property
    def count(self) -> int:
        """How many numbers it holds."""
        return prod(self.shape)

    def drawn(self, seed: int) -> np.ndarray:
        """The float32 array that this seed gives, its first byte aligned for vector loads."""
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
    """Room for that many float32 numbers, aligned for vector loads."""
    room = np.empty(4 * count + ALIGNMENT, np.uint8)
    skip = -room.ctypes.data % ALIGNMENT
    return room[skip : skip + 4 * count].view(np.float32)
